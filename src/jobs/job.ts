/**
 * A job: one call of a function that is accepted durably, attempted until it ends, and ends once.
 *
 *   (none) -> pending -> completed     an attempt returned an output
 *                     -> failed        an attempt failed for good, its attempts were used up, or one was ambiguous and may not be repeated
 *                     -> cancelled     requested by the owner
 *                     -> expired       its deadline passed first
 *
 * A pending job is queued, running or retrying. The first end is the end.
 */
import type { AttemptResult } from "../dispatch/attempt.ts";
import type { RetryPolicy } from "../dispatch/retry.ts";
import type { JsonObject } from "../work/json.ts";

/** What never changes of a job. Times are Unix time in milliseconds. */
export interface JobFacts {
  /** Unique among the jobs of its kind. */
  readonly id: string;
  readonly project: string;
  readonly createdWallMs: number;
  /** When it expires; undefined: its retries end it. */
  readonly deadlineWallMs: number | undefined;
  /** Jobs to one destination share a limit of concurrency, from 1. Undefined: it has no limit of its own. */
  readonly destination: JobDestination | undefined;
}

export interface JobDestination {
  readonly name: string;
  readonly concurrency: number;
  /** A part of the destination, such as one endpoint of a host: see `job_order.ts`. Undefined: no bound besides `concurrency`. */
  readonly share?: string | undefined;
}

/** How far a pending job is. */
export interface JobProgress {
  /** Attempts begun, the one under way included. */
  readonly attempts: number;
  /** Attempts that may have done something without an answer. */
  readonly ambiguousAttempts: number;
  /** Whether an attempt may be running: after a crash it is one more that is ambiguous. */
  readonly isUnderWay: boolean;
  /** Whether the last attempt may be repeated when nothing is known of it. */
  readonly isRepeatable: boolean;
  readonly updatedWallMs: number;
  /** When the next attempt may begin; absent: at once. */
  readonly nextWallMs?: number | undefined;
  /** How the last attempt failed; absent before the first. */
  readonly last?: LastFailure | undefined;
}

/** `sinceWallMs`: since when the attempts in a row did nothing. */
export interface LastFailure extends Pick<FailedAttempt, "failure" | "code" | "message"> {
  readonly sinceWallMs: number;
}

/** A pending job as it is now. */
export interface PendingJob<F extends JobFacts = JobFacts> {
  readonly facts: F;
  readonly progress: JobProgress;
  readonly phase: "queued" | "running" | "retrying";
  /** What the running attempt says of its progress. */
  readonly shown: JobShown | undefined;
}

export interface JobShown {
  readonly done: number;
  readonly total?: number;
}

/** Why a job has no output. */
export interface JobError {
  /** That of the last attempt, or `ambiguous`, `expired`, `cancelled`. */
  readonly code: string;
  readonly message: string;
  /** Whether a new job may succeed. */
  readonly retryable: boolean;
}

/** How a job ended. */
export interface JobEnd {
  readonly status: "completed" | "failed" | "cancelled" | "expired";
  readonly output: JsonObject | null;
  readonly error: JobError | null;
  readonly wallMs: number;
  readonly attempts: number;
}

/** How an attempt failed. */
export interface FailedAttempt {
  readonly failure: Exclude<AttemptResult["class"], "success">;
  readonly code: string;
  readonly message: string;
  readonly retryAfterMs?: number | undefined;
}

/** The result of an attempt. */
export type AttemptEnd =
  | { readonly kind: "completed"; readonly output: JsonObject }
  | { readonly kind: "failed"; readonly failed: FailedAttempt };

/** How often and when a job is attempted. */
export interface JobRetries {
  /** Of them, all that may be ambiguous; with `delaysMs`, all there are. */
  readonly attemptsMax: number;
  /** Whether an attempt of which nothing is known may be repeated. */
  readonly isRepeatable: boolean;
  /** The waits between attempts; absent: backoff, until the deadline. */
  readonly delaysMs?: RetryPolicy["delaysMs"];
}

/** An attempt of a job, as its function sees it. */
export interface JobAttempt {
  /** From 1, over all processes. */
  readonly number: number;
  /** Aborts when the job ends otherwise, the process closes, or `stop` is called. */
  readonly signal: AbortSignal;
  /** Calls back once, when the attempt is to stop; at once if it already is. */
  onStop(stopped: () => void): void;
  /** Why it is to stop. */
  readonly stopReason: unknown;
  /** Ends the attempt before its time; the first reason stays. */
  stop(reason: unknown): void;
  /** Throws `closed` once the attempt is over. */
  assertCurrent(): void;
  show(shown: JobShown): void;
  /** The attempt waits for another job, and holds no place while it does. */
  releasePlace(): void;
  /** Stores what the attempt has reached, to be read by the next one. Waits while the disk is full. */
  keepNotes(notes: Uint8Array): Promise<void>;
}

/** An attempt that can be made. */
export interface ReadyJob {
  readonly ok: true;
  readonly retries: JobRetries;
  /** The attempt's destination; the job waits for a slot there when it has one of another. Absent: the one it was accepted with. */
  readonly destination?: JobDestination;
  /** Called once. Settles soon after `signal` aborts. Rejects with what is the process's own fault; then it is repeated later. */
  run(attempt: JobAttempt): Promise<AttemptEnd>;
}

/** A job that cannot be attempted ends with `error`. */
export type Prepared = ReadyJob | { readonly ok: false; readonly error: JobError };

/** What is stored of a job for its attempts. */
export interface JobTexts {
  /** What it was accepted with; undefined when that was deleted. */
  given(): Promise<Uint8Array | undefined>;
  /** What earlier attempts kept. */
  notes(): Promise<Uint8Array | undefined>;
}

/** The function of a kind of jobs. */
export interface JobSender<F extends JobFacts> {
  /** By what pending jobs are counted, such as the project. */
  groupOf(facts: F): string;
  /** Right before each attempt. Rejects with what is the process's own fault; the job is tried again after 30 s. */
  prepare(facts: F, texts: JobTexts): Promise<Prepared>;
  /** Called when the end of a job is durable. Must not throw. */
  ended(facts: F, end: JobEnd): void;
  /** Receives what ought not to happen. */
  fault(error: unknown): void;
}

/** Limits of one kind of jobs. */
export interface JobLimits {
  /** Attempts at once. */
  readonly placesMax: number;
  /** Pending jobs of one group, and of all. */
  readonly groupPendingMax: number;
  readonly pendingMax: number;
  /** How long `close` waits for attempts and for writes. */
  readonly closeMs: number;
  /**
   * Whether an attempt is counted durably before it begins. Without it an attempt that a crash or a closing process cuts off is made
   * again and does not count: for repeatable jobs whose function cannot take the process down.
   */
  readonly storesIntents: boolean;
}
