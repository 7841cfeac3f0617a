/**
 * The recorder: group commits of intents, outcomes and output lines, for all tasks of an engine.
 *
 *   idle -> committing -> idle                      records that come while committing form the next commit
 *   committing -> waiting for room -> committing    the store's disk is full: nothing can be recorded
 *   committing -> holding -> committing             an output's disk is full: its lines wait in the journal
 *   any -> failed                                   an fsync failed, or room did not come back in time: final
 *
 * One commit, for each task with records: write its output lines, then sync the output and append the step to the
 * journal at the same time, then call back. So a request is sent only after its intent is durable, and a place is
 * freed only after its outcome is. When an output's disk is full its lines go into the journal (`held`) and reach
 * the output when there is room; while anything waits for room the engine admits nothing (`onRoom(false)`).
 *
 * Hot path: one commit per 1-2 ms under load, some ten to hundreds of records each; bench/engine.ts.
 */
import type { Clock } from "../clock.ts";
import { errorCodeOf } from "../disk.ts";
import { PerigeeError } from "../errors.ts";
import type { UsedPrice } from "../price/used_prices.ts";
import type { JournalEntry, Store } from "../store/store.ts";
import {
  type ClosedRecord,
  type IntentRecord,
  type OutcomeRecord,
  readStep,
  type Step,
  type StepHeader,
  StepWriter,
} from "./journal.ts";
import type { OutputFile } from "./output.ts";

/** How often a full disk is tried again. */
const ROOM_CHECK_MS = 1_000;
/** What follows a commit is done in slices of so many records. */
const CALLS_PER_TURN = 128;

export interface RecorderOptions {
  readonly store: Store;
  readonly clock: Clock;
  /** The store's own view of its disk, where it has one: it may live on a reserve while space is low. */
  readonly space?: { isSpaceLow(): boolean; restoreReserve(): Promise<boolean> } | undefined;
  /** How long a full disk is waited for before the engine fails with `disk_full`. */
  readonly roomWaitMs: number;
  /** Called with false when room ran out and true when it is back. */
  readonly onRoom: (hasRoom: boolean) => void;
  /** Called once; nothing is recorded afterwards. */
  readonly onFailure: (error: PerigeeError) => void;
}

/** Told of each durable step of a log, in order; its number in the journal is not known here and given as 0. */
export type StepListener = (sequence: number, step: Step) => void;

/** Commits for many logs. Close it after its logs are settled. */
export class Recorder {
  readonly #options: RecorderOptions;
  readonly #dirty = new Set<TaskLog>();
  /** Logs with lines that wait for room in their output. */
  readonly #holding = new Set<TaskLog>();
  #isReleaseDue = false;
  #isBusy = false;
  #failure: PerigeeError | undefined;
  #roomLostMs: number | undefined;
  #isSpaceLow = false;

  constructor(options: RecorderOptions) {
    this.#options = options;
  }

  get failure(): PerigeeError | undefined {
    return this.#failure;
  }

  /** The log of one task; `output` is appended to by this log alone from now on. */
  open(taskId: string, output: OutputFile, onStep?: StepListener): TaskLog {
    return new TaskLog(taskId, output, (log) => this.#touch(log), this.#options.clock, onStep);
  }

  #touch(log: TaskLog): void {
    this.#dirty.add(log);
    this.#begin();
  }

  #begin(): void {
    if (this.#isBusy || this.#failure !== undefined) return;
    this.#isBusy = true;
    this.#options.clock.soon(() => void this.#drain());
  }

  async #drain(): Promise<void> {
    try {
      do {
        if (this.#isReleaseDue) await this.#releaseHeld();
        if (this.#dirty.size > 0) await this.#commit();
      } while (this.#dirty.size > 0 || this.#isReleaseDue);
      this.#isBusy = false;
    } catch (error) {
      this.#fail(error);
    }
  }

  async #commit(): Promise<void> {
    const logs = [...this.#dirty];
    this.#dirty.clear();
    const sealed = await Promise.all(logs.map((log) => log.write(this.#options.clock.wallMs())));
    if (logs.some((log) => log.isHolding)) this.#roomIsLost(); // before places are freed, so that nothing new is sent
    const syncs = sealed.map((step) => step.sync());
    await Promise.all([this.#append(sealed.map((step) => step.entry)), ...syncs]);
    for (const step of sealed) step.release();
    for (const log of logs) if (log.isHolding) this.#hold(log);
    if (this.#options.space?.isSpaceLow() === true) void this.#awaitSpace(this.#options.space);
    this.#roomIsBack();
  }

  /** On its reserve the store still records what is in flight; new work waits until the reserve stands again. */
  async #awaitSpace(space: NonNullable<RecorderOptions["space"]>): Promise<void> {
    if (this.#isSpaceLow) return;
    this.#isSpaceLow = true;
    try {
      while (!(await space.restoreReserve())) await this.#waitForRoom(undefined);
      this.#isSpaceLow = false;
      this.#roomIsBack();
    } catch (error) {
      this.#fail(error);
    }
  }

  #hold(log: TaskLog): void {
    if (this.#holding.size === 0) this.#isReleaseDue = true;
    this.#holding.add(log);
  }

  /** Tries to bring held lines to their outputs; what is recorded meanwhile goes on into the journal. */
  async #releaseHeld(): Promise<void> {
    this.#isReleaseDue = false;
    for (const log of [...this.#holding]) {
      try {
        await log.releaseHeld();
        this.#holding.delete(log);
        this.#dirty.add(log);
      } catch (error) {
        if (errorCodeOf(error) !== "ENOSPC") throw error;
        this.#loseRoom(error);
      }
    }
    if (this.#holding.size === 0) return;
    this.#options.clock.timer(ROOM_CHECK_MS, () => {
      this.#isReleaseDue = true;
      this.#begin();
    });
  }

  /** Appends, waiting as long as the store's own disk is full. */
  async #append(sealed: readonly JournalEntry[]): Promise<void> {
    let entries = sealed;
    for (;;) {
      try {
        await this.#options.store.append(entries);
        return;
      } catch (error) {
        if (!(error instanceof PerigeeError && error.code === "disk_full")) throw error;
        await this.#waitForRoom(error);
        const wallMs = this.#options.clock.wallMs(); // what is in them is only sent now
        entries = entries.map((entry) => ({ ...entry, wallMs }));
      }
    }
  }

  async #waitForRoom(cause: unknown): Promise<void> {
    this.#loseRoom(cause);
    await this.#options.clock.sleep(ROOM_CHECK_MS);
  }

  /** Throws `disk_full` when it was waited for long enough. */
  #loseRoom(cause: unknown): void {
    const { clock, roomWaitMs } = this.#options;
    if (clock.nowMs() - this.#roomIsLost() < roomWaitMs) return;
    const seconds = Math.round(roomWaitMs / 1_000);
    throw new PerigeeError(
      "disk_full",
      `no space left on the disk for ${seconds} s; free some and run the same command again`,
      { cause },
    );
  }

  /** Returns since when. */
  #roomIsLost(): number {
    if (this.#roomLostMs === undefined) {
      this.#roomLostMs = this.#options.clock.nowMs();
      this.#options.onRoom(false);
    }
    return this.#roomLostMs;
  }

  #roomIsBack(): void {
    if (this.#roomLostMs === undefined || this.#isSpaceLow || this.#holding.size > 0) return;
    this.#roomLostMs = undefined;
    this.#options.onRoom(true);
  }

  #fail(error: unknown): void {
    if (this.#failure !== undefined) return;
    this.#failure = asFailure(error);
    this.#options.onFailure(this.#failure);
  }
}

/** The failure that a file's error means; errors of our own stay what they are. */
export function asFailure(error: unknown): PerigeeError {
  if (error instanceof PerigeeError) return error;
  const code = errorCodeOf(error) ?? "unknown error";
  return code === "ENOSPC"
    ? new PerigeeError("disk_full", "no space left on the disk; free some and run the same command again", {
        cause: error,
      })
    : new PerigeeError("output_unwritable", `the output could not be written or synced (${code})`, {
        cause: error,
      });
}

interface SealedStep {
  readonly entry: JournalEntry;
  sync(): Promise<void>;
  release(): void;
}

/** One task's records on their way to the disk. Methods stage and return at once; callbacks come when durable. */
export class TaskLog {
  readonly #taskId: string;
  readonly #output: OutputFile;
  readonly #touch: (log: TaskLog) => void;
  readonly #clock: Clock;
  readonly #onStep: StepListener | undefined;
  #durableEnd: number;
  #whenDurable: (() => void)[] = [];
  #step = new StepWriter();
  #lines: string[] = [];
  #after: (() => void)[] = [];
  #held: Uint8Array[] = [];
  readonly #whenReleased: (() => void)[] = [];
  #release: Omit<StepHeader, "committedUsd"> | undefined;
  /** Asked at every step: money spent and held so far. */
  committedUsd: () => number = () => 0;

  constructor(
    taskId: string,
    output: OutputFile,
    touch: (log: TaskLog) => void,
    clock: Clock,
    onStep?: StepListener,
  ) {
    this.#taskId = taskId;
    this.#output = output;
    this.#touch = touch;
    this.#clock = clock;
    this.#onStep = onStep;
    this.#durableEnd = output.end;
  }

  /** Bytes of the output that are durable. */
  get durableEnd(): number {
    return this.#durableEnd;
  }

  /** Resolves when there are more. */
  nextDurable(): Promise<void> {
    return new Promise((resolve) => {
      this.#whenDurable.push(resolve);
    });
  }

  /** True while lines wait in the journal for room in the output. */
  get isHolding(): boolean {
    return this.#held.length > 0;
  }

  intent(record: IntentRecord, lane: string, whenDurable: () => void): void {
    this.#step.intent(record, lane);
    this.#after.push(whenDurable);
    this.#touch(this);
  }

  /** Tokens beyond those of the intent: a restart within the minute must count them too. Goes with the next record. */
  sentMore(lane: string, inputTokens: number, outputTokens: number): void {
    this.#step.sentMore(lane, inputTokens, outputTokens);
  }

  /** Goes with the next record, which may name it by its number. */
  price(price: UsedPrice): void {
    this.#step.price(price);
  }

  /** Not waited for: losing it in a crash only makes one more attempt count as ambiguous. */
  closed(record: ClosedRecord): void {
    this.#step.closed(record);
    this.#touch(this);
  }

  /** `line` is the whole output line with its line end. */
  outcome(record: Omit<OutcomeRecord, "lineBytes">, line: string, whenDurable?: () => void): void {
    this.#step.outcome(record, Buffer.byteLength(line));
    this.#lines.push(line);
    if (whenDurable !== undefined) this.#after.push(whenDurable);
    this.#touch(this);
  }

  /** Resolves when all that was staged so far is durable, and no line waits for room in the output. */
  async settled(): Promise<void> {
    for (;;) {
      await new Promise<void>((resolve) => {
        this.#after.push(resolve);
        this.#touch(this);
      });
      if (!this.isHolding && this.#release === undefined) return;
      if (this.isHolding) await new Promise<void>((resolve) => this.#whenReleased.push(resolve));
    }
  }

  /** For the recorder: writes the lines and closes the step; what is staged from now on is the next one's. */
  async write(wallMs: number): Promise<SealedStep> {
    const [step, after] = [this.#step, this.#after];
    const lines = Buffer.from(this.#lines.join(""));
    const release = this.#release;
    this.#step = new StepWriter();
    this.#lines = [];
    this.#after = [];
    this.#release = undefined;
    const committedUsd = this.committedUsd(); // before the first wait: the intents of this step are in it
    const header = { ...(release ?? (await this.#place(step, lines))), committedUsd };
    if (release !== undefined && lines.byteLength > 0) this.#hold(step, lines);
    const entry = { taskId: this.#taskId, wallMs, records: step.finish(header) };
    return {
      entry,
      sync: () => (header.outEnd > header.outStart ? this.#output.sync() : Promise.resolve()),
      release: () => this.#released(entry, header, after),
    };
  }

  #released(entry: JournalEntry, header: StepHeader, after: readonly (() => void)[]): void {
    this.#onStep?.(0, readStep(entry.records));
    this.#callBack(after, 0);
    if (header.outEnd <= this.#durableEnd) return;
    this.#durableEnd = header.outEnd;
    const waiters = this.#whenDurable;
    this.#whenDurable = [];
    for (const resolve of waiters) resolve();
  }

  /** A slice per turn: a thousand sends at once would keep the event loop from the answers for 60 ms. */
  #callBack(after: readonly (() => void)[], from: number): void {
    const to = Math.min(after.length, from + CALLS_PER_TURN);
    for (let index = from; index < to; index += 1) (after[index] as () => void)();
    if (to < after.length) this.#clock.soon(() => this.#callBack(after, to));
  }

  /** For the recorder: writes held lines to the output; the next step says so. Rejects with ENOSPC when there is no room yet. */
  async releaseHeld(): Promise<void> {
    const range = await this.#output.append(Buffer.concat(this.#held));
    this.#held = [];
    this.#release = { ...range, voids: RELEASES_HELD };
    for (const resolve of this.#whenReleased.splice(0)) resolve();
  }

  /** Lines found in the journal by recovery that never reached the output. */
  restoreHeld(lines: Uint8Array): void {
    this.#held.push(lines);
    this.#touch(this);
  }

  async #place(step: StepWriter, lines: Uint8Array): Promise<Omit<StepHeader, "committedUsd">> {
    const end = this.#output.end;
    const nothing = { outStart: end, outEnd: end, outCrc32: 0, voids: 0 };
    if (this.#held.length > 0) {
      this.#hold(step, lines);
      return nothing;
    }
    try {
      return { ...(await this.#output.append(lines)), voids: 0 };
    } catch (error) {
      if (errorCodeOf(error) !== "ENOSPC") throw error;
      this.#hold(step, lines);
      return nothing;
    }
  }

  #hold(step: StepWriter, lines: Uint8Array): void {
    if (lines.byteLength === 0) return;
    step.hold(lines);
    this.#held.push(lines);
  }
}

/** `voids` of a step whose output range holds all lines that earlier steps held. */
export const RELEASES_HELD = -1;
