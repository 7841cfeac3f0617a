/**
 * One run, lines to lines. READ THIS FIRST: the walk of an item, as generators with a bound each.
 *
 *   input -> blocks (jsonl/read) -> measured (shard/pool, in threads) -> shards (shard/pack) -> backlog
 *         -> lane (limits, urgency) -> intent durable -> sent -> outcome durable -> output line
 *
 *   opening -> reading -> draining -> done          reading ends with the input, draining with its last outcome
 *   reading | draining -> ending -> done            the sla passed, or a cancel is durable: what is unsent ends so
 *   any -> stopped                                  asked to stop: nothing new is sent; the same run continues later
 *   any -> failing -> failed                        what is in flight ends and is recorded, unless recording itself
 *                                                   failed; then `finished` rejects
 */
import { PerigeeError } from "../errors.ts";
import { type Block, lastLineOf } from "../jsonl/block.ts";
import { readBlocks } from "../jsonl/read.ts";
import type { MeasuredBlock } from "../shard/measured.ts";
import { Packer } from "../shard/pack.ts";
import type { OutputLine } from "../work/item.ts";
import { ChecksummedFile } from "./checksum.ts";
import { rethrowFileError, rethrowReadError } from "./file_errors.ts";
import type { Source } from "./input.ts";
import { measureAhead } from "./measure_ahead.ts";
import type { EngineParts } from "./parts.ts";
import type { Progress, Summary } from "./progress.ts";
import { ProgressFeed } from "./progress_feed.ts";
import { endRest, storeCancel } from "./run_end.ts";
import { finishRun } from "./run_finish.ts";
import { followLines } from "./run_lines.ts";
import { type OpenedRun, openRun, type RunOptions } from "./run_open.ts";
import { RunReport } from "./run_report.ts";
import type { RunState } from "./run_state.ts";
import { settleUnsent } from "./settle.ts";
import { StreamedKeys } from "./streamed_keys.ts";
import type { TaskBody } from "./task_body.ts";
import { answersPath, removeWorkFiles } from "./task_files.ts";
import { Watch } from "./watch.ts";

/** Lines settled without a request between two waits for the disk. */
const UNSENT_STAGED_MAX = 4_096;

type OpenRun = Extract<OpenedRun, { kind: "open" }>;

/** A run at work. Iterating gives its output lines from the first on, also those of earlier calls. */
export class Run implements AsyncIterable<OutputLine> {
  /** Resolves with the run's terms when its input is accepted; rejects like `finished` when it is not. */
  readonly opened: Promise<TaskBody>;
  /** Resolves when the run is over or stopped; rejects with a `PerigeeError` when it cannot go on. */
  readonly finished: Promise<Summary>;
  readonly #parts: EngineParts;
  readonly #report: RunReport;
  readonly #onAccountStop: RunOptions["onAccountStop"];
  #opened: OpenedRun | undefined;
  #stopReason: string | undefined;
  /** How it was asked to leave, perhaps before it was open. */
  #leaving: "stopping" | "cancelling" | undefined;
  #isCancelAsked = false;
  #tellCancelled: () => void = () => undefined;
  readonly #cancelled = new Promise<void>((resolve) => {
    this.#tellCancelled = resolve;
  });
  #tellLeft: () => void = () => undefined;
  /** Aborted when it is asked to stop: then it does not wait for room on the disk. */
  readonly #stopping = new AbortController();
  #unsent = 0;

  constructor(parts: EngineParts, source: Source, options: RunOptions) {
    this.#parts = parts;
    this.#report = new RunReport(parts);
    this.#onAccountStop = options.onAccountStop;
    const left = new Promise<void>((resolve) => {
      this.#tellLeft = resolve;
    });
    const leaving = { left, stopped: this.#stopping.signal };
    const opening = openRun(parts, source, options, leaving).catch(rethrowFileError);
    this.opened = opening.then((opened) => opened.body);
    this.finished = this.#tell(options, this.#work(opening));
    this.opened.catch(() => undefined); // whoever waits for them is told; nobody has to
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
   * so that no restart takes it back (a run that was asked to stop before is cancelled at its next call), or when the
   * run is over; rejects like `finished`.
   */
  cancel(): Promise<void> {
    this.#isCancelAsked = true;
    this.#leave("cancelling");
    const stored = Promise.race([this.#cancelled, this.finished.then(() => undefined)]);
    stored.catch(() => undefined); // whoever waits for it is told; nobody has to
    return stored;
  }

  /** Whether a lane has taken the line and its outcome is not durable yet. */
  isClaimed(line: number): boolean {
    return this.#state?.claimed.has(line) === true;
  }

  /** Whether some of what it has left waits for an account that was stopped. */
  get isHeldByStop(): boolean {
    return this.#state !== undefined && this.#parts.isHeldByStop(this.#state);
  }

  /** A look at the run; cheap enough for four times a second. */
  progress(): Progress {
    const opened = this.#opened;
    return opened?.kind === "finished"
      ? this.#report.over(opened.summary)
      : this.#report.progress(opened?.state, this.isStopping);
  }

  /** Breaking out of the loop stops the run. */
  async *[Symbol.asyncIterator](): AsyncGenerator<OutputLine> {
    let isWhole = false;
    await this.opened;
    try {
      yield* followLines(this.#parts.disk, this.finished, () => this.#answers());
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

  /** Settles as the work does, after the listener was told how it ended. */
  async #tell(options: RunOptions, work: Promise<Summary>): Promise<Summary> {
    const feed = ProgressFeed.open(this.#parts.clock, options, () => this.progress());
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
    if (opened === undefined) return { path: "", end: 0, change: settled(this.opened) };
    if (opened.kind === "finished") return { path: opened.body.out, end: Number.POSITIVE_INFINITY };
    if (opened.body.isOrdered) {
      const isOver = opened.state.phase === "done";
      return isOver ? { path: opened.body.out, end: Number.POSITIVE_INFINITY } : undefined;
    }
    const { log } = opened.state.settings;
    return {
      path: answersPath(this.#parts, opened.task.id, opened.body),
      end: log.durableEnd,
      change: log.nextDurable(),
    };
  }

  async #work(opening: Promise<OpenedRun>): Promise<Summary> {
    const opened = await opening;
    this.#opened = opened;
    if (opened.kind === "finished") {
      const summary = this.#report.again(opened.summary);
      return opened.isChecked
        ? summary
        : { ...summary, status: "stopped", reason: this.#stopReason ?? "cancelled" };
    }
    const watch = new Watch(
      this.#parts,
      opened.state,
      this.#onAccountStop ?? ((reason) => this.stop(reason)),
    );
    let isFinished = false;
    try {
      if (opened.body.isCancelled === true) this.#leaving ??= "cancelling";
      if (this.#leaving !== undefined) this.#leave(this.#leaving);
      await this.#answer(opened, watch);
      const summary = await this.#finish(opened, watch).catch(rethrowFileError);
      isFinished = summary.status === "completed";
      return summary;
    } finally {
      opened.state.phase = "done"; // first: what is dropped must not come back
      this.#parts.dropRun(opened.state);
      await watch.recorded(opened.state.settings.log.settled()).catch(() => undefined); // told above
      await this.#parts.recorder.quiet(); // its files are not closed under a write
      watch.close();
      await opened.input.file.close();
      await opened.output.close();
      if (isFinished) await removeWorkFiles(this.#parts, opened.task.id, opened.body);
      opened.release();
    }
  }

  async #answer(opened: OpenRun, watch: Watch): Promise<void> {
    const { state } = opened;
    try {
      await Promise.race([this.#read(opened).catch(rethrowReadError), watch.left]);
      await watch.until(() => state.isIdle || !state.isOpen);
      if (state.phase === "cancelling") {
        await watch.during(this.#storeCancel(opened));
        state.phase = "cancelled";
      } else if (state.phase === "expired") {
        await opened.input.spool?.seal();
      }
      if (state.phase === "expired" || state.phase === "cancelled") {
        await watch.during(endRest(this.#parts, opened, state.phase));
        await watch.until(() => state.claimed.size === 0);
      }
    } catch (error) {
      this.#leave("stopping");
      await watch.drained().catch(() => undefined); // also when the engine fails meanwhile: the first error is told
      throw error;
    }
    if (state.phase === "stopping") await watch.drained();
    if (state.phase === "stopping" && this.#isCancelAsked) await watch.during(this.#storeCancel(opened));
    if (state.failure !== undefined) throw state.failure;
  }

  async #storeCancel(opened: OpenRun): Promise<void> {
    await storeCancel(this.#parts, opened);
    this.#tellCancelled();
  }

  async #read(opened: OpenRun): Promise<void> {
    const { state } = opened;
    const packer = new Packer();
    const seen = opened.input.identity === undefined ? new StreamedKeys(state) : undefined;
    const file = new ChecksummedFile(opened.input.file);
    const { arrivals, backlog } = this.#parts;
    for await (const measured of this.#measured(opened, this.#blocks(opened, file), seen === undefined)) {
      if (!state.isOpen) return;
      if (measured === "pause") {
        await arrivals.add(state, packer.flush());
        state.changed(); // what came may wait in a lane that is stopped
        continue;
      }
      const fresh = seen === undefined ? measured : seen.filter(measured);
      await opened.input.spool?.sync();
      await this.#reject(state, fresh);
      if (!state.isOpen) return;
      await arrivals.add(state, packer.add(fresh));
      if (backlog.isStarved) await arrivals.add(state, packer.flush());
    }
    if (!state.isOpen) return;
    await arrivals.add(state, packer.flush());
    if (!state.isOpen) return;
    if (opened.body.inputChecksum !== undefined && opened.body.inputChecksum !== file.checksum)
      throw changed(opened);
    state.linesTotal = state.linesRead;
  }

  /** Blocks with something left to do, no faster than the backlog takes them. */
  async *#blocks({ state, input }: OpenRun, file: ChecksummedFile): AsyncGenerator<Block> {
    const { backlog, lineBytesMax } = this.#parts;
    for await (const event of readBlocks(file, { lineBytesMax })) {
      while (state.isOpen && !backlog.hasRoomFor(state.id)) {
        const change = backlog.change();
        state.changed(); // the lanes that it waits for may be stopped, and the run with them
        await change;
      }
      if (!state.isOpen) return;
      state.linesRead = lastLineOf(event);
      if (event.kind === "refused") {
        await input.spool?.sync();
        await this.#refuse(state, event.refused.line, event.refused.lengthBytes);
      } else if (input.identity === undefined || !state.hasDone(event.block)) {
        yield event.block; // a stream's blocks all come: keys that were answered before count against later ones
      }
    }
  }

  #measured(
    { state, input }: OpenRun,
    blocks: AsyncIterable<Block>,
    canSkip: boolean,
  ): AsyncGenerator<MeasuredBlock | "pause"> {
    const { measurer, clock } = this.#parts;
    const { done, measureOptions } = state.settings;
    return measureAhead(blocks, {
      measure: (block) => {
        const skip = canSkip ? done.slice(block.firstLine, block.lineCount) : undefined;
        return measurer.measure(block, { ...measureOptions, skip });
      },
      concurrency: measurer.concurrency,
      clock: input.spool === undefined ? undefined : clock,
    });
  }

  async #reject(state: RunState, measured: MeasuredBlock): Promise<void> {
    state.blankLines += measured.blankLines;
    for (const { line, key, code, message } of measured.rejected) {
      if (state.settings.done.has(line) || !state.claimed.add(line)) continue;
      settleUnsent(state, line, key === null ? null : JSON.stringify(key), {
        status: "failed",
        code,
        message,
      });
    }
    await this.#boundUnsent(state, measured.rejected.length);
  }

  async #refuse(state: RunState, line: number, lengthBytes: number): Promise<void> {
    if (state.settings.done.has(line) || !state.claimed.add(line)) return;
    const message = `the line has ${lengthBytes} bytes, at most ${this.#parts.lineBytesMax} are read`;
    settleUnsent(state, line, null, { status: "failed", code: "line_too_long", message });
    await this.#boundUnsent(state, 1);
  }

  /** The disk sets the pace of lines that end without a request. */
  async #boundUnsent(state: RunState, count: number): Promise<void> {
    this.#unsent += count;
    if (this.#unsent < UNSENT_STAGED_MAX) return;
    this.#unsent = 0;
    await state.settings.log.settled();
  }

  async #finish(opened: OpenRun, watch: Watch): Promise<Summary> {
    const { state, body } = opened;
    await watch.during(state.settings.log.settled());
    const { signal } = this.#stopping;
    const stopped = (): Summary => this.#report.summary(state, body, this.#stopReason);
    if (state.phase === "stopping") return stopped();
    const completed = (): Summary => this.#report.summary(state, body);
    return finishRun(this.#parts, opened, { signal, completed, stopped });
  }

  #leave(phase: "stopping" | "cancelling"): void {
    this.#leaving ??= phase;
    this.#tellLeft();
    const state = this.#state;
    if (state === undefined || !state.isOpen) return;
    state.phase = phase;
    this.#parts.dropRun(state);
    state.changed();
  }
}

function changed(opened: OpenRun): PerigeeError {
  return new PerigeeError(
    "input_changed",
    `${opened.input.identity?.name} changed while it was read; nothing answered so far is lost`,
  );
}

function settled(promise: Promise<unknown>): Promise<void> {
  return promise.then(
    () => undefined,
    () => undefined,
  );
}
