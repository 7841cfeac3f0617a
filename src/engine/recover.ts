/**
 * Recovery: what a task's journal and output say after any kind of stop.
 *
 *   replay the steps -> check the last output range -> void it if a power cut damaged it
 *     -> adopt whole output lines beyond the last step -> cut a torn tail -> lines in doubt
 *
 * Nothing is sent before this is over, and every arrow may be interrupted and begun again: replaying changes nothing,
 * a void step is appended before the output is cut, and adopted lines stay where they are until a step covers them.
 */
import type { Moment } from "../clock.ts";
import type { DiskFile } from "../disk.ts";
import { PerigeeError } from "../errors.ts";
import { readKey } from "../jsonl/layout.ts";
import { type ReadOutput, readOutputLine, wholeLinesEnd } from "../jsonl/write.ts";
import type { Store } from "../store/store.ts";
import { NO_USAGE, type Usage } from "../work/outcome.ts";
import type { EstimateCost } from "./estimate.ts";
import {
  type ClosedRecord,
  type IntentRecord,
  NOTHING_SPENT,
  type OutcomeRecord,
  readStep,
  type Spent,
  type Step,
  StepWriter,
  stamped,
} from "./journal.ts";
import { LineSet } from "./line_set.ts";
import type { OutputFile, WrittenRange } from "./output.ts";
import type { PriceTable } from "./price_table.ts";
import { RELEASES_HELD, type StepListener } from "./task_log.ts";
import { Totals } from "./totals.ts";

/** The longest tail beyond the last step that is looked at: far above what one commit writes. */
const TAIL_BYTES_MAX = 256 * 1024 * 1024;

/** As where a provider does not say what it counted. */
const CHARS_PER_TOKEN = 4;

/** Attempts already made for a line that has no outcome yet. */
export interface AttemptsMade {
  readonly attempts: number;
  readonly ambiguousAttempts: number;
  /** Of the attempts, those that met a stopped account. */
  readonly accountRefusals: number;
  /** True when the last attempt's end is unknown: it may have been answered and billed. */
  readonly isInDoubt: boolean;
  readonly spent: Spent;
}

export interface Recovered {
  readonly done: LineSet;
  readonly totals: Totals;
  readonly made: ReadonlyMap<number, AttemptsMade>;
  /** Lines that wait in the journal for room in the output. */
  readonly held: readonly Uint8Array[];
  /** Money that was spent or may have been. */
  readonly committedUsd: number;
}

export interface RecoveryOptions {
  readonly store: Pick<Store, "journal" | "append">;
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
  for await (const entry of options.store.journal(options.taskId)) {
    const step = readStep(entry.records);
    replay.apply(entry.sequence, step);
    options.prices.restore(step.prices);
    options.onStep?.(entry.sequence, step, entry.wallMs);
  }
  await checkLastRange(options, replay);
  await adoptTail(options, replay);
  await options.output.cut(replay.outEnd);
  return {
    done: replay.done,
    totals: replay.totals,
    made: replay.attemptsMade(),
    held: replay.held,
    committedUsd: Math.max(replay.committedUsd, replay.totals.listUsd),
  };
}

/** The state that steps add up to. */
class Replay {
  readonly done = new LineSet();
  readonly totals = new Totals();
  readonly open = new Map<number, IntentRecord>();
  readonly closed = new Map<number, ClosedRecord>();
  /** What attempts before the open one took. */
  readonly spent = new Map<number, ClosedRecord>();
  /** Outcomes whose range was damaged: their lines may be whole all the same. */
  readonly voided = new Map<number, OutcomeRecord>();
  committedUsd = 0;
  held: Uint8Array[] = [];
  outEnd = 0;
  last:
    | {
        readonly sequence: number;
        readonly range: WrittenRange;
        /** Whose lines stand in the range. */
        readonly outcomes: readonly OutcomeRecord[];
        /** What they had sent, by line. */
        readonly intents: ReadonlyMap<number, IntentRecord>;
        /** Held lines that stand in it instead; the journal has them still. */
        readonly released: readonly Uint8Array[];
      }
    | undefined;

  apply(sequence: number, step: Step): void {
    this.committedUsd = step.committedUsd;
    const isRelease = step.voids === RELEASES_HELD;
    const released = isRelease ? this.held : [];
    if (isRelease) this.held = [];
    else if (step.voids > 0) this.#void(step.voids);
    for (const intent of step.intents) {
      this.open.set(intent.line, intent);
      this.closed.delete(intent.line);
    }
    for (const record of step.closed) {
      this.spent.set(record.line, record);
      const intent = this.open.get(record.line);
      if (intent !== undefined && intent.attempt > record.attempts) continue; // the next attempt is in the same step
      this.open.delete(record.line);
      this.closed.set(record.line, record);
    }
    const intents = new Map<number, IntentRecord>();
    for (const outcome of step.outcomes) {
      const intent = this.open.get(outcome.line);
      if (intent !== undefined) intents.set(outcome.line, intent);
      this.settle(outcome);
    }
    if (step.held.byteLength > 0) this.held.push(step.held);
    if (step.outEnd > step.outStart) {
      this.last = { sequence, range: step, outcomes: isRelease ? [] : step.outcomes, intents, released };
      this.outEnd = step.outEnd;
    }
  }

  settle(outcome: OutcomeRecord): void {
    if (!this.done.add(outcome.line)) return;
    this.totals.add(outcome);
    this.open.delete(outcome.line);
    this.closed.delete(outcome.line);
    this.spent.delete(outcome.line);
  }

  attemptsMade(): Map<number, AttemptsMade> {
    const made = new Map<number, AttemptsMade>();
    for (const [line, record] of this.closed) made.set(line, madeOf(record));
    for (const [line, intent] of this.open) {
      made.set(line, {
        attempts: intent.attempt,
        ambiguousAttempts: intent.ambiguousAttempts + 1,
        accountRefusals: this.spent.get(line)?.accountRefusals ?? 0,
        isInDoubt: true,
        spent: this.spent.get(line) ?? NOTHING_SPENT,
      });
    }
    return made;
  }

  /** Undoes the outcomes of the last step that wrote output: only that one can be void. */
  #void(sequence: number): void {
    if (this.last?.sequence !== sequence) return;
    for (const outcome of this.last.outcomes) {
      this.done.delete(outcome.line);
      this.totals.remove(outcome);
      // What it took is counted still: its answer was paid for, and is asked for again.
      const ambiguousAttempts = outcome.ambiguousAttempts + 1;
      if (outcome.attempts > 0) {
        const closed = { ...outcome, ambiguousAttempts, accountRefusals: 0 };
        const intent = this.last.intents.get(outcome.line);
        if (intent === undefined) this.closed.set(outcome.line, closed);
        else this.open.set(outcome.line, intent);
        this.spent.set(outcome.line, closed);
        this.voided.set(outcome.line, outcome);
      }
    }
    this.held = [...this.last.released, ...this.held];
    this.outEnd = this.last.range.outStart;
    this.last = undefined;
  }

  voidLast(sequence: number): void {
    this.#void(sequence);
  }
}

function madeOf(record: ClosedRecord): AttemptsMade {
  const { attempts, ambiguousAttempts, accountRefusals } = record;
  return { attempts, ambiguousAttempts, accountRefusals, isInDoubt: false, spent: record };
}

/** A power cut can damage the range of the last step alone, since the next one waits for its sync. */
async function checkLastRange(options: RecoveryOptions, replay: Replay): Promise<void> {
  const { last } = replay;
  if (last === undefined || (await options.output.renew(last.range))) return;
  if (options.output.end < last.range.outStart) {
    throw new PerigeeError(
      "output_changed",
      `${options.output.path} has ${options.output.end} bytes, but ${last.range.outEnd} were recorded: put the file back, or start over with another --data`,
    );
  }
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
  const whole = tail.subarray(0, wholeLinesEnd(tail));
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
  for (const outcome of outcomes) step.outcome(outcome, outcome.lineBytes);
  const outStart = replay.outEnd;
  output.rewind(outStart);
  const { range, write } = output.claim(whole.subarray(0, bytes));
  const records = step.finish({ ...range, voids: 0, committedUsd: replay.committedUsd });
  await options.store.append([stamped({ taskId: options.taskId, records, output: write }, options.moment)]);
  options.onStep?.(0, readStep(records), options.moment.wallMs);
  for (const outcome of outcomes) replay.settle(outcome);
  replay.outEnd = range.outEnd;
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

/** A spool may give less than it is asked for at a time. */
async function readWhole(
  input: Pick<DiskFile, "read">,
  offset: number,
  lengthBytes: number,
): Promise<Uint8Array> {
  const bytes = new Uint8Array(lengthBytes);
  let filled = 0;
  while (filled < lengthBytes) {
    const length = await input.read(bytes.subarray(filled), offset + filled);
    if (length === 0) break;
    filled += length;
  }
  return bytes.subarray(0, filled);
}

interface AdoptedLine {
  readonly line: number;
  readonly found: ReadOutput;
  /** Its last request, when it was under way. */
  readonly intent: IntentRecord | undefined;
  readonly lineBytes: number;
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
    adopted.push({ line, found, intent, lineBytes: Buffer.byteLength(text) + 1 });
  }
  return adopted;
}

/** What is known of an item whose answer was not recorded: its earlier attempts, and an estimate of the last one. */
async function adoptedOutcome(
  { line, found, intent, lineBytes }: AdoptedLine,
  { input, estimateCost }: RecoveryOptions,
  replay: Replay,
): Promise<OutcomeRecord> {
  const voided = replay.voided.get(line);
  if (voided !== undefined) return { ...voided, lineBytes };
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
    isEstimated: isEstimated || intent !== undefined,
    inputTokens: sums.inputTokens,
    cachedTokens: sums.cachedTokens,
    outputTokens: sums.outputTokens,
    reasoningTokens: sums.reasoningTokens,
    listUsd: sums.listUsd,
    usd: sums.usd,
    priceNumber,
  };
  if (intent === undefined || !found.ok) return record;
  const usage: Usage = {
    ...NO_USAGE,
    inputTokens: intent.inputTokens,
    outputTokens: Math.ceil((found.textChars ?? 0) / CHARS_PER_TOKEN),
    isEstimated: true,
  };
  const cost = await estimateCost(await readWhole(input, intent.offset, intent.lengthBytes), usage);
  return {
    ...record,
    inputTokens: record.inputTokens + usage.inputTokens,
    outputTokens: record.outputTokens + usage.outputTokens,
    listUsd: record.listUsd + cost.listUsd,
    usd: record.usd + cost.usd,
    priceNumber: cost.priceNumber,
  };
}
