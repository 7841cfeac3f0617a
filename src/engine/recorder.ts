/**
 * The recorder: group commits of intents, outcomes and output lines, for all tasks of an engine.
 *
 *   idle -> due -> committing -> idle               records that come while committing form the next commit
 *   committing -> waiting for room -> committing    the store's disk is full: nothing can be recorded
 *   committing -> holding -> committing             an output's disk is full: its lines wait in the journal
 *   any -> failed                                   an fsync failed, or room did not come back in time: final
 *
 * One commit, for each task with records: the store writes its output lines, syncs the output while it appends the
 * step to the journal, and then the log calls back. So a request is sent only after its intent is durable, and a place
 * is freed only after its outcome is. When an output's disk is full its lines go into the journal (`held`) and reach
 * the output when there is room; while anything waits for room the engine admits nothing (`onRoom(false)`).
 *
 * A commit begins when the events of this turn are handled; its answer is looked for at each record that is staged
 * meanwhile, because a turn with thousands in flight takes 15 ms.
 *
 * Hot path: one commit per 2-4 ms under load, some ten to hundreds of records each, one hop to the store's thread and
 * back for each (bench/engine.ts).
 */
import type { Clock } from "../clock.ts";
import { errorCodeOf } from "../disk.ts";
import { PerigeeError } from "../errors.ts";
import { outputFailureOf } from "../store/outputs.ts";
import type { Store } from "../store/store.ts";
import { type LaneRecord, stamped } from "./journal.ts";
import type { OutputFile } from "./output.ts";
import { PacedCalls } from "./paced_calls.ts";
import { type SealedStep, type StepListener, TaskLog } from "./task_log.ts";

/** How often a full disk is tried again. */
const ROOM_CHECK_MS = 1_000;

export interface RecorderOptions {
  readonly store: Store;
  readonly clock: Clock;
  /** The store's own view of its disk, where it has one: it may live on a reserve while space is low. */
  readonly space?: { isSpaceLow(): boolean; restoreReserve(): Promise<boolean> } | undefined;
  /** How long a full disk is waited for before the engine fails with `disk_full`. */
  readonly roomWaitMs: number;
  /** Asked at every commit: all lanes that are held back. */
  readonly lanes: () => readonly LaneRecord[];
  /** Called with false when room ran out and true when it is back. */
  readonly onRoom: (hasRoom: boolean) => void;
  /** Called once; nothing is recorded afterwards. */
  readonly onFailure: (error: PerigeeError) => void;
}

/** Commits for many logs. Close it after its logs are settled. */
export class Recorder {
  readonly #options: RecorderOptions;
  readonly #calls: PacedCalls;
  readonly #dirty = new Set<TaskLog>();
  /** Logs with lines that wait for room in their output. */
  readonly #holding = new Set<TaskLog>();
  #isReleaseDue = false;
  #isReleaseTimed = false;
  #phase: "idle" | "due" | "committing" = "idle";
  #failure: PerigeeError | undefined;
  #roomLostMs: number | undefined;
  #isSpaceLow = false;

  constructor(options: RecorderOptions) {
    this.#options = options;
    this.#calls = new PacedCalls(options.clock);
  }

  get failure(): PerigeeError | undefined {
    return this.#failure;
  }

  /** The log of one task; `output` is appended to by this log alone from now on. */
  open(taskId: string, output: OutputFile, onStep?: StepListener): TaskLog {
    return new TaskLog(taskId, output, (log) => this.#touch(log), this.#calls, onStep);
  }

  #touch(log: TaskLog): void {
    this.#dirty.add(log);
    if (this.#phase === "committing") this.#options.store.poll?.();
    else this.#begin();
  }

  #begin(): void {
    if (this.#phase !== "idle" || this.#failure !== undefined) return;
    this.#phase = "due";
    this.#options.clock.soon(() => void this.#work());
  }

  async #work(): Promise<void> {
    this.#phase = "committing";
    try {
      if (this.#isReleaseDue) this.#releaseHeld();
      if (this.#dirty.size > 0) await this.#commit();
    } catch (error) {
      this.#fail(error);
      return;
    }
    this.#phase = "idle";
    if (this.#dirty.size > 0 || this.#isReleaseDue) this.#begin();
  }

  async #commit(): Promise<void> {
    const logs = [...this.#dirty];
    this.#dirty.clear();
    const lanes = this.#options.lanes();
    const sealed = logs.map((log) => log.seal(lanes));
    await this.#append(sealed);
    if (logs.some((log) => log.isHolding)) this.#roomIsLost(); // before places are freed, so that nothing new is sent
    for (const step of sealed) step.release();
    for (const log of logs) this.#hold(log);
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

  /** Keeps in mind the logs whose lines wait for room, and when to try again. */
  #hold(log: TaskLog): void {
    if (!log.isHolding) {
      this.#holding.delete(log);
      return;
    }
    const isNew = !this.#holding.has(log);
    this.#holding.add(log);
    if (isNew) {
      this.#isReleaseDue = true; // room may be back already, as after a restart
      return;
    }
    if (this.#isReleaseTimed) return;
    this.#isReleaseTimed = true;
    this.#options.clock.timer(ROOM_CHECK_MS, () => {
      this.#isReleaseTimed = false;
      this.#isReleaseDue = true;
      this.#begin();
    });
  }

  /** The next commit tries to bring held lines to their outputs. */
  #releaseHeld(): void {
    this.#isReleaseDue = false;
    for (const log of this.#holding) {
      log.tryRelease();
      this.#dirty.add(log);
    }
  }

  /** Appends, waiting as long as the store's own disk is full; lines whose output is full go into the journal. */
  async #append(sealed: readonly SealedStep[]): Promise<void> {
    for (;;) {
      const moment = this.#options.clock.moment(); // of each try: what is in them is only sent after it
      try {
        await this.#options.store.append(sealed.map((step) => stamped(step.entry, moment)));
        return;
      } catch (error) {
        if (this.#holdInstead(sealed, error)) continue;
        if (!(error instanceof PerigeeError && error.code === "disk_full")) throw error;
        await this.#waitForRoom(error);
      }
    }
  }

  #holdInstead(sealed: readonly SealedStep[], error: unknown): boolean {
    const failure = outputFailureOf(error);
    if (failure?.operation !== "write" || failure.systemCode !== "ENOSPC") return false;
    const step = sealed.find(({ entry }) => entry.taskId === failure.taskId);
    if (step === undefined) return false;
    step.hold();
    this.#loseRoom(error);
    return true;
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
