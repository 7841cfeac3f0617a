/**
 * The durable queue of one kind of jobs: accepts them, attempts them, and takes each to one end.
 *
 *   accepted -> queued -> running -> ending (completed) ............................ -> stored, reported
 *                 ^         |  \---> ending (failed: for good, or nothing left)
 *                 |         v
 *                 \----- retrying    (its wait is over)
 *   any of the three -> ending (cancelled, expired): a running attempt is stopped, and its result is ignored
 *   any of the three -> removed with its parent
 *   running -> as it is stored, when the process closes
 *
 * An attempt begins when its intent is durable, so that after a crash its number is known and what may have been done is not
 * done twice. A repeatable job that can begin at once is accepted with its intent, in one commit. What ends a job is decided once,
 * in memory, and then written for as long as it takes: on a full disk nothing new begins, and ends wait for space.
 *
 * A job that fails for a reason of this process, such as a store that cannot be read, is tried again after 30 s without its attempt
 * being counted.
 *
 * Hot: `accept` at 1,000 a second, each durable (bench/jobs/executions.ts).
 */
import { setMaxListeners } from "node:events";
import type { Clock } from "../clock.ts";
import { DiskSpace } from "../engine/journal/disk_space.ts";
import { PerigeeError } from "../errors.ts";
import { overAtMs } from "../work/sla.ts";
import { Alarms } from "./alarms.ts";
import type { Destinations } from "./destinations.ts";
import { DownDestinations } from "./down_destinations.ts";
import type {
  JobEnd,
  JobFacts,
  JobLimits,
  JobProgress,
  JobSender,
  LastFailure,
  PendingJob,
  ReadyJob,
} from "./job.ts";
import { JobAttempts, type JobOutcome, phaseOf } from "./job_attempts.ts";
import { JobEntry } from "./job_entry.ts";
import type { JobLog, LoggedJob } from "./job_log.ts";
import { JobOrder } from "./job_order.ts";
import { LOST } from "./job_retry.ts";
import { PendingCounts } from "./pending_counts.ts";

/** After a fault of this process. */
const AGAIN_MS = 30_000;
/** No wait of a job without a deadline is longer; one that seems so was stored by a clock that was set right since. */
const DELAY_MS_MAX = 86_400_000;

/** What a queue uses. The destinations are shared by all queues of a process. */
export interface JobQueueOptions<F extends JobFacts> {
  readonly clock: Clock;
  readonly log: JobLog<F>;
  readonly sender: JobSender<F>;
  readonly destinations: Destinations;
  readonly limits: JobLimits;
}

/** One for each kind of jobs of a store. Every method may be called at any time and concurrently. */
export class JobQueue<F extends JobFacts> {
  readonly #options: JobQueueOptions<F>;
  readonly #order: JobOrder<JobEntry<F>>;
  readonly #alarms: Alarms;
  readonly #down: DownDestinations<JobEntry<F>>;
  readonly #room: DiskSpace;
  readonly #attempts: JobAttempts<F>;
  readonly #counts: PendingCounts;
  /** Nothing begins any more; attempts are stopped. */
  readonly #over = { stopping: new AbortController(), closing: new AbortController() };
  /** By id. */
  readonly #standings = new Map<string, JobEntry<F>>();
  /** Attempts, and ends that are being written. */
  readonly #underWay = new Set<Promise<unknown>>();

  constructor(options: JobQueueOptions<F>) {
    this.#options = options;
    const { clock, destinations, limits } = options;
    const signals = { stopping: this.#over.stopping.signal, closing: this.#over.closing.signal };
    setMaxListeners(0, signals.closing); // one for each write that waits for space
    this.#alarms = new Alarms(clock);
    this.#counts = new PendingCounts(limits);
    this.#down = new DownDestinations({
      alarms: this.#alarms,
      nowMs: () => clock.nowMs(),
      begin: (standing) => this.#wait(standing, 1), // not at once: it may be about to leave its place
    });
    this.#order = new JobOrder({
      ...{ placesMax: limits.placesMax, destinations },
      start: (standing) => this.#track(this.#attempt(standing)),
    });
    const onRoom = (hasRoom: boolean): void => this.#order.pause(!hasRoom);
    this.#room = new DiskSpace({
      clock,
      waitMs: Number.POSITIVE_INFINITY,
      dataDir: "the data folder",
      onRoom,
    });
    const release = (standing: JobEntry<F>): void => this.#order.ended(standing);
    this.#attempts = new JobAttempts(options, this.#down, this.#room, release, signals);
  }

  /** Continues the jobs that an earlier process has left pending. Reads all first: a page cannot begin at a job that has ended meanwhile. */
  async start(): Promise<void> {
    for (const job of await this.#options.log.pending()) {
      this.#counts.count(this.#options.sender.groupOf(job.facts), 1);
      this.#add(job);
    }
  }

  get counts(): { readonly queued: number; readonly running: number } {
    const { running } = this.#attempts;
    return { queued: Math.max(0, this.#counts.all - running), running };
  }

  get isClosed(): boolean {
    return this.#over.closing.signal.aborted;
  }

  /**
   * Resolves when the job is durable. `ready`: what its first attempt runs with if it can begin at once. Throws `conflict` when one
   * of this id is being accepted (`JobLog.isTaken` knows those that are stored), `too_many` when too many are pending, `disk_full`.
   */
  async accept(facts: F, given: Uint8Array, ready?: ReadyJob): Promise<PendingJob<F>> {
    const { log, sender } = this.#options;
    const standing = this.#standing(facts, notBegun(facts.createdWallMs));
    const group = sender.groupOf(facts);
    this.#counts.reserve(group);
    const atOnce = ready?.retries.isRepeatable === true && this.#order.take(standing) ? ready : undefined;
    if (atOnce !== undefined) standing.progress = begunAtOnce(facts.createdWallMs);
    try {
      const { task, durable } = log.accept(facts, standing.progress, given);
      standing.task = task;
      await durable;
    } catch (error) {
      this.#order.ended(standing);
      this.#counts.count(group, -1);
      throw error;
    }
    const accepted: PendingJob<F> = { facts, progress: standing.progress, phase: "queued", shown: undefined };
    const isBegun = atOnce !== undefined && !this.#over.stopping.signal.aborted;
    if (atOnce !== undefined && !isBegun) await this.#attempts.takeBack(standing);
    if (!this.isClosed) this.#begin(standing, isBegun ? atOnce : undefined);
    return accepted;
  }

  /** Undefined if its end is stored, or if no job has this id. */
  find(id: string): PendingJob<F> | undefined {
    const standing = this.#standings.get(id);
    if (standing === undefined) return undefined;
    const { facts, phase, attempt } = standing;
    const dueMs = this.#down.dueMs(standing);
    const due = dueMs === undefined ? {} : { nextWallMs: this.#wallMs(dueMs) };
    return { facts, progress: { ...standing.progress, ...due }, phase, shown: attempt?.shown };
  }

  /** Resolves when its end, of any kind, is durable; at once when it is so already. Throws `disk_full`. */
  async cancel(id: string): Promise<void> {
    const standing = this.#standings.get(id);
    if (standing === undefined) return;
    await this.#room.orRefuse(() => this.#end(standing, unfinished("cancelled")));
  }

  /** Takes jobs out without an end, while `remove` deletes what is stored of them; when that fails they go on. */
  async remove(isRemoved: (facts: F) => boolean, remove: () => Promise<void>): Promise<void> {
    const removed = [...this.#standings.values()].filter(
      ({ facts, ending }) => ending === undefined && isRemoved(facts),
    );
    const removing = remove();
    for (const standing of removed) {
      this.#leave(standing, new PerigeeError("interrupted", "the job was removed"));
      standing.ending = removing;
      this.#standings.delete(standing.facts.id);
    }
    try {
      await removing;
    } catch (error) {
      for (const job of removed) this.#add(job);
      throw error;
    }
    for (const { facts } of removed) this.#counts.count(this.#options.sender.groupOf(facts), -1);
  }

  /** Begins nothing more, also of what it accepts from now on; attempts under way continue. */
  stop(): void {
    this.#over.stopping.abort();
    this.#order.close();
  }

  /** Begins nothing more; attempts are stopped, and go on after a restart. Takes at most `closeMs`. */
  async close(): Promise<void> {
    const { clock, limits } = this.#options;
    const closed = new PerigeeError("closed", "the process is closing");
    this.stop();
    this.#over.closing.abort(closed);
    this.#alarms.close();
    for (const { attempt } of this.#standings.values()) attempt?.stop(closed);
    const given = new Promise<"over">((resolve) => {
      clock.timer(limits.closeMs, () => resolve("over"), { keepsAlive: false });
    });
    while (this.#underWay.size > 0)
      if ((await Promise.race([Promise.allSettled(this.#underWay), given])) === "over") return;
  }

  #standing(facts: F, progress: JobProgress): JobEntry<F> {
    const { deadlineWallMs } = facts;
    const deadlineMs =
      deadlineWallMs === undefined ? Number.POSITIVE_INFINITY : overAtMs(this.#options.clock, deadlineWallMs);
    return new JobEntry(facts, progress, deadlineMs);
  }

  /** Takes over a job that is stored as pending. */
  #add({ task, facts, progress }: LoggedJob<F>): void {
    const standing = this.#standing(facts, progress);
    standing.task = task;
    standing.hasNotes = progress.attempts > 0;
    this.#begin(standing, undefined);
  }

  #begin(standing: JobEntry<F>, atOnce: ReadyJob | undefined): void {
    const { clock } = this.#options;
    const { facts, deadlineMs, progress } = standing;
    this.#standings.set(facts.id, standing);
    if (deadlineMs < Number.POSITIVE_INFINITY)
      standing.deadline = this.#alarms.set(deadlineMs, () => this.#expire(standing));
    const delayMs = (progress.nextWallMs ?? 0) - clock.wallMs();
    if (deadlineMs <= clock.nowMs()) this.#expire(standing);
    else if (atOnce !== undefined) this.#track(this.#attempt(standing, atOnce));
    else
      this.#resume(standing, facts.deadlineWallMs === undefined ? Math.min(delayMs, DELAY_MS_MAX) : delayMs);
  }

  #track(work: Promise<unknown>): void {
    this.#underWay.add(work);
    const over = (): unknown => this.#underWay.delete(work);
    work.then(over, over);
  }

  /** From what is stored: an attempt that is under way there may have been made. */
  #resume(standing: JobEntry<F>, delayMs: number): void {
    const { progress } = standing;
    if (progress.isUnderWay && !progress.isRepeatable) {
      void this.#end(standing, failed(LOST));
      return;
    }
    if (progress.isUnderWay) {
      const ambiguousAttempts = progress.ambiguousAttempts + 1;
      standing.progress = { ...progress, ambiguousAttempts, isUnderWay: false };
    }
    this.#wait(standing, delayMs);
  }

  #wait(standing: JobEntry<F>, delayMs: number): void {
    standing.phase = phaseOf(standing.progress);
    if (!(delayMs > 0)) {
      this.#order.push(standing);
      return;
    }
    standing.retry = this.#alarms.set(this.#options.clock.nowMs() + delayMs, () => {
      standing.retry = undefined;
      this.#order.push(standing);
    });
  }

  /** Never rejects. With `ready`, the intent is stored already. */
  async #attempt(standing: JobEntry<F>, ready?: ReadyJob): Promise<void> {
    standing.phase = "running";
    try {
      const next = await this.#attempts.make(standing, ready);
      if (next.kind === "end") await this.#end(standing, next.outcome);
      else if (next.kind === "wait" && !this.#isPassed(standing)) this.#wait(standing, next.delayMs);
    } catch (error) {
      this.#fault(standing, error);
    } finally {
      standing.attempt = undefined;
      this.#order.ended(standing);
    }
  }

  /** Its end is decided already, or up to the next process. */
  #isPassed(standing: JobEntry<F>): boolean {
    return standing.ending !== undefined || this.isClosed;
  }

  /** Unix time of a moment that is not over yet, in whole milliseconds. */
  #wallMs(atMs: number): number {
    const { clock } = this.#options;
    return clock.wallMs() + Math.ceil(Math.max(0, atMs - clock.nowMs()));
  }

  #expire(standing: JobEntry<F>): void {
    void this.#end(standing, unfinished("expired", standing.progress.last));
  }

  /** The first end of a job is its end. Settles when it is durable, or when that is up to the next process. */
  #end(standing: JobEntry<F>, outcome: JobOutcome): Promise<void> {
    if (standing.ending !== undefined) return standing.ending;
    if (standing.attempt?.isCurrent === true)
      this.#leave(standing, new PerigeeError("interrupted", `the job is ${outcome.status}`));
    else this.#leave(standing, undefined);
    const { attempts, updatedWallMs } = standing.progress;
    const wallMs = Math.max(updatedWallMs, this.#options.clock.wallMs());
    standing.ending = this.#store(standing, { ...outcome, wallMs, attempts });
    this.#track(standing.ending);
    return standing.ending;
  }

  /** Out of everything that would begin it; a running attempt is stopped. */
  #leave(standing: JobEntry<F>, reason: PerigeeError | undefined): void {
    this.#order.remove(standing);
    standing.retry?.cancel();
    standing.deadline?.cancel();
    this.#down.remove(standing);
    standing.attempt?.stop(reason);
  }

  async #store(standing: JobEntry<F>, end: JobEnd): Promise<void> {
    const { log, sender } = this.#options;
    const { facts } = standing;
    try {
      await this.#room.waitFor(() => log.end(standing, end), { signal: this.#over.closing.signal });
    } catch (error) {
      this.#tell(error);
      throw error;
    }
    this.#standings.delete(facts.id);
    this.#counts.count(sender.groupOf(facts), -1);
    sender.ended(facts, end);
  }

  #fault(standing: JobEntry<F>, error: unknown): void {
    if (this.#isPassed(standing)) return;
    this.#tell(error);
    this.#resume(standing, AGAIN_MS);
  }

  #tell(error: unknown): void {
    const code = error instanceof PerigeeError ? error.code : undefined;
    if (code === "store_failed" || code === "closed") this.#order.close(); // nothing can be written any more
    if (code !== "closed" && !this.isClosed) this.#options.sender.fault(error);
  }
}

/** A job whose first attempt has not begun. */
export function acceptedJob<F extends JobFacts>(facts: F): PendingJob<F> {
  return { facts, progress: notBegun(facts.createdWallMs), phase: "queued", shown: undefined };
}

function begunAtOnce(updatedWallMs: number): JobProgress {
  return { attempts: 1, ambiguousAttempts: 0, isUnderWay: true, isRepeatable: true, updatedWallMs };
}

function notBegun(updatedWallMs: number): JobProgress {
  return { attempts: 0, ambiguousAttempts: 0, isUnderWay: false, isRepeatable: false, updatedWallMs };
}

function failed(error: JobEnd["error"]): JobOutcome {
  return { status: "failed", output: null, error };
}

function unfinished(status: "expired" | "cancelled", last?: LastFailure): JobOutcome {
  const why = last === undefined ? "" : `; the last attempt ended with ${last.code}: ${last.message}`;
  const message = status === "expired" ? `its sla ended before it was done${why}` : "it was cancelled";
  return { status, output: null, error: { code: status, message, retryable: true } };
}
