/**
 * One task's records on their way to the disk: staged in memory, sealed into a step, reported when the step is durable.
 *
 *   staged -> sealed -> durable                     its lines are in the output
 *             sealed -> held -> ... -> durable      the output's disk was full: the lines are in the journal, and a
 *                                                   later step says that they reached the output (`RELEASES_HELD`)
 *
 * At most one step of a log is sealed at a time; what is staged meanwhile belongs to the next.
 */
import type { Moment } from "../../clock.ts";
import type { PerigeeError } from "../../errors.ts";
import type { LineText } from "../../jsonl/write.ts";
import type { UsedPrice } from "../../price/used_prices.ts";
import type { OutputWrite } from "../../store/store.ts";
import {
  type ClosedRecord,
  type IntentRecord,
  type LaneRecord,
  readStep,
  type StagedOutcome,
  type Step,
  type StepHeader,
  StepWriter,
  type UnstampedEntry,
} from "./journal.ts";
import { type OutputFile, type SummedBytes, summed } from "./output.ts";
import type { PacedCalls } from "./paced_calls.ts";
import { type LineMemory, StagedLines } from "./staged_lines.ts";

const NOTHING: SummedBytes = { bytes: new Uint8Array(0), crc32: 0 };

/** `voids` of a step whose output range holds all lines that earlier steps held. */
export const RELEASES_HELD = -1;

/**
 * Called with each durable step of a log, in order, with the Unix time at which it was appended; its number in the journal is
 * not known here and given as 0.
 */
export type StepListener = (sequence: number, step: Step, at: Moment) => void;

/** A step between its sealing and its being durable. */
export interface SealedStep {
  readonly outputPath: string;
  /** Changes with `hold`. */
  readonly entry: UnstampedEntry;
  /** The output has no space: its lines go with the step instead. */
  hold(): void;
  /** Its log calls back `onFull`. */
  refuse(error: PerigeeError): void;
  /** The step is durable; it was stamped with this time. */
  release(at: Moment): void;
}

/** What the logs of a committer have in common. */
interface SharedByLogs {
  readonly calls: PacedCalls;
  readonly memory: LineMemory;
}

/** One task's records on their way to the disk. Methods stage and return at once; callbacks are called when durable. */
export class TaskLog {
  readonly #taskId: string;
  readonly #output: OutputFile;
  readonly #touch: (log: TaskLog) => void;
  readonly #durable: DurableSteps;
  readonly #memory: LineMemory;
  #staged: StagedStep;
  readonly #held = new HeldLines();
  /** Asked at every step: money spent and held so far. */
  committedUsd: () => number = () => 0;
  /** Called when its output had no space for too long, and at each try from then on. */
  onFull: (error: PerigeeError) => void = () => undefined;
  /** Set by the committer: nothing is recorded any more. */
  isOver = false;

  constructor(
    taskId: string,
    output: OutputFile,
    touch: (log: TaskLog) => void,
    { calls, memory }: SharedByLogs,
    onStep?: StepListener,
  ) {
    this.#taskId = taskId;
    this.#output = output;
    this.#touch = touch;
    this.#memory = memory;
    this.#staged = new StagedStep(memory);
    this.#durable = new DurableSteps(output.end, calls, onStep);
  }

  get outputPath(): string {
    return this.#output.path;
  }

  /** Bytes of the output that are durable. */
  get durableEnd(): number {
    return this.#durable.end;
  }

  /** Resolves when there are more. */
  nextDurable(): Promise<void> {
    return this.#durable.next();
  }

  /** True while lines wait in the journal for space in the output. */
  get isHolding(): boolean {
    return this.#held.lines.length > 0;
  }

  intent(record: IntentRecord, lane: string, whenDurable: () => void): void {
    this.#staged.step.intent(record, lane);
    this.#staged.after.push(whenDurable);
    this.#touch(this);
  }

  /** States again an intent whose request is under way; in the step of what was closed beside it. */
  intentAgain(record: IntentRecord): void {
    this.#staged.step.intent(record);
    this.#touch(this);
  }

  /** Tokens beyond those of the intent: a restart within the minute must count them too. In the step of the next record. */
  sentMore(lane: string, inputTokens: number, outputTokens: number): void {
    this.#staged.step.sentMore(lane, inputTokens, outputTokens);
  }

  /** In the step of the next record, which may name it by its number. */
  price(price: UsedPrice): void {
    this.#staged.step.price(price);
  }

  /** Not waited for: losing it in a crash only makes one more attempt count as ambiguous. */
  closed(record: ClosedRecord): void {
    this.#staged.step.closed(record);
    this.#touch(this);
  }

  /** `line` is the whole output line with its line end. */
  outcome(record: StagedOutcome, line: LineText, whenDurable?: () => void): void {
    this.#staged.outcome(record, line);
    if (whenDurable !== undefined) this.#staged.after.push(whenDurable);
    this.#touch(this);
  }

  /** Calls back when all that was staged so far is durable. */
  afterStaged(whenDurable: () => void): void {
    this.#staged.after.push(whenDurable);
    this.#touch(this);
  }

  /** Adds these warnings to the line of the next record. */
  warned(warnings: string): void {
    this.#staged.step.warned(warnings);
  }

  /** Resolves when all that was staged so far is durable; lines may wait in the journal. */
  recorded(): Promise<void> {
    return new Promise<void>((resolve) => this.afterStaged(resolve));
  }

  /** The same, when no line waits for space in the output. */
  async settled(): Promise<void> {
    for (;;) {
      await this.recorded();
      if (!this.isHolding) return;
      await this.#held.nextRelease();
    }
  }

  /** For the committer: the next step brings the held lines to the output, if there is space by then. */
  tryRelease(): void {
    this.#held.isReleasing = this.isHolding;
  }

  /** For the committer: closes the step; what is staged from now on is the next one's. `lanes` are those held back. */
  seal(lanes: readonly LaneRecord[]): SealedStep {
    return this.#held.isReleasing ? this.#sealRelease(lanes) : this.#sealStaged(lanes);
  }

  #sealStaged(lanes: readonly LaneRecord[]): SealedStep {
    const { step, after } = this.#staged;
    step.lanes(lanes);
    const all = this.#staged.lines.all();
    const lines = all.bytes;
    this.#staged = new StagedStep(this.#memory);
    const committedUsd = this.committedUsd(); // the intents of this step are in it
    if (this.isHolding) this.#held.hold(step, lines);
    const claimed = this.#output.claim(this.isHolding ? NOTHING : all);
    const header = { ...claimed.range, voids: 0, committedUsd };
    const written = { outputPath: this.outputPath, header, write: claimed.write };
    return new Sealed(this.#taskId, step, written, {
      onHold: () => {
        this.#output.rewind(claimed.range.outStart);
        this.#held.hold(step, lines);
      },
      onRefused: (error) => this.onFull(error),
      onDurable: (entry, header, at) => {
        if (!this.#held.has(lines)) this.#memory.giveBack(lines);
        this.#durable.add(entry, header, { after, at });
      },
    });
  }

  /** A step of its own: lines that are staged meanwhile follow in the output, and need not wait in the journal, too. */
  #sealRelease(lanes: readonly LaneRecord[]): SealedStep {
    this.#held.isReleasing = false;
    const step = new StepWriter();
    step.lanes(lanes);
    this.#touch(this); // what is staged
    const { range, write } = this.#output.claim(summed(Buffer.concat(this.#held.lines)));
    const released = { ...range, voids: RELEASES_HELD, committedUsd: this.committedUsd() };
    const written = { outputPath: this.outputPath, header: released, write };
    return new Sealed(this.#taskId, step, written, {
      onHold: () => this.#output.rewind(range.outStart),
      onRefused: (error) => this.onFull(error),
      onDurable: (entry, header, at) => {
        if (header.voids === RELEASES_HELD) this.#held.released();
        this.#durable.add(entry, header, { after: [], at });
      },
    });
  }

  /** Lines found in the journal by recovery that never reached the output. */
  restoreHeld(lines: Uint8Array): void {
    this.#held.lines.push(lines);
    this.#touch(this);
  }
}

/** What is staged for the next step. */
class StagedStep {
  readonly step: StepWriter = new StepWriter();
  /** Called when it is durable. */
  readonly after: (() => void)[] = [];
  /** Output lines in UTF-8. */
  readonly lines: StagedLines;

  constructor(memory: LineMemory) {
    this.lines = new StagedLines(memory);
  }

  outcome(record: StagedOutcome, line: LineText): void {
    const { byteLength, crc32 } = this.lines.add(line);
    this.step.outcome(record, byteLength, crc32);
  }
}

/** Lines in the journal that wait for space in the output: held -> releasing -> held again, or released. */
class HeldLines {
  lines: Uint8Array[] = [];
  /** Whether the next step is to bring them to the output. */
  isReleasing = false;
  readonly #whenReleased: (() => void)[] = [];

  hold(step: StepWriter, lines: Uint8Array): void {
    if (lines.byteLength === 0) return;
    step.hold(lines);
    this.lines.push(lines);
  }

  has(lines: Uint8Array): boolean {
    return this.lines.includes(lines);
  }

  released(): void {
    this.lines = [];
    for (const resolve of this.#whenReleased.splice(0)) resolve();
  }

  nextRelease(): Promise<void> {
    return new Promise((resolve) => {
      this.#whenReleased.push(resolve);
    });
  }
}

/** How far the output is durable, and what is called with each durable step. */
class DurableSteps {
  #end: number;
  readonly #calls: PacedCalls;
  readonly #onStep: StepListener | undefined;
  #whenMore: (() => void)[] = [];

  constructor(end: number, calls: PacedCalls, onStep: StepListener | undefined) {
    this.#end = end;
    this.#calls = calls;
    this.#onStep = onStep;
  }

  get end(): number {
    return this.#end;
  }

  /** Resolves when `end` is higher. */
  next(): Promise<void> {
    return new Promise((resolve) => {
      this.#whenMore.push(resolve);
    });
  }

  add(
    entry: UnstampedEntry,
    header: StepHeader,
    { after, at }: { readonly after: readonly (() => void)[]; readonly at: Moment },
  ): void {
    this.#onStep?.(0, readStep(entry.records), at);
    this.#calls.run(after);
    if (header.outEnd <= this.#end) return;
    this.#end = header.outEnd;
    const waiters = this.#whenMore;
    this.#whenMore = [];
    for (const resolve of waiters) resolve();
  }
}

interface SealedWrite {
  readonly outputPath: string;
  readonly header: StepHeader;
  readonly write: OutputWrite | undefined;
}

/** How the log continues after it. */
interface SealedEnd {
  readonly onHold: () => void;
  readonly onRefused: (error: PerigeeError) => void;
  readonly onDurable: (entry: UnstampedEntry, header: StepHeader, at: Moment) => void;
}

class Sealed implements SealedStep {
  entry: UnstampedEntry;
  readonly #step: StepWriter;
  readonly #outputPath: string;
  readonly #end: SealedEnd;
  #header: StepHeader;

  constructor(taskId: string, step: StepWriter, { outputPath, header, write }: SealedWrite, end: SealedEnd) {
    this.#step = step;
    this.#outputPath = outputPath;
    this.#end = end;
    this.#header = header;
    this.entry = { taskId, records: step.finish(header), output: write };
  }

  get outputPath(): string {
    return this.#outputPath;
  }

  hold(): void {
    const { outStart, committedUsd } = this.#header;
    this.#end.onHold();
    this.#header = { outStart, outEnd: outStart, outCrc32: 0, voids: 0, committedUsd };
    this.entry = { ...this.entry, records: this.#step.finish(this.#header), output: undefined };
  }

  refuse(error: PerigeeError): void {
    this.#end.onRefused(error);
  }

  release(at: Moment): void {
    this.#end.onDurable(this.entry, this.#header, at);
  }
}
