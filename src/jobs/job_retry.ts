/**
 * Whether a job gets another attempt: the one retry decision (`dispatch/retry.ts`), in the terms of jobs.
 *
 *   failure     repeated                                                 else the job ends with
 *   not_sent    until the deadline: nothing was done                     the attempt's code
 *   refused     until the deadline: the receiver was not ready           the attempt's code
 *   ambiguous   where the job is repeatable, attemptsMax in all          the attempt's code; `ambiguous` where it is not
 *   permanent   never                                                    its code
 *   any of the first three, when no attempt fits before the deadline      `expired`, at its deadline, with the last failure in the message
 *
 * Waits are those of the retry decision, up to 5 minutes, and at least what the receiver asks for. A job with waits of its own
 * (`delaysMs`) is attempted once more than it has waits, after any failures. Pure.
 */
import { decideRetry, decideStart, RETRY_POLICY, type RetryPolicy } from "../dispatch/retry.ts";
import type { FailedAttempt, JobError, JobProgress, JobRetries } from "./job.ts";

const BACKOFF_MS_MAX = 300_000;

/** Again after a wait in milliseconds, or what the job fails with. */
export type AttemptDecision =
  | { readonly retry: true; readonly delayMs: number }
  | { readonly retry: false; readonly error: JobError };

/** A failure that was not the satellite's own fault does not count: see `policyOf`. */
const ALL_COUNT = { uncounted: 0, uncountedAmbiguous: 0, unusableAnswers: 0 };

type Counts = Pick<JobProgress, "attempts" | "ambiguousAttempts">;

/** `counts` with the attempt that has failed; `random` in [0, 1). */
export function decideAttempt(
  failed: FailedAttempt,
  counts: Counts,
  retries: JobRetries,
  { remainingMs, random }: { readonly remainingMs: number; readonly random: number },
): AttemptDecision {
  const { failure, code, message, retryAfterMs } = failed;
  const state = { ...counts, ...ALL_COUNT, remainingMs };
  const result = {
    ...{ class: failure, message, scope: "item" as const, latencyMs: 0 },
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  };
  const decided = decideRetry(state, result, policyOf(retries), random);
  if (decided.retry) return decided;
  // It waits beyond its deadline, which ends it first.
  if (decided.code === "expired")
    return { retry: true, delayMs: Math.max(retryAfterMs ?? 0, remainingMs + 1) };
  if (failure === "ambiguous" && !retries.isRepeatable)
    return { retry: false, error: ambiguous(code, message) };
  return { retry: false, error: { code, message, retryable: failure !== "permanent" } };
}

/** Whether one whose earlier attempts ended with a process may begin another; else what it ends with. */
export function decideAgain(
  counts: Counts,
  retries: JobRetries,
): { readonly ok: true } | { readonly ok: false; readonly error: JobError } {
  return decideStart({ ...counts, ...ALL_COUNT }, policyOf(retries)).ok
    ? { ok: true }
    : { ok: false, error: LOST };
}

/** Nothing is known of the last attempt but that it had begun. */
export const LOST: JobError = {
  code: "ambiguous",
  message: "the process ended during an attempt, which may have done its work",
  retryable: true,
};

function ambiguous(code: string, message: string): JobError {
  return {
    code: "ambiguous",
    message: `it may have been done, and is not repeated (${code}: ${message})`,
    retryable: true,
  };
}

function policyOf({ attemptsMax, isRepeatable, delaysMs }: JobRetries): RetryPolicy {
  return {
    ...RETRY_POLICY,
    attemptsMax: delaysMs === undefined ? Number.POSITIVE_INFINITY : delaysMs.length + 1,
    ambiguousMax: isRepeatable ? attemptsMax - 1 : 0,
    backoffMaxMs: BACKOFF_MS_MAX,
    delaysMs,
  };
}
