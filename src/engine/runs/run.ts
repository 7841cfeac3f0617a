/**
 * One run, lines to lines. READ THIS FIRST: the walk of an item, as generators with a bound each.
 *
 *   input -> blocks (jsonl/read) -> measured (shard/pool, in threads) -> shards (shard/pack) -> backlog
 *         -> lane (limits, urgency) -> intent durable -> sent -> outcome durable -> output line
 *
 *   opening -> reading -> draining -> done          reading ends with the input, draining with its last outcome
 *   reading | draining -> ending -> done            the sla passed, or a cancel is durable: what is unsent ends so
 *   reading | draining -> giving up -> done         nothing but held items is left, and the caller does not want to wait;
 *                                                   the rest of a stream is spooled before
 *   any -> stopped                                  asked to stop: nothing new is sent; the same run continues later
 *   draining -> detached                            all that is left is with batches, and the caller does not want to wait
 *   any -> failing -> failed                        what is in flight ends and is recorded, unless recording itself
 *                                                   failed; then `finished` rejects
 */
import { hasCode, PerigeeError } from "../../errors.ts";
import type { ResultLine } from "../../work/item.ts";
import type { EngineCore } from "../core.ts";
import type { Source } from "../files/input.ts";
import type { TaskBody } from "../files/task_body.ts";
import { answersPath, removeWorkFiles } from "../files/task_files.ts";
import { HoldNote } from "../items/hold_note.ts";
import { type Hold, type HoldReason, isHoldReason } from "../items/holds.ts";
import type { LeftBatch, Progress, Summary } from "../items/progress.ts";
import type { RunState } from "../items/run_state.ts";
import { rethrowFileError, rethrowReadError } from "../journal/file_errors.ts";
import type { UpdateCounts } from "../reopening/update.ts";
import { DETACHED, isAllSubmitted, isLeftToBatches, leftBatches, removeEmpty } from "./detaching.ts";
import { fullDiskHold, isStillHeld, leaveRefused } from "./left_holds.ts";
import { Liveness } from "./liveness.ts";
import { ProgressFeed } from "./progress_feed.ts";
import { learnOfQuote } from "./quote_outcome.ts";
import { endRest, heldEndsOf, storeCancel } from "./run_end.ts";
import { type ErrorGroup, readErrors } from "./run_errors.ts";
import { finishAgain, finishRun } from "./run_finish.ts";
import { followLines } from "./run_lines.ts";
import { type EngineRunOptions, type OpenedRun, openRun } from "./run_open.ts";
import { Pilot } from "./run_pilot.ts";
import { readRest, readRun } from "./run_reader.ts";
import { RunReport } from "./run_report.ts";
import { WarningFeed } from "./warning_feed.ts";
import { Watch } from "./watch.ts";

type OpenRun = Extract<OpenedRun, { kind: "open" }>;

/** The stop reason of a run whose pilot was declined; the command line replaces it (cli/run/library_words.ts). */
export const PILOT_DECLINED = "onPilot declined to continue after the pilot";

/** A run at work. Iterating yields its output lines from the first on, also those of earlier calls. */
export class Run implements AsyncIterable<ResultLine> {
  /** Resolves with the run's terms when its input is accepted; rejects like `finished` when it is not. */
  readonly opened: Promise<TaskBody>;
  /** Resolves when the run is over or stopped; rejects with a `PerigeeError` when it cannot go on. */
  readonly finished: Promise<Summary>;
  /** What its update made of the lines, once it is opened; undefined without one, and where the input is what it was. */
  update: UpdateCounts | undefined;
  readonly #core: EngineCore;
  readonly #report: RunReport;
  readonly #options: Pick<
    EngineRunOptions,
    "detach" | "finish" | "standIn" | "onHeld" | "onPilot" | "pilot" | "receipts" | "waitMs"
  >;
  readonly #warnings: WarningFeed | undefined;
  #opened: OpenedRun | undefined;
  #stopReason: string | undefined;
  /** What held its items when it stopped. */
  #held: readonly Hold[] = [];
  /** The batches that it left with providers. */
  #batches: readonly LeftBatch[] = [];
  /** The hold of a full disk, as it was found last. */
  #full: Hold | undefined;
  /** How a caller ended it, perhaps before it was open. */
  #leaving: "stopping" | "cancelling" | undefined;
  #isCancelAsked = false;
  #tellCancelled: () => void = () => undefined;
  readonly #cancelled = new Promise<void>((resolve) => {
    this.#tellCancelled = resolve;
  });
  #tellLeft: () => void = () => undefined;
  /** Aborted when a caller stops it: then it does not wait for space on the disk. */
  readonly #stopping = new AbortController();

  constructor(core: EngineCore, source: Source, options: EngineRunOptions) {
    this.#core = core;
    this.#report = new RunReport(core);
    this.#options = options;
    this.#warnings = WarningFeed.of(options, core.config.keysMissing);
    const left = new Promise<void>((resolve) => {
      this.#tellLeft = resolve;
    });
    const onUpdate = (counts: UpdateCounts): void => {
      this.update = counts;
    };
    const leaving = { left, stopped: this.#stopping.signal, onUpdate };
    const opening = openRun(core, source, options, leaving).catch(rethrowFileError);
    this.opened = opening.then((opened) => opened.body);
    this.finished = this.#tell(options, this.#work(opening));
    this.opened.catch(() => undefined); // a caller that awaits them gets the error; nobody has to
    this.finished.catch(() => undefined);
    if (options.signal !== undefined) this.#follow(options.signal);
  }

  get isStopping(): boolean {
    return this.#stopReason !== undefined;
  }

  /** Sends nothing new, lets what is in flight end, and leaves the rest for the next call of the same run. */
  stop(reason = "interrupted"): void {
    this.#stopReason ??= reason;
    const message = "stopped while the disk was full; free some of it and run the same command again";
    this.#stopping.abort(new PerigeeError("interrupted", message));
    this.#leave("stopping");
  }

  /**
   * Ends what was not sent as `cancelled`; what is in flight is still answered and kept. Resolves when that is durable,
   * so that no restart takes it back (a run that was stopped before is cancelled at its next call), or when the
   * run is over; rejects like `finished`.
   */
  cancel(): Promise<void> {
    this.#isCancelAsked = true;
    this.#leave("cancelling");
    const stored = Promise.race([this.#cancelled, this.finished.then(() => undefined)]);
    stored.catch(() => undefined); // it rejects for those who await it; nobody has to
    return stored;
  }

  /** Whether a lane has taken the line and its outcome is not durable yet. */
  isClaimed(line: number): boolean {
    return this.#state?.items.claimed.has(line) === true;
  }

  /** Whether nothing is left to do here but to wait for batches. */
  get isLeftToBatches(): boolean {
    return this.#state !== undefined && isLeftToBatches(this.#core.sending.batches, this.#state);
  }

  /** What holds items of it. */
  get holds(): readonly Hold[] {
    const state = this.#state;
    if (state === undefined || !state.isOpen || state.items.isIdle) return this.#held;
    return this.#core.sending.holds.of(state).holds;
  }

  /** What held lines of it for that reason has changed. */
  wakeHeld(reason: HoldReason): void {
    this.#state?.wake(reason);
  }

  /** Whether nobody knows when it ends, because items are held or requests hang. */
  get hasNoEnd(): boolean {
    return this.#state !== undefined && this.#report.hasNoEnd(this.#state);
  }

  /** The state of the run; cheap enough for four times a second. */
  progress(): Progress {
    const [looked, state] = [this.look(), this.#state];
    return state === undefined ? looked : { ...looked, ...this.#report.eta(state, looked) };
  }

  /** The same without `etaMs`, which needs a pass over all that waits in its lanes. */
  look(): Omit<Progress, "etaMs"> {
    const opened = this.#opened;
    return opened?.kind === "finished"
      ? this.#report.over(opened.summary)
      : this.#report.progress(opened?.state, this.isStopping);
  }

  /** The lines that have ended in an error, by code; reads the run's journal. Empty before it is open. */
  async errors(): Promise<readonly ErrorGroup[]> {
    const opened = this.#opened;
    if (opened === undefined) return [];
    const taskId = opened.kind === "open" ? opened.task.id : opened.taskId;
    const { errors } = opened.kind === "open" ? opened.state.settings.totals : opened.summary;
    if (Object.keys(errors).length === 0) return []; // a journal of a million lines takes seconds to read
    return readErrors(this.#core.storage, taskId, opened.body);
  }

  /** The lines of the output, from the first on, as they become durable; until the run ends. */
  async *follow(): AsyncGenerator<ResultLine> {
    await this.opened;
    yield* followLines(this.#core.storage.disk, this.finished, () => this.#answers());
  }

  /** Breaking out of the loop stops the run. */
  async *[Symbol.asyncIterator](): AsyncGenerator<ResultLine> {
    let isWhole = false;
    try {
      yield* this.follow();
      isWhole = true;
    } finally {
      if (!isWhole) this.stop("the reader left");
    }
    await this.finished;
  }

  get #state(): RunState | undefined {
    return this.#opened?.kind === "open" ? this.#opened.state : undefined;
  }

  /** Stops when the signal aborts; does not stay with it for longer than the run. */
  #follow(signal: AbortSignal): void {
    const onAbort = (): void => this.stop("aborted");
    const unfollow = (): void => signal.removeEventListener("abort", onAbort);
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    this.finished.then(unfollow, unfollow);
  }

  /** Settles as the work does, after the listener has received its end. */
  async #tell(options: EngineRunOptions, work: Promise<Summary>): Promise<Summary> {
    const feed = ProgressFeed.open(this.#core.storage.clock, options, () => this.progress());
    try {
      const summary = await work;
      const { status, reason } = summary;
      feed?.end({ status, ...(reason === undefined ? {} : { reason }) });
      return summary;
    } catch (error) {
      feed?.end({ status: "failed", error });
      throw error;
    }
  }

  #answers(): { readonly path: string; readonly end: number; readonly change?: Promise<void> } | undefined {
    const opened = this.#opened;
    const settled = (): Promise<void> => Promise.allSettled([this.opened]).then(() => undefined);
    if (opened === undefined) return { path: "", end: 0, change: settled() };
    if (opened.kind === "finished") return { path: opened.body.out, end: Number.POSITIVE_INFINITY };
    if (opened.body.isOrdered) {
      const isOver = opened.state.phase === "done";
      return isOver ? { path: opened.body.out, end: Number.POSITIVE_INFINITY } : undefined;
    }
    const { log } = opened.state.settings;
    return {
      path: answersPath(this.#core.storage, opened.task.id, opened.body),
      end: log.durableEnd,
      change: log.nextDurable(),
    };
  }

  async #work(opening: Promise<OpenedRun>): Promise<Summary> {
    const opened = await opening;
    this.#opened = opened;
    if (opened.kind === "finished") {
      const summary = this.#report.again(opened.summary);
      if (!opened.isChecked)
        return { ...summary, status: "stopped", reason: this.#stopReason ?? "cancelled" };
      return finishAgain(this.#core.storage, opened, summary, this.#finishing);
    }
    const { config, sending, storage } = this.#core;
    const { onHeld, waitMs = config.waitMs } = this.#options;
    const isNoted = onHeld === undefined; // others ask their caller in their own process
    const holds = (): readonly Hold[] => sending.holds.of(opened.state).holds;
    const { isResumed, task } = opened;
    const note = isNoted ? new HoldNote(storage, { taskId: task.id, isResumed, holds }) : undefined;
    const watch = new Watch(this.#core, opened.state, {
      waitMs,
      standIn: this.#options.standIn,
      onHolds: (found) => {
        note?.look(found);
        this.#full = found.find(({ reason }) => reason === "disk_full") ?? this.#full;
      },
      isFinishing: onHeld === undefined && this.#options.finish === true,
      readRest: (isWanted) => readRest(opened, isWanted),
      onHeld: onHeld ?? ((reason) => this.#endHeld(opened.state, reason)),
    });
    const liveness = new Liveness(this.#core, opened.state);
    let isFinished = false;
    opened.state.isDetaching = this.#options.detach === true;
    try {
      await sending.batches.adopt(opened.state);
      if (opened.body.isCancelled === true) this.#leaving ??= "cancelling";
      if (this.#leaving !== undefined) this.#leave(this.#leaving);
      await this.#answer(opened, watch).catch(rethrowFileError);
      const summary = await this.#finish(opened, watch).catch(rethrowFileError);
      isFinished = summary.status === "completed";
      return summary;
    } catch (error) {
      if (hasCode(error, "disk_full")) this.#held = [fullDiskHold(storage, opened.state, this.#full)];
      throw error;
    } finally {
      liveness.close();
      opened.state.phase = "done"; // first: what is dropped must not be read again
      this.#core.sending.lanes.drop(opened.state);
      const { log } = opened.state.settings;
      await watch.recorded(log.recorded()).catch(() => undefined); // reported above
      await this.#core.recording.committer.leave(log); // its files are not closed under a write
      watch.close();
      await note?.close(isFinished ? [] : this.#held);
      await opened.input.file.close();
      await opened.output.close();
      if (this.#stopReason === DETACHED) await removeEmpty(storage.disk, opened);
      if (isFinished) await removeWorkFiles(this.#core.storage, opened.task.id, opened.body);
      await opened.release();
    }
  }

  /** Reads the input and waits until nothing is left of it, held lines are to be read again, or the run is left. */
  async #read(opened: OpenRun, watch: Watch, pilot: Pilot | undefined): Promise<void> {
    const { state } = opened;
    // A placeholder for lost lines is never sent: it ends with the sla.
    if (this.#options.standIn !== undefined && Number.isFinite(state.settings.deadlineMs)) return watch.left;
    const reading = readRun(this.#core, opened, this.#warnings, pilot).catch(rethrowReadError);
    await Promise.race([reading, watch.left]);
    const isLeft = (): boolean => isAllSubmitted(this.#core.sending.batches, state);
    await watch.until(() => state.items.isIdle || !state.isOpen || state.isToReadAgain || isLeft());
    if (isLeft()) this.stop(DETACHED);
  }

  async #answer(opened: OpenRun, watch: Watch): Promise<void> {
    const { state } = opened;
    const pilot = Pilot.of(this.#core, opened, this.#options, () => this.stop(PILOT_DECLINED));
    try {
      await this.#read(opened, watch, pilot);
      while (state.isOpen && !state.items.isIdle) {
        state.readAgain();
        await this.#read(opened, watch, undefined);
      }
      if (state.phase === "cancelling") {
        await watch.during(this.#storeCancel(opened));
        state.phase = "cancelled";
      } else if (state.phase === "expired" || state.phase === "giving_up") {
        await opened.input.spool?.seal();
      }
      if (state.phase === "expired" || state.phase === "cancelled" || state.phase === "giving_up") {
        await watch.during(endRest(this.#core, opened, state.phase).catch(rethrowReadError));
        const refused = await leaveRefused(state, watch, this.#core.sending);
        if (refused.length > 0) [this.#held, this.#stopReason] = [refused, "key_changed"];
      }
    } catch (error) {
      this.#leave("stopping");
      await watch.drained().catch(() => undefined); // also when the engine fails meanwhile: the first error is reported
      throw error;
    }
    if (state.phase === "stopping") {
      await watch.drained();
      if (!isHoldReason(this.#stopReason ?? ""))
        this.#held = this.#held.filter((hold) => isStillHeld(hold, this.#core.sending.lanes));
    }
    if (state.phase === "stopping" && this.#isCancelAsked) await watch.recorded(this.#storeCancel(opened));
    if (state.failure !== undefined) throw state.failure;
  }

  /** Nothing but held items is left, for longer than the caller waits. */
  #endHeld(state: RunState, reason: HoldReason): void {
    this.#held = this.#core.sending.holds.of(state, true).holds;
    if (this.#options.finish !== true) {
      this.stop(reason);
      return;
    }
    if (!state.isOpen) return;
    state.heldEnd = heldEndsOf(this.#core.sending.lanes, state);
    state.phase = "giving_up";
    this.#core.sending.lanes.drop(state);
    state.changed();
  }

  async #storeCancel(opened: OpenRun): Promise<void> {
    await storeCancel(this.#core.storage, opened);
    this.#tellCancelled();
  }

  async #finish(opened: OpenRun, watch: Watch): Promise<Summary> {
    const { state, body } = opened;
    const { log } = state.settings;
    if (state.phase !== "stopping") await watch.during(this.#core.sending.batches.over(state));
    await watch.during(state.phase === "stopping" ? log.recorded() : log.settled());
    const stopped = (): Summary => ({
      ...this.#report.summary(state, body, this.#stopReason),
      held: this.#held,
      ...(this.#batches.length === 0 ? {} : { batches: this.#batches }),
    });
    if (state.phase === "stopping") return stopped();
    const completed = (): Summary => this.#report.summary(state, body);
    const summary = await finishRun(this.#core.storage, opened, { ...this.#finishing, completed, stopped });
    if (summary.status === "completed") learnOfQuote(this.#core, state, summary);
    return summary;
  }

  get #finishing(): { readonly receipts: string | undefined; readonly signal: AbortSignal } {
    return { receipts: this.#options.receipts, signal: this.#stopping.signal };
  }

  #leave(phase: "stopping" | "cancelling"): void {
    this.#leaving ??= phase;
    this.#tellLeft();
    const state = this.#state;
    if (state === undefined || !state.isOpen) return;
    const { batches, holds } = this.#core.sending;
    if (phase === "stopping") this.#batches = leftBatches(batches, state, this.#core.storage.clock);
    if (phase === "stopping" && this.#held.length === 0) this.#held = holds.of(state, true).holds;
    state.phase = phase;
    this.#core.sending.lanes.drop(state);
    state.changed();
  }
}
