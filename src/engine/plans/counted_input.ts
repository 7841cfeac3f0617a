/**
 * What a source holds, counted exactly: its items by model, and the lines that would fail. Nothing is sent.
 */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import type { DiskFile } from "../../disk.ts";
import { ANSWERS_MAX } from "../../dispatch/retry.ts";
import { PerigeeError } from "../../errors.ts";
import { LINE_BYTES_MAX, readBlocks } from "../../jsonl/read.ts";
import { volumeTokensOf } from "../../price/factor.ts";
import type { QuoteFault } from "../../price/quote.ts";
import type { MeasuredBlock } from "../../shard/measured.ts";
import type { LineSet } from "../../work/line_set.ts";
import type { EngineCore } from "../core.ts";
import { closeInput, openInput, type Source } from "../files/input.ts";
import { ExpectedUsage } from "../learnt/expected_usage.ts";
import { readRunSchema, type SchemaOptions } from "../schemas/run_schema.ts";

/** What a source holds. */
export interface Counted {
  readonly usage: ExpectedUsage;
  readonly models: Set<string>;
  rejectedLines: number;
  firstFault: QuoteFault | undefined;
  volumeTokens: number;
}

/** How a source is read. */
export interface SourceOptions extends SchemaOptions {
  readonly model?: string;
  /** Bytes of the whole work, for its volume. Default: the file's size; a stream has no volume. */
  readonly sizeBytes?: number;
  /** More different models than this are `too_many`. Default: as many as there are. */
  readonly modelsMax?: number;
  /** Receives what was read, in order. */
  readonly onBlock?: ((block: MeasuredBlock) => void) | undefined;
  /** Aborting stops the reading. */
  readonly signal?: AbortSignal;
}

/** Reads a source to its end. Throws as `run` does for an input that cannot be read, and `too_many`. */
export async function countSource(
  core: EngineCore,
  source: Source,
  options: SourceOptions,
): Promise<Counted> {
  const { sizeBytes, signal, schema: given, schemaTries, ...others } = options;
  const { json: schema, fit } = await readRunSchema({
    ...(given === undefined ? {} : { schema: given }),
    ...(schemaTries === undefined ? {} : { schemaTries }),
  });
  const spool = join(core.storage.dataDir, "tasks", `quote-${randomUUID()}.jsonl`);
  const input = await openInput({ ...core.storage, signal }, source, spool);
  const volumeTokens = volumeTokensOf(sizeBytes ?? input.identity?.sizeBytes);
  try {
    const { answersMax } = fit;
    return await countLines(core, input.file, {
      ...others,
      ...(signal === undefined ? {} : { signal }),
      ...{ volumeTokens, schema, answersMax },
    });
  } finally {
    await closeInput(core.storage.disk, input, "remove");
  }
}

interface CountOptions extends Omit<SourceOptions, "sizeBytes" | keyof SchemaOptions> {
  /** What providers are asked for where items say nothing themselves, as JSON. */
  readonly schema?: string | undefined;
  /** Answers for an item at most, if they are checked. */
  readonly answersMax?: number;
  readonly volumeTokens: number;
  readonly done?: Pick<LineSet, "slice" | "has">;
}

/** Reads the lines of a file that are not `done`. Throws `too_many`. */
export async function countLines(
  core: EngineCore,
  file: Pick<DiskFile, "read">,
  {
    model,
    modelsMax = Number.POSITIVE_INFINITY,
    signal,
    volumeTokens,
    done,
    schema,
    answersMax = ANSWERS_MAX,
    onBlock,
  }: CountOptions,
): Promise<Counted> {
  const counted: Counted = {
    usage: new ExpectedUsage(core.figures, { isChecked: schema !== undefined, answersMax }),
    models: new Set(),
    rejectedLines: 0,
    firstFault: undefined,
    volumeTokens,
  };
  const take = (measured: MeasuredBlock): void => {
    addBlock(counted, measured, modelsMax);
    onBlock?.(measured);
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
      schema,
      ...(model === undefined ? {} : { modelOverride: model }),
    });
    measuring.catch(() => undefined); // an earlier one may end the quote first
    waiting.push(measuring);
    if (waiting.length > core.measurer.concurrency) take(await (waiting.shift() as Promise<MeasuredBlock>));
  }
  for (const measured of waiting) take(await measured);
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
