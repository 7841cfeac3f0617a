/**
 * The committer: group commits of intents, outcomes and output lines, for all tasks of an engine.
 *
 *   idle -> due -> committing -> idle               records that arrive while committing form the next commit
 *   committing -> waiting for space -> committing   the store's disk is full: nothing can be recorded
 *   committing -> holding -> committing             an output's disk is full: its lines wait in the journal
 *   holding -> refused                              for too long: its run ends with `disk_full`, and is recorded until then
 *   any -> closed                                   waits for disk space end
 *   any -> failed                                   an fsync failed, or the store had no space for too long: final
 *
 * One commit, for each task with records: the store writes its output lines, syncs the output while it appends the
 * step to the journal, and then the log calls back. So a request is sent only after its intent is durable, and a place
 * is passed on only after its outcome. When an output's disk is full its lines go into the journal (`held`) and reach
 * the output when there is space; while anything waits for space the engine admits nothing (`disk_space.ts`).
 *
 * A commit begins when the events of this turn are handled; its answer is looked for at each record that is staged
 * meanwhile, because a turn with thousands in flight takes 15 ms.
 *
 * Hot path: one commit per 2-4 ms under load, some ten to hundreds of records each, one hop to the store's thread and
 * back for each (bench/jobs/engine.ts).
 */
import type { Clock, Moment, Timer } from "../../clock.ts";
import { debug } from "../../debug.ts";
import { isNoSpace } from "../../disk.ts";
import { hasCode, type PerigeeError } from "../../errors.ts";
import { outputFailureOf } from "../../store/outputs.ts";
import type { Store } from "../../store/store.ts";
import { type DiskSpace, type Lack, SPACE_CHECK_MS } from "./disk_space.ts";
import { asFailure } from "./file_errors.ts";
import { type LaneRecord, stamped } from "./journal.ts";
import type { EngineObserver } from "./observer.ts";
import type { OutputFile } from "./output.ts";
import { PacedCalls } from "./paced_calls.ts";
import { LineMemory } from "./staged_lines.ts";
import { type SealedStep, type StepListener, TaskLog } from "./task_log.ts";

export interface CommitterOptions {
  readonly store: Store;
  readonly clock: Clock;
  /** The store's own view of its disk, where it has one: it may live on a reserve while space is low. */
  readonly space?: { isSpaceLow(): boolean; restoreReserve(): Promise<boolean> } | undefined;
  /** Called while a disk is full. After its wait the engine fails with `disk_full`, or only the run whose output is full. */
  readonly room: DiskSpace;
  /** Asked at every commit: all lanes that are held back. */
  readonly lanes: () => readonly LaneRecord[];
  /** Called once; nothing is recorded afterwards. */
  readonly onFailure: (error: PerigeeError) => void;
  readonly observer?: EngineObserver | undefined;
  /** See `paced_calls.ts`. */
  readonly callsPerTurn?: (() => number | undefined) | undefined;
}

/** Commits for many logs. Close it when its logs are settled, before its store. */
export class Committer {
  readonly #options: CommitterOptions;
  /** By its logs. */
  readonly #shared: { readonly calls: PacedCalls; readonly memory: LineMemory };
  readonly #dirty = new Set<TaskLog>();
  readonly #held: HeldLogs;
  #phase: "idle" | "due" | "committing" = "idle";
  #failure: PerigeeError | undefined;
  #lack: Lack | undefined;
  /** The append under way, or the last one. */
  #writing: Promise<void> | undefined;
  #isSpaceLow = false;
  readonly #closing = new AbortController();

  constructor(options: CommitterOptions) {
    this.#options = options;
    const calls = new PacedCalls(options.clock, options.callsPerTurn);
    this.#shared = { calls, memory: new LineMemory() };
    this.#held = new HeldLogs(options.clock, () => this.#begin());
  }

  get failure(): PerigeeError | undefined {
    return this.#failure;
  }

  /** Whether something is being recorded, or is about to be, or nothing is any more. */
  get isBusy(): boolean {
    return this.#phase !== "idle" || this.#failure !== undefined;
  }

  /** The log of one task; only this log appends to `output` from now on. */
  open(taskId: string, output: OutputFile, onStep?: StepListener): TaskLog {
    return new TaskLog(taskId, output, (log) => this.#touch(log), this.#shared, onStep);
  }

  /**
   * For a log whose records are durable, or that failed: nothing is recorded in it any more, and lines that wait for space
   * stay in the journal. Resolves when its output is not being written any more.
   */
  async leave(log: TaskLog): Promise<void> {
    log.isOver = true;
    this.#dirty.delete(log);
    this.#held.delete(log);
    this.#roomIsBack();
    await this.#writing?.catch(() => undefined); // the commit reports it
  }

  /** Something else was committed: the store may live on its reserve since. */
  checkSpace(): void {
    if (this.#options.space?.isSpaceLow() === true) void this.#awaitSpace(this.#options.space);
  }

  /** Ends waits for disk space: what is not recorded yet stays unrecorded. May be called twice. */
  close(): void {
    this.#closing.abort();
    this.#held.close();
  }

  #touch(log: TaskLog): void {
    if (log.isOver) return;
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
      if (this.#held.isDue) this.#releaseHeld();
      if (this.#dirty.size > 0) await this.#commit();
    } catch (error) {
      this.#fail(error);
      return;
    }
    this.#phase = "idle";
    if (this.#dirty.size > 0 || this.#held.isDue) this.#begin();
  }

  async #commit(): Promise<void> {
    const logs = [...this.#dirty];
    this.#dirty.clear();
    const lanes = this.#options.lanes();
    const sealed = logs.map((log) => log.seal(lanes));
    const startMs = this.#options.clock.nowMs();
    const at = await this.#append(sealed);
    const durationMs = this.#options.clock.nowMs() - startMs;
    this.#options.observer?.committed(durationMs);
    debug.commits?.(`a step of ${sealed.length} runs is durable after ${durationMs.toFixed(1)} ms`);
    const full = logs.find((log) => log.isHolding);
    if (full !== undefined) this.#roomIsLost(full.outputPath); // before places are freed, so that nothing new is sent
    for (const step of sealed) step.release(at);
    for (const log of logs) this.#held.note(log);
    this.checkSpace();
    this.#roomIsBack();
  }

  /** On its reserve the store still records what is in flight; new work waits until the reserve is complete again. */
  async #awaitSpace(space: NonNullable<CommitterOptions["space"]>): Promise<void> {
    if (this.#isSpaceLow) return;
    this.#isSpaceLow = true;
    try {
      while (!(await space.restoreReserve())) await this.#waitForRoom(undefined);
      this.#isSpaceLow = false;
      this.#roomIsBack();
    } catch (error) {
      if (!this.#closing.signal.aborted) this.#fail(error);
    }
  }

  /** The next commit tries to bring held lines to their outputs. */
  #releaseHeld(): void {
    for (const log of this.#held.take()) {
      log.tryRelease();
      this.#dirty.add(log);
    }
  }

  /**
   * Appends, waiting as long as the store's own disk is full; lines whose output is full go into the journal. Resolves
   * with the time that it stamped them with.
   */
  async #append(sealed: readonly SealedStep[]): Promise<Moment> {
    for (;;) {
      if (this.#failure !== undefined) throw this.#failure; // the wait for space was long enough: outputs are closed by now
      const moment = this.#options.clock.moment(); // of each try: what is in them is only sent after it
      try {
        this.#writing = this.#options.store.append(sealed.map((step) => stamped(step.entry, moment)));
        await this.#writing;
        return moment;
      } catch (error) {
        if (this.#holdInstead(sealed, error)) continue;
        if (!hasCode(error, "disk_full")) throw error;
        await this.#waitForRoom(error);
      }
    }
  }

  #holdInstead(sealed: readonly SealedStep[], error: unknown): boolean {
    const failure = outputFailureOf(error);
    if (failure?.operation !== "write" || !isNoSpace(failure.systemCode)) return false;
    const step = sealed.find(({ entry }) => entry.taskId === failure.taskId);
    if (step === undefined) return false;
    step.hold();
    const lasting = this.#roomIsLost(step.outputPath).lasting(error);
    if (lasting !== undefined) step.refuse(lasting);
    return true;
  }

  async #waitForRoom(cause: unknown): Promise<void> {
    this.#roomIsLost().check(cause);
    await this.#options.clock.sleep(SPACE_CHECK_MS, { signal: this.#closing.signal });
  }

  /** `path`: of an output; without one the store found no space. */
  #roomIsLost(path?: string): Lack {
    this.#lack ??= this.#options.room.lack();
    this.#lack.path = path ?? this.#options.room.dataDir;
    return this.#lack;
  }

  #roomIsBack(): void {
    if (this.#lack === undefined || this.#isSpaceLow || this.#held.size > 0) return;
    this.#lack.end();
    this.#lack = undefined;
  }

  #fail(error: unknown): void {
    if (this.#failure !== undefined) return;
    this.#failure = asFailure(error);
    this.#options.onFailure(this.#failure);
  }
}

/** Logs with lines that wait for space in their output: noted -> due, at once and every few seconds -> taken, to try again. */
class HeldLogs {
  readonly #clock: Clock;
  readonly #onDue: () => void;
  readonly #logs = new Set<TaskLog>();
  #isDue = false;
  #timer: Timer | undefined;

  /** `onDue` is called when a try is due that a commit did not make so. */
  constructor(clock: Clock, onDue: () => void) {
    this.#clock = clock;
    this.#onDue = onDue;
  }

  get size(): number {
    return this.#logs.size;
  }

  get isDue(): boolean {
    return this.#isDue;
  }

  /** A commit of the log is over. */
  note(log: TaskLog): void {
    if (!log.isHolding || log.isOver) {
      this.#logs.delete(log);
      return;
    }
    const isNew = !this.#logs.has(log);
    this.#logs.add(log);
    if (isNew)
      this.#isDue = true; // space may be free already, as after a restart
    else
      this.#timer ??= this.#clock.timer(SPACE_CHECK_MS, () => {
        this.#timer = undefined;
        this.#isDue = true;
        this.#onDue();
      });
  }

  delete(log: TaskLog): void {
    this.#logs.delete(log);
  }

  /** All of them; the next try is due later. */
  take(): Iterable<TaskLog> {
    this.#isDue = false;
    return this.#logs;
  }

  close(): void {
    this.#timer?.cancel();
  }
}
