/**
 * Recovery: what a task's journal and output say after any kind of stop.
 *
 *   replay the steps -> check the last output range -> void it if a power cut damaged it
 *     -> adopt whole output lines beyond the last step -> cut a torn tail -> lines in doubt
 *
 * Nothing is sent before this is over, and every arrow may be interrupted and begun again: replaying changes nothing,
 * a void step is appended before the output is cut, and adopted lines stay where they are until a step covers them.
 */
import { crc32 } from "node:zlib";
import type { Moment } from "../clock.ts";
import type { DiskFile } from "../disk.ts";
import { readKey } from "../jsonl/layout.ts";
import { type ReadOutput, readOutputLine, wholeLinesEnd } from "../jsonl/write.ts";
import type { Taken } from "../price/budget.ts";
import type { Store, StoredEntry } from "../store/store.ts";
import { NO_USAGE, type Usage } from "../work/outcome.ts";
import { checksumText } from "./checksum.ts";
import type { EstimateCost } from "./estimate.ts";
import {
  type IntentRecord,
  NOTHING_SPENT,
  type OutcomeRecord,
  readStep,
  StepWriter,
  stamped,
} from "./journal.ts";
import { readWhole } from "./line_bytes.ts";
import type { LineSet } from "./line_set.ts";
import { type OutputFile, outputChanged } from "./output.ts";
import type { PriceTable } from "./price_table.ts";
import { type AttemptsMade, Replay } from "./replay.ts";
import type { StepListener } from "./task_log.ts";
import type { Totals } from "./totals.ts";

/** The longest tail beyond the last step that is looked at: far above what one commit writes. */
const TAIL_BYTES_MAX = 256 * 1024 * 1024;

const LINE_END = 0x0a;

/** As where a provider does not say what it counted. */
const CHARS_PER_TOKEN = 4;

export interface Recovered {
  readonly done: LineSet;
  readonly totals: Totals;
  readonly made: ReadonlyMap<number, AttemptsMade>;
  /** Lines that wait in the journal for room in the output. */
  readonly held: readonly Uint8Array[];
  /** What providers took for all attempts so far, those in doubt included. */
  readonly taken: Taken;
}

export interface RecoveryOptions {
  readonly store: Pick<Store, "append">;
  /** The journal's entries that count. */
  readonly entries: AsyncIterable<StoredEntry>;
  readonly taskId: string;
  readonly output: OutputFile;
  readonly input: Pick<DiskFile, "read">;
  readonly moment: Moment;
  /** Empty; filled with what the journal tells. */
  readonly prices: PriceTable;
  /** For answers whose usage was not recorded. */
  readonly estimateCost: EstimateCost;
  /** Told of every step, also of those that recovery adds. */
  readonly onStep?: StepListener | undefined;
}

/** Throws `output_changed` when the output holds less than what was recorded. */
export async function recover(options: RecoveryOptions): Promise<Recovered> {
  const replay = new Replay();
  for await (const entry of options.entries) {
    const step = readStep(entry.records);
    replay.apply(entry.sequence, step);
    options.prices.restore(step.prices);
    options.onStep?.(entry.sequence, step, entry.wallMs);
  }
  await checkWhole(options, replay);
  await checkLastRange(options, replay);
  await adoptTail(options, replay);
  options.output.resume(replay.outEnd, replay.outCrc32);
  await options.output.cut();
  const { done, totals, held } = replay;
  return { done, totals, made: replay.attemptsMade(), held, taken: replay.taken() };
}

/** Bytes before the last step were synced before it was written: other content there was written by another program. */
async function checkWhole({ output }: RecoveryOptions, { last, outEnd, outCrc32 }: Replay): Promise<void> {
  const end = last?.range.outStart ?? outEnd;
  const found = await output.checksum(end);
  if (found !== checksumText(last?.crc32Before ?? outCrc32, end))
    throw outputChanged(output.path, found, end, await output.change());
}

/** A power cut can damage only the range of the last step, because the next step waits for its sync. It never converts a file. */
async function checkLastRange(options: RecoveryOptions, replay: Replay): Promise<void> {
  const { last, outEnd } = replay;
  const { output } = options;
  if (last === undefined || (await output.renew(last.range))) return;
  const change = await output.change();
  if (change !== undefined) throw outputChanged(output.path, await output.checksum(outEnd), outEnd, change);
  const records = new StepWriter().finish({
    outStart: last.range.outStart,
    outEnd: last.range.outStart,
    outCrc32: 0,
    voids: last.sequence,
    committedUsd: replay.committedUsd,
  });
  await options.store.append([stamped({ taskId: options.taskId, records }, options.moment)]);
  options.onStep?.(0, readStep(records), options.moment.wallMs);
  replay.voidLast(last.sequence);
}

/** Whole lines beyond the last step were written before the crash: they are answers, and are not asked for again. */
async function adoptTail(options: RecoveryOptions, replay: Replay): Promise<void> {
  const { output } = options;
  if (output.end <= replay.outEnd || output.end - replay.outEnd > TAIL_BYTES_MAX) return;
  const tail = await output.read(replay.outEnd, output.end);
  const whole = endedLines(tail, replay);
  const adopted = adoptedLines(
    Buffer.from(whole).toString(),
    await keysInDoubt(options.input, replay),
    replay,
  );
  if (adopted.length === 0) return;
  const bytes = adopted.reduce((sum, { lineBytes }) => sum + lineBytes, 0);
  const step = new StepWriter();
  options.prices.whenAdded = (price) => step.price(price);
  const outcomes: OutcomeRecord[] = [];
  for (const line of adopted) outcomes.push(await adoptedOutcome(line, options, replay));
  for (const { found } of adopted) if (found.warnings !== undefined) step.warned(found.warnings);
  for (const outcome of outcomes) step.outcome(outcome, outcome.lineBytes, outcome.lineCrc32);
  const outStart = replay.outEnd;
  output.resume(outStart, replay.outCrc32);
  const { range, write } = output.claim(whole.subarray(0, bytes));
  const records = step.finish({ ...range, voids: 0, committedUsd: replay.committedUsd });
  await options.store.append([stamped({ taskId: options.taskId, records, output: write }, options.moment)]);
  options.onStep?.(0, readStep(records), options.moment.wallMs);
  for (const outcome of outcomes) replay.settle(outcome);
  for (const { found } of adopted) if (found.warnings !== undefined) replay.totals.warn(found.warnings, 1);
  replay.outEnd = range.outEnd;
  replay.outCrc32 = output.crc32;
}

/** The whole lines of a tail. The last line counts without its line end if its checksum is a recorded one. */
function endedLines(tail: Uint8Array, { voided }: Replay): Uint8Array {
  const end = wholeLinesEnd(tail);
  const ended = Buffer.concat([tail.subarray(end), Buffer.of(LINE_END)]);
  const isRecorded = [...voided.values()].some(
    ({ lineBytes, lineCrc32 }) => lineBytes === ended.byteLength && lineCrc32 === crc32(ended),
  );
  return isRecorded ? Buffer.concat([tail.subarray(0, end), ended]) : tail.subarray(0, end);
}

/** Keys of the lines whose request was under way, read from the input. */
async function keysInDoubt(
  input: Pick<DiskFile, "read">,
  replay: Replay,
): Promise<Map<string, IntentRecord>> {
  const keys = new Map<string, IntentRecord>();
  for (const intent of replay.open.values()) {
    const found = readKey(await readWhole(input, intent.offset, intent.lengthBytes));
    if (found.ok) keys.set(found.key, intent);
  }
  return keys;
}

interface AdoptedLine {
  readonly line: number;
  readonly found: ReadOutput;
  /** Its last request, when it was under way. */
  readonly intent: IntentRecord | undefined;
  readonly lineBytes: number;
  readonly lineCrc32: number;
}

/** The longest run of tail lines that are certainly ours. */
function adoptedLines(tail: string, inDoubt: Map<string, IntentRecord>, replay: Replay): AdoptedLine[] {
  const adopted: AdoptedLine[] = [];
  const seen = new Set<number>();
  for (const text of tail.split("\n").slice(0, -1)) {
    const found = readOutputLine(text);
    const intent = found?.key === undefined || found.key === null ? undefined : inDoubt.get(found.key);
    const line = intent?.line ?? found?.line;
    if (found === undefined || line === undefined || replay.done.has(line) || seen.has(line)) break;
    seen.add(line);
    const lineCrc32 = crc32(`${text}\n`);
    adopted.push({ line, found, intent, lineBytes: Buffer.byteLength(text) + 1, lineCrc32 });
  }
  return adopted;
}

/** What is known of an item whose answer was not recorded: its earlier attempts, and an estimate of the last one. */
async function adoptedOutcome(
  { line, found, intent, lineBytes, lineCrc32 }: AdoptedLine,
  { input, estimateCost }: RecoveryOptions,
  replay: Replay,
): Promise<OutcomeRecord> {
  const voided = replay.voided.get(line);
  if (voided !== undefined) return { ...voided, lineBytes, lineCrc32 };
  const before = replay.spent.get(line);
  const { isEstimated, priceNumber, ...sums } = before ?? NOTHING_SPENT;
  const isUnsent = found.errorCode === "expired" || found.errorCode === "cancelled";
  const record: OutcomeRecord = {
    line,
    status: found.ok ? "completed" : isUnsent ? (found.errorCode as "expired" | "cancelled") : "failed",
    code: found.ok ? undefined : found.errorCode,
    attempts: intent?.attempt ?? before?.attempts ?? 0,
    ambiguousAttempts: found.ambiguousAttempts ?? intent?.ambiguousAttempts ?? before?.ambiguousAttempts ?? 0,
    lineBytes,
    lineCrc32,
    isEstimated: isEstimated || intent !== undefined,
    inputTokens: sums.inputTokens,
    cachedTokens: sums.cachedTokens,
    outputTokens: sums.outputTokens,
    reasoningTokens: sums.reasoningTokens,
    listUsd: sums.listUsd,
    usd: sums.usd,
    billedUsd: sums.billedUsd,
    ambiguousUsd: sums.ambiguousUsd + (intent?.mostUsd ?? 0),
    priceNumber,
  };
  if (intent === undefined || !found.ok) return record;
  const usage: Usage = {
    ...NO_USAGE,
    inputTokens: intent.inputTokens,
    outputTokens: Math.ceil((found.textChars ?? 0) / CHARS_PER_TOKEN),
    isEstimated: true,
  };
  const inputLine = await readWhole(input, intent.offset, intent.lengthBytes);
  const cost = await estimateCost(inputLine, usage, found.model);
  return {
    ...record,
    inputTokens: record.inputTokens + usage.inputTokens,
    outputTokens: record.outputTokens + usage.outputTokens,
    listUsd: record.listUsd + cost.listUsd,
    usd: record.usd + cost.usd,
    // Its intent says the most that it cost; one of an old version does not.
    billedUsd: record.billedUsd + (intent.mostUsd > 0 ? 0 : cost.billedUsd),
    priceNumber: cost.priceNumber,
  };
}
