/**
 * Quotes: what a source would take, counted exactly and priced, without sending anything.
 */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import type { DiskFile } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import { LINE_BYTES_MAX, readBlocks } from "../../jsonl/read.ts";
import { volumeTokensOf } from "../../price/factor.ts";
import { type Quote, type QuoteFault, type QuoteInput, quote, type TimeNeeded } from "../../price/quote.ts";
import type { MeasuredBlock } from "../../shard/measured.ts";
import type { LineSet } from "../../work/line_set.ts";
import { parseSlaMinutes, SLA_MINUTES_MAX } from "../../work/sla.ts";
import { unlessAborted } from "../abort.ts";
import type { EngineCore } from "../core.ts";
import { closeInput, openInput, type Source } from "../files/input.ts";
import { ASSUMED_SPEED, ExpectedUsage } from "../learnt/expected_usage.ts";
import { forecastBehind } from "./forecast_behind.ts";

const MINUTE_MS = 60_000;
/** A guess at a window is longer than the one before by so much at least: fewer than 200 for 30 days. */
const GUESS_STEP = 1.05;

/** Options of `engine.quote`. */
export interface QuoteOptions {
  /** Windows to quote, in minutes. Default: 60 and 1,440. */
  readonly slas?: readonly number[];
  readonly model?: string;
  /** The project of the work: then it waits for what waits in this engine. Default: nothing waits. */
  readonly project?: string;
  /** Bytes of the whole work, for its volume. Default: the file's size; a stream has no volume. */
  readonly sizeBytes?: number;
  /** More different models than this are `too_many`. Default: as many as there are. */
  readonly modelsMax?: number;
  /** Aborting stops the reading and rejects with its reason. */
  readonly signal?: AbortSignal;
}

/** What a source holds. */
interface Counted {
  readonly usage: ExpectedUsage;
  readonly models: Set<string>;
  rejectedLines: number;
  firstFault: QuoteFault | undefined;
  volumeTokens: number;
}

/** Lines that would fail are counted by themselves. Throws as `run` does for an input that cannot be read. */
export async function quoteSource(core: EngineCore, source: Source, options: QuoteOptions): Promise<Quote> {
  const slasMinutes = (options.slas ?? [60, 1_440]).map(
    (sla, index) => parseSlaMinutes(sla, `sla ${index + 1}`) ?? 0,
  );
  const { signal, project } = options;
  signal?.throwIfAborted();
  const counted = await unlessAborted(countSource(core, source, options), signal);
  const behind = project === undefined ? {} : { behindSeconds: behindSeconds(core, project) };
  return quoteOf(core, counted, { slasMinutes, ...behind });
}

/** What is left of a run. */
export interface RestOptions extends Pick<QuoteOptions, "model" | "signal"> {
  readonly slas: readonly number[];
  readonly volumeTokens: number;
  /** Lines that are not counted. */
  readonly done: Pick<LineSet, "slice" | "has">;
}

/** The quote of lines that are not done yet; reads the input to its end. */
export async function quoteRest(
  core: EngineCore,
  file: Pick<DiskFile, "read">,
  { slas, volumeTokens, ...options }: RestOptions,
): Promise<Quote> {
  const counted = await countLines(core, file, { volumeTokens, ...options });
  return quoteOf(core, counted, { slasMinutes: slas });
}

function quoteOf(
  core: EngineCore,
  { usage, rejectedLines, firstFault, volumeTokens }: Counted,
  asked: Pick<QuoteInput, "slasMinutes" | "behindSeconds">,
): Quote {
  const wallMs = core.storage.clock.wallMs();
  const quoted = quote({
    totals: usage.totals(),
    rejectedLines,
    volumeTokens,
    wallMs,
    card: core.config.rateCard,
    price: (model) => core.figures.prices.price(model, wallMs),
    times: timesOf(core, usage),
    assumptions: ASSUMED_SPEED,
    ...asked,
  });
  return firstFault === undefined ? quoted : { ...quoted, first_fault: firstFault };
}

/**
 * As admission sees it (tasks/usage/admission.ts): the earliest window that it would accept, or the time in the shortest one.
 * The longer a window, the more that is accepted and not read is before it: so each guess, in whole minutes as an sla is,
 * uses the result of the one before, until it holds.
 */
function behindSeconds(core: EngineCore, project: string): NonNullable<QuoteInput["behindSeconds"]> {
  return (model, items, inputTokens) => {
    const nowMs = core.storage.clock.nowMs();
    let foundMs = 0; // from now
    for (let minutes = 1; minutes <= SLA_MINUTES_MAX; ) {
      const windowMs = minutes * MINUTE_MS;
      const forecast = forecastBehind(core, { project, model, items, inputTokens, windowMs });
      if (forecast.sla !== "infeasible") {
        const aloneMs = Math.max(0, forecast.doneMs - nowMs);
        return (minutes === 1 ? aloneMs : Math.max(foundMs, windowMs - MINUTE_MS + 1)) / 1_000;
      }
      foundMs = forecast.earliestDeadlineMs - nowMs;
      minutes = Math.max(Math.ceil(minutes * GUESS_STEP), Math.ceil(foundMs / MINUTE_MS));
    }
    return Math.max(foundMs, SLA_MINUTES_MAX * MINUTE_MS + 1) / 1_000;
  };
}

function timesOf(core: EngineCore, usage: ExpectedUsage): Map<string, TimeNeeded> {
  const works = usage.works();
  const times = core.sending.lanes.forecasts.workTimes(works);
  return new Map(
    works.map(({ model, isMeasured }) => {
      const { ms, boundBy } = times.get(model) ?? { ms: 0, boundBy: "nothing" as const };
      return [model, { seconds: ms / 1_000, boundBy, isMeasured }];
    }),
  );
}

async function countSource(core: EngineCore, source: Source, options: QuoteOptions): Promise<Counted> {
  const { sizeBytes, signal } = options;
  const spool = join(core.storage.dataDir, "tasks", `quote-${randomUUID()}.jsonl`);
  const input = await openInput({ ...core.storage, signal }, source, spool);
  const volumeTokens = volumeTokensOf(sizeBytes ?? input.identity?.sizeBytes);
  try {
    return await countLines(core, input.file, { ...options, volumeTokens });
  } finally {
    await closeInput(core.storage.disk, input, "remove");
  }
}

interface CountOptions extends Pick<QuoteOptions, "model" | "modelsMax" | "signal"> {
  readonly volumeTokens: number;
  readonly done?: Pick<LineSet, "slice" | "has">;
}

async function countLines(
  core: EngineCore,
  file: Pick<DiskFile, "read">,
  { model, modelsMax = Number.POSITIVE_INFINITY, signal, volumeTokens, done }: CountOptions,
): Promise<Counted> {
  const counted: Counted = {
    usage: new ExpectedUsage(core.figures.answers),
    models: new Set(),
    rejectedLines: 0,
    firstFault: undefined,
    volumeTokens,
  };
  const waiting: Promise<MeasuredBlock>[] = [];
  for await (const event of readBlocks(file, { lineBytesMax: LINE_BYTES_MAX })) {
    if (signal?.aborted === true) break; // the caller that waits reports it
    if (event.kind === "refused") {
      const { line, lengthBytes } = event.refused;
      if (done?.has(line) === true) continue;
      const message = `the line has ${lengthBytes} bytes, at most ${LINE_BYTES_MAX} are read`;
      addFaults(counted, [{ line, code: "line_too_long", message }]);
      continue;
    }
    const measuring = core.measurer.measure(event.block, {
      wantBodies: false,
      skip: done?.slice(event.block.firstLine, event.block.lineCount),
      aliases: core.config.aliases.first,
      ...(model === undefined ? {} : { modelOverride: model }),
    });
    measuring.catch(() => undefined); // an earlier one may end the quote first
    waiting.push(measuring);
    if (waiting.length > core.measurer.concurrency)
      addBlock(counted, await (waiting.shift() as Promise<MeasuredBlock>), modelsMax);
  }
  for (const measured of waiting) addBlock(counted, await measured, modelsMax);
  return counted;
}

/** Throws `too_many`. */
function addBlock(counted: Counted, measured: MeasuredBlock, modelsMax: number): void {
  for (const { model } of measured.groups) counted.models.add(model);
  if (counted.models.size > modelsMax)
    throw new PerigeeError("too_many", `a quote has at most ${modelsMax} different models`);
  addFaults(counted, measured.rejected);
  counted.usage.addBlock(measured);
}

/** Blocks end in any order of their faults. */
function addFaults(counted: Counted, faults: readonly QuoteFault[]): void {
  counted.rejectedLines += faults.length;
  for (const { line, code, message } of faults)
    if (line < (counted.firstFault?.line ?? Number.POSITIVE_INFINITY))
      counted.firstFault = { line, code, message };
}
