/**
 * One attempt of a job, from its place in the queue to its next step.
 *
 *   held back by a destination that is down -> waits
 *   prepared again -> cannot be attempted: ends | has another destination: waits there
 *        \-> intent stored -> run -> completed: ends
 *                                \-> failed: ends, or waits by the retry decision (`job_retry.ts`)
 *
 * The intent is durable before the function is called, so that after a crash the number of the attempt is known and what may have been
 * done is not done twice.
 */
import type { Clock } from "../clock.ts";
import type { DiskSpace } from "../engine/journal/disk_space.ts";
import type { DownDestinations } from "./down_destinations.ts";
import type {
  AttemptEnd,
  JobDestination,
  JobEnd,
  JobFacts,
  JobLimits,
  JobProgress,
  JobRetries,
  JobSender,
  LastFailure,
  ReadyJob,
} from "./job.ts";
import { RunningAttempt } from "./job_attempt.ts";
import type { JobEntry } from "./job_entry.ts";
import type { JobLog } from "./job_log.ts";
import { decideAgain, decideAttempt } from "./job_retry.ts";

/** How a job ends. */
export type JobOutcome = Pick<JobEnd, "status" | "output" | "error">;

/** What follows an attempt; "none": the job waits for a probe, has ended, or continues in the next process. */
export type Next =
  | { readonly kind: "end"; readonly outcome: JobOutcome }
  | { readonly kind: "wait"; readonly delayMs: number }
  | { readonly kind: "none" };

/** What attempts use. */
export interface AttemptsOptions<F extends JobFacts> {
  readonly clock: Clock;
  readonly log: JobLog<F>;
  readonly sender: JobSender<F>;
  readonly limits: Pick<JobLimits, "storesIntents">;
}

const NONE: Next = { kind: "none" };

/** What a queue stops, one after the other. */
export interface QueueSignals {
  /** Nothing more begins. */
  readonly stopping: AbortSignal;
  /** Attempts are stopped, and nothing more is written for them. */
  readonly closing: AbortSignal;
}

/** One for a queue. */
export class JobAttempts<F extends JobFacts> {
  readonly #options: AttemptsOptions<F>;
  readonly #down: DownDestinations<JobEntry<F>>;
  readonly #room: DiskSpace;
  readonly #signals: QueueSignals;
  /** Frees the place of a job. */
  readonly #release: (standing: JobEntry<F>) => void;
  #running = 0;

  constructor(
    options: AttemptsOptions<F>,
    down: DownDestinations<JobEntry<F>>,
    room: DiskSpace,
    release: (standing: JobEntry<F>) => void,
    signals: QueueSignals,
  ) {
    this.#options = options;
    this.#down = down;
    this.#room = room;
    this.#release = release;
    this.#signals = signals;
  }

  /** Functions under way, those included that hold no place. */
  get running(): number {
    return this.#running;
  }

  /** With `ready`, the intent is stored already. Rejects with what is the process's own fault. */
  async make(standing: JobEntry<F>, ready: ReadyJob | undefined): Promise<Next> {
    if (ready !== undefined) return await this.#run(standing, ready);
    const { facts, progress } = standing;
    if (this.#down.holdBack(standing)) {
      standing.phase = phaseOf(progress);
      return NONE;
    }
    const { log, sender } = this.#options;
    const notes = async (): Promise<Uint8Array | undefined> =>
      standing.hasNotes ? await log.notes(standing) : undefined;
    const made = await sender.prepare(facts, { given: () => log.given(standing), notes });
    if (!this.#mayBegin(standing)) return NONE;
    if (made.ok && made.destination !== undefined && !isSame(made.destination, standing.destination)) {
      standing.destination = made.destination;
      return { kind: "wait", delayMs: 1 };
    }
    const begun = made.ok ? decideAgain(progress, made.retries) : made;
    if (!begun.ok) return failed(begun.error);
    if (made.ok && (await this.#intend(standing, made.retries))) return await this.#run(standing, made);
    return NONE;
  }

  /** Takes back an intent: the attempt was never begun. */
  async takeBack(standing: JobEntry<F>): Promise<void> {
    await this.#note(standing, { attempts: standing.progress.attempts - 1, isUnderWay: false });
    standing.phase = phaseOf(standing.progress);
  }

  /** False when the attempt is not to begin after all. */
  async #intend(standing: JobEntry<F>, { isRepeatable }: JobRetries): Promise<boolean> {
    if (!this.#options.limits.storesIntents) return true;
    const attempts = standing.progress.attempts + 1;
    await this.#note(standing, { attempts, isUnderWay: true, isRepeatable, nextWallMs: undefined });
    if (this.#mayBegin(standing)) return true;
    if (standing.ending === undefined) await this.takeBack(standing);
    return false;
  }

  async #run(standing: JobEntry<F>, ready: ReadyJob): Promise<Next> {
    const { progress } = standing;
    const keepNotes = async (notes: Uint8Array): Promise<void> => {
      standing.hasNotes = true;
      await this.#whenRoom(async () => {
        attempt.assertCurrent(); // it may have ended while there was no space, and its notes are deleted with it
        await this.#options.log.keepNotes(standing, notes);
      });
    };
    const number = progress.attempts + (this.#options.limits.storesIntents ? 0 : 1);
    const attempt = new RunningAttempt(number, () => this.#release(standing), keepNotes);
    standing.attempt = attempt;
    let end: AttemptEnd;
    this.#running += 1;
    try {
      end = await ready.run(attempt);
    } finally {
      this.#running -= 1;
      attempt.end();
    }
    return standing.ending === undefined ? await this.#decide(standing, ready.retries, end) : NONE;
  }

  async #decide(standing: JobEntry<F>, retries: JobRetries, end: AttemptEnd): Promise<Next> {
    const isUnsent = end.kind !== "completed" && end.failed.failure === "not_sent";
    if (!isUnsent) this.#down.reached(standing);
    const { clock, limits } = this.#options;
    const isAmbiguous = end.kind !== "completed" && end.failed.failure === "ambiguous";
    const isCutOff = this.#signals.closing.aborted && isAmbiguous;
    if (!limits.storesIntents && !isCutOff)
      standing.progress = { ...standing.progress, attempts: standing.progress.attempts + 1 };
    if (end.kind === "completed")
      return { kind: "end", outcome: { status: "completed", output: end.output, error: null } };
    const { progress } = standing;
    if (isCutOff) {
      // Else it stays as it is stored: begun, and perhaps done.
      if (retries.isRepeatable && limits.storesIntents) await this.#note(standing, { isUnderWay: false });
      return NONE;
    }
    const ambiguousAttempts = progress.ambiguousAttempts + (isAmbiguous ? 1 : 0);
    const remainingMs = standing.deadlineMs - clock.nowMs();
    const failures = isUnsent ? this.#down.failures(standing) : 0;
    const counts = { ambiguousAttempts, attempts: Math.max(progress.attempts, failures) };
    const decided = decideAttempt(end.failed, counts, retries, { remainingMs, random: clock.random() });
    if (!decided.retry) return failed(decided.error);
    const delayMs = Math.max(1, decided.delayMs); // it leaves its place first
    const dueMs = clock.nowMs() + delayMs;
    const nextWallMs = clock.wallMs() + Math.ceil(delayMs);
    const last = lastOf(end.failed, progress.last, clock.wallMs());
    await this.#note(standing, { ambiguousAttempts, isUnderWay: false, nextWallMs, last });
    if (this.#isPassed(standing)) return NONE;
    // A job with waits of its own keeps to them.
    if (isUnsent && retries.delaysMs === undefined && this.#down.failed(standing, dueMs)) {
      standing.phase = "retrying";
      return NONE;
    }
    return { kind: "wait", delayMs };
  }

  /** False as well once the queue begins nothing more: then it waits again. */
  #mayBegin(standing: JobEntry<F>): boolean {
    if (!this.#isPassed(standing) && !this.#signals.stopping.aborted) return true;
    standing.phase = phaseOf(standing.progress);
    return false;
  }

  /** Its end is decided already, or up to the next process. */
  #isPassed(standing: JobEntry<F>): boolean {
    return standing.ending !== undefined || this.#signals.closing.aborted;
  }

  #whenRoom(write: () => Promise<void>): Promise<void> {
    return this.#room.waitFor(write, { signal: this.#signals.closing });
  }

  /** Durable when it resolves. */
  async #note(standing: JobEntry<F>, change: Partial<JobProgress>): Promise<void> {
    const { log, clock } = this.#options;
    const updatedWallMs = Math.max(standing.progress.updatedWallMs, clock.wallMs());
    const progress = { ...standing.progress, ...change, updatedWallMs };
    await this.#whenRoom(async () => {
      if (standing.ending === undefined) await log.progress(standing, progress);
    });
    standing.progress = progress;
  }
}

/** Of a job that waits. */
export function phaseOf({ attempts }: JobProgress): "retrying" | "queued" {
  return attempts > 0 ? "retrying" : "queued";
}

function failed(error: JobEnd["error"]): Next {
  return { kind: "end", outcome: { status: "failed", output: null, error } };
}

/** A bound that has changed since it was stored does not count. */
function isSame(one: JobDestination, other: JobDestination | undefined): boolean {
  return one.name === other?.name && one.share === other.share;
}

/** Since when attempts in a row did nothing. */
function lastOf(
  { failure, code, message }: LastFailure | Omit<LastFailure, "sinceWallMs">,
  before: LastFailure | undefined,
  wallMs: number,
): LastFailure {
  const isSame = before !== undefined && failure !== "ambiguous" && before.failure !== "ambiguous";
  return { failure, code, message, sinceWallMs: isSame ? before.sinceWallMs : wallMs };
}
