/**
 * The life of pending executions, from the moment they are stored to the moment their end is.
 *
 *   queued -> running -> ending (completed) ............................ -> stored, told
 *     ^         |  \---> ending (failed: for good, or nothing left)
 *     |         v
 *     \----- retrying    (its wait is over)
 *   any of the three -> ending (cancelled, expired): a running attempt is stopped, and what it gives is nobody's
 *   running -> as it is stored, when the process closes
 *
 * An attempt begins when its intent is durable, so that after a crash its number is known and what may have been done is not
 * done twice. What ends one is decided once, in memory, and then written for as long as it takes: on a full disk nothing
 * new begins, and ends wait for room (`engine/room.ts`).
 *
 * Who fails for a reason of ours, such as a store that cannot be read, tries again after 30 s without its attempt being counted.
 */
import { setMaxListeners } from "node:events";
import type { Clock, Timer } from "../../clock.ts";
import { Room } from "../../engine/room.ts";
import { PerigeeError } from "../../errors.ts";
import type { RecordStore } from "../../store/records.ts";
import { overAtMs } from "../../work/sla.ts";
import type { ExecutionError } from "../sdk/execution.ts";
import { Alarms } from "./alarms.ts";
import { type PreparedAttempt, type PrepareParts, prepareAttempt } from "./attempt_prepare.ts";
import { decideAgain, decideAttempt, type FailedAttempt, LOST } from "./attempt_retry.ts";
import { type AttemptEnd, AttemptRun, type RunOptions, type RunParts } from "./attempt_run.ts";
import type { Destinations } from "./destinations.ts";
import { DownDestinations } from "./down_destinations.ts";
import type { OtherExecutions } from "./execute_other.ts";
import { openNotes } from "./execution_notes.ts";
import { ExecutionQueue, type Waiting } from "./execution_queue.ts";
import {
  type ExecutionEnd,
  type ExecutionFacts,
  type ExecutionProgress,
  endChanges,
  progressPut,
  type StoredHold,
} from "./execution_record.ts";

/** After a fault of ours. */
const AGAIN_MS = 30_000;

/** What runs executions, and how much of it at once. */
export interface RunnerParts extends RunParts, PrepareParts {
  readonly clock: Clock;
  readonly store: RecordStore;
  readonly destinations: Destinations;
  /** Attempts at once. */
  readonly placesMax: number;
  /** `SatelliteCall.execute`, for an execution. */
  readonly execute: OtherExecutions["execute"];
  /** How long `close` waits for attempts and for what is being written. */
  readonly closeMs: number;
  readonly onFault: (error: unknown) => void;
  /** The end of an execution is durable. */
  readonly onEnded: (facts: ExecutionFacts, end: ExecutionEnd) => void;
}

/** A pending execution as it is now. */
export interface PendingExecution {
  readonly facts: ExecutionFacts;
  readonly progress: ExecutionProgress;
  readonly phase: "queued" | "running" | "retrying";
  /** What its satellite says of how far it is; of the attempt that runs. */
  readonly shown: { readonly done: number; readonly total?: number } | undefined;
}

/** One of these for each pending execution of a process. */
interface Standing extends Waiting {
  readonly facts: ExecutionFacts;
  progress: ExecutionProgress;
  phase: PendingExecution["phase"];
  shown: PendingExecution["shown"];
  deadline: Timer | undefined;
  retry: Timer | undefined;
  run: AttemptRun | undefined;
  /** Once its end is decided: settles when that is durable. */
  ending: Promise<void> | undefined;
}

type Outcome = Pick<ExecutionEnd, "status" | "output" | "error">;

/** One for a store: it takes each pending execution to one end, and none twice. */
export class ExecutionRunner {
  readonly #parts: RunnerParts;
  readonly #queue: ExecutionQueue<Standing>;
  readonly #alarms: Alarms;
  readonly #down: DownDestinations<Standing>;
  readonly #room: Room;
  readonly #closing = new AbortController();
  /** By id. */
  readonly #standings = new Map<string, Standing>();
  /** Attempts, and ends that are being written. */
  readonly #underWay = new Set<Promise<unknown>>();
  /** Who is not to wait for room. */
  readonly #impatient = new Set<(error: PerigeeError) => void>();
  #hasRoom = true;

  constructor(parts: RunnerParts) {
    this.#parts = parts;
    const { clock, placesMax, destinations } = parts;
    setMaxListeners(0, this.#closing.signal); // one for each write that waits for room
    this.#alarms = new Alarms(clock);
    this.#down = new DownDestinations({
      alarms: this.#alarms,
      nowMs: () => clock.nowMs(),
      begin: (standing) => this.#wait(standing, 1), // not at once: it may be about to leave its place
    });
    this.#queue = new ExecutionQueue({
      placesMax,
      destinations,
      start: (standing) => this.#track(this.#attempt(standing)),
    });
    const onRoom = (hasRoom: boolean): void => this.#roomChanged(hasRoom);
    this.#room = new Room({ clock, waitMs: Number.POSITIVE_INFINITY, onRoom });
  }

  /** The others are queued or retrying. */
  get running(): number {
    return this.#queue.running;
  }

  /** Undefined when its end is stored, or it was never one of ours. */
  find(id: string): PendingExecution | undefined {
    const standing = this.#standings.get(id);
    const dueMs = standing === undefined ? undefined : this.#down.dueMs(standing);
    if (standing === undefined || dueMs === undefined) return standing;
    return { ...standing, progress: { ...standing.progress, nextWallMs: this.#wallMs(dueMs) } };
  }

  /** Takes over one that is stored as pending. */
  add(facts: ExecutionFacts, progress: ExecutionProgress): PendingExecution {
    const { project, destination, deadlineWallMs, id } = facts;
    const standing: Standing = {
      ...{ facts, progress, project, destination },
      deadlineMs: overAtMs(this.#parts.clock, deadlineWallMs),
      phase: "queued",
      ...{ shown: undefined, deadline: undefined, retry: undefined, run: undefined, ending: undefined },
    };
    this.#standings.set(id, standing);
    standing.deadline = this.#alarms.set(standing.deadlineMs, () => this.#endFor(standing, "expired"));
    const { clock } = this.#parts;
    if (standing.deadlineMs <= clock.nowMs()) this.#endFor(standing, "expired");
    else this.#resume(standing, (progress.nextWallMs ?? 0) - clock.wallMs());
    return standing;
  }

  /** Resolves when its end is durable, whatever that is; nothing when that is so already. Throws `disk_full`. */
  async cancel(id: string): Promise<void> {
    const standing = this.#standings.get(id);
    if (standing === undefined) return;
    if (!this.#hasRoom) throw noRoom();
    let refuse: ((error: PerigeeError) => void) | undefined;
    const refused = new Promise<never>((_resolve, reject) => {
      refuse = reject;
      this.#impatient.add(reject);
    });
    try {
      await Promise.race([this.#end(standing, unfinished("cancelled")), refused]);
    } finally {
      if (refuse !== undefined) this.#impatient.delete(refuse);
    }
  }

  /** Begins nothing more; attempts are stopped, and go on after a restart. Takes at most `closeMs`. */
  async close(): Promise<void> {
    const { clock, closeMs } = this.#parts;
    const closed = new PerigeeError("closed", "the process is closing");
    this.#closing.abort(closed);
    this.#queue.close();
    this.#alarms.close();
    for (const { run } of this.#standings.values()) run?.stop(closed);
    const given = new Promise<"over">((resolve) => {
      clock.timer(closeMs, () => resolve("over"), { keepsAlive: false });
    });
    while (this.#underWay.size > 0)
      if ((await Promise.race([Promise.allSettled(this.#underWay), given])) === "over") return;
  }

  #track(work: Promise<unknown>): void {
    this.#underWay.add(work);
    const over = (): unknown => this.#underWay.delete(work);
    work.then(over, over);
  }

  /** From what is stored: an attempt that is under way there may have been made. */
  #resume(standing: Standing, delayMs: number): void {
    const { progress } = standing;
    if (progress.isUnderWay && !progress.isRepeatable) {
      this.#endFor(standing, "failed");
      return;
    }
    if (progress.isUnderWay) {
      const ambiguousAttempts = progress.ambiguousAttempts + 1;
      standing.progress = { ...progress, ambiguousAttempts, isUnderWay: false };
    }
    this.#wait(standing, delayMs);
  }

  #wait(standing: Standing, delayMs: number): void {
    standing.phase = standing.progress.attempts > 0 ? "retrying" : "queued";
    if (!(delayMs > 0)) {
      this.#queue.push(standing);
      return;
    }
    standing.retry = this.#alarms.set(this.#parts.clock.nowMs() + delayMs, () => {
      standing.retry = undefined;
      this.#queue.push(standing);
    });
  }

  /** Never rejects. */
  async #attempt(standing: Standing): Promise<void> {
    standing.phase = "running";
    try {
      if (this.#isHeldBack(standing)) return;
      const made = await prepareAttempt(this.#parts, standing.facts);
      if (this.#isPassed(standing)) return;
      const begun = made.ok ? decideAgain(standing.progress, made.prepared.rules) : made;
      if (!begun.ok) await this.#end(standing, failed(begun.error));
      else if (made.ok) await this.#run(standing, made.prepared);
    } catch (error) {
      this.#fault(standing, error);
    } finally {
      standing.run = undefined;
      standing.shown = undefined;
      this.#queue.ended(standing);
    }
  }

  /** Unix time of a moment that is not over yet, in whole milliseconds. */
  #wallMs(atMs: number): number {
    const { clock } = this.#parts;
    return clock.wallMs() + Math.ceil(Math.max(0, atMs - clock.nowMs()));
  }

  /** Another execution looks whether its destination is back. */
  #isHeldBack(standing: Standing): boolean {
    if (!this.#down.holdBack(standing)) return false;
    standing.phase = standing.progress.attempts > 0 ? "retrying" : "queued";
    return true;
  }

  async #run(standing: Standing, prepared: PreparedAttempt): Promise<void> {
    const { facts, progress } = standing;
    const attempt = progress.attempts + 1;
    const onProgress = (done: number, total?: number): void => {
      standing.shown = total === undefined ? { done } : { done, total };
    };
    const execute: RunOptions["execute"] = (name, other, signal) =>
      this.#parts.execute(facts, name, other, { signal, onWait: () => this.#queue.ended(standing) }); // its place is free
    const run = new AttemptRun(this.#parts, { prepared, facts, attempt, onProgress, execute });
    standing.run = run;
    const assertCurrent = (): void => {
      if (standing.ending !== undefined) throw new PerigeeError("closed", "the execution is over");
      run.assertCurrent();
    };
    const notes = await openNotes({
      ...{ store: this.#parts.store, facts, redaction: prepared.redaction, assertCurrent },
      isFirst: attempt === 1,
      whenRoom: (write) => this.#whenRoom(write),
    });
    const { isRepeatable } = prepared.rules;
    await this.#note(standing, { attempts: attempt, isUnderWay: true, isRepeatable, nextWallMs: undefined });
    if (standing.ending !== undefined) return;
    if (this.#closing.signal.aborted) {
      await this.#note(standing, { attempts: attempt - 1, isUnderWay: false });
      return;
    }
    const end = await run.run(notes);
    if (standing.ending === undefined) await this.#decide(standing, prepared, end);
  }

  async #decide(standing: Standing, { rules }: PreparedAttempt, end: AttemptEnd): Promise<void> {
    const isUnsent = end.kind !== "completed" && end.failed.failure === "not_sent";
    if (!isUnsent) this.#down.reached(standing);
    if (end.kind === "completed") {
      await this.#end(standing, { status: "completed", output: end.output, error: null });
      return;
    }
    const { clock } = this.#parts;
    const { progress } = standing;
    const isAmbiguous = end.failed.failure === "ambiguous";
    if (this.#closing.signal.aborted && isAmbiguous) {
      // Else it stays as it is stored: begun, and perhaps done.
      if (rules.isRepeatable) await this.#note(standing, { isUnderWay: false });
      return;
    }
    const ambiguousAttempts = progress.ambiguousAttempts + (isAmbiguous ? 1 : 0);
    const remainingMs = standing.deadlineMs - clock.nowMs();
    const failures = isUnsent ? this.#down.failures(standing) : 0;
    const counts = { ...progress, ambiguousAttempts, attempts: Math.max(progress.attempts, failures) };
    const decided = decideAttempt(end.failed, counts, rules, { remainingMs, random: clock.random() });
    if (!decided.retry) {
      await this.#end(standing, failed(decided.error));
      return;
    }
    const dueMs = clock.nowMs() + decided.delayMs;
    const nextWallMs = this.#wallMs(dueMs);
    const held = holdOf(end.failed, progress.held?.sinceWallMs ?? clock.wallMs());
    await this.#note(standing, { ambiguousAttempts, isUnderWay: false, nextWallMs, held });
    if (this.#isPassed(standing)) return;
    if (!isUnsent || !this.#down.failed(standing, dueMs)) this.#wait(standing, decided.delayMs);
    else standing.phase = "retrying";
  }

  /** Its end is decided already, or up to the next process. */
  #isPassed(standing: Standing): boolean {
    return standing.ending !== undefined || this.#closing.signal.aborted;
  }

  /** Durable when it resolves. */
  async #note(standing: Standing, change: Partial<ExecutionProgress>): Promise<void> {
    const { store, clock } = this.#parts;
    const updatedWallMs = Math.max(standing.progress.updatedWallMs, clock.wallMs());
    const progress = { ...standing.progress, ...change, updatedWallMs };
    await this.#whenRoom(async () => {
      if (standing.ending === undefined) await store.change([progressPut(standing.facts, progress)]);
    });
    standing.progress = progress;
  }

  #endFor(standing: Standing, status: "expired" | "failed"): void {
    const { held } = standing.progress;
    void this.#end(standing, status === "failed" ? failed(LOST) : unfinished(status, held));
  }

  /** The first end of an execution is its end. Settles when it is durable, or when that is up to the next process. */
  #end(standing: Standing, outcome: Outcome): Promise<void> {
    if (standing.ending !== undefined) return standing.ending;
    this.#queue.remove(standing);
    standing.retry?.cancel();
    standing.deadline?.cancel();
    this.#down.remove(standing);
    standing.run?.stop(new PerigeeError("interrupted", `the execution is ${outcome.status}`));
    const { attempts, updatedWallMs } = standing.progress;
    const wallMs = Math.max(updatedWallMs, this.#parts.clock.wallMs());
    standing.ending = this.#store(standing, { ...outcome, wallMs, retries: Math.max(0, attempts - 1) });
    this.#track(standing.ending);
    return standing.ending;
  }

  async #store({ facts }: Standing, end: ExecutionEnd): Promise<void> {
    try {
      await this.#whenRoom(() => this.#parts.store.change(endChanges(facts, end)));
    } catch (error) {
      this.#tell(error);
      throw error;
    }
    this.#standings.delete(facts.id);
    this.#parts.onEnded(facts, end);
  }

  #whenRoom(write: () => Promise<void>): Promise<void> {
    return this.#room.waitFor(write, { signal: this.#closing.signal });
  }

  #roomChanged(hasRoom: boolean): void {
    this.#hasRoom = hasRoom;
    this.#queue.pause(!hasRoom);
    if (!hasRoom) for (const refuse of this.#impatient) refuse(noRoom());
  }

  #fault(standing: Standing, error: unknown): void {
    if (this.#isPassed(standing)) return;
    this.#tell(error);
    this.#resume(standing, AGAIN_MS);
  }

  #tell(error: unknown): void {
    const code = error instanceof PerigeeError ? error.code : undefined;
    if (code === "store_failed" || code === "closed") this.#queue.close(); // nothing can be written any more
    if (code !== "closed" && !this.#closing.signal.aborted) this.#parts.onFault(error);
  }
}

function failed(error: ExecutionError): Outcome {
  return { status: "failed", output: null, error };
}

/** Undefined for an attempt that may have done something. */
function holdOf({ failure, code, message }: FailedAttempt, sinceWallMs: number): StoredHold | undefined {
  if (failure === "not_sent") return { reason: "outage", code, message, sinceWallMs };
  if (failure !== "refused") return undefined;
  return { reason: code === "http_429" ? "rate_limited" : "overloaded", code, message, sinceWallMs };
}

function unfinished(status: "expired" | "cancelled", held?: StoredHold): Outcome {
  const why = held === undefined ? "" : `; the last attempt ended with ${held.code}: ${held.message}`;
  const message = status === "expired" ? `its sla ended before it was done${why}` : "it was cancelled";
  return { status, output: null, error: { code: status, message, retryable: true } };
}

function noRoom(): PerigeeError {
  return new PerigeeError("disk_full", "no space left on the disk");
}
