/**
 * Whether an execution gets another attempt: the one retry layer (`dispatch/retry.ts`), in the terms of satellites. One rule
 * for all satellites and hosts (docs/guide/executions.md).
 *
 *   failure     repeated                                                   else the execution ends with
 *   not_sent    until the deadline: nothing was done                       the attempt's code
 *   refused     until the deadline: the other side was not ready           the attempt's code
 *   ambiguous   where the satellite is repeatable, attemptsMax in all      the attempt's code; `ambiguous` where it is not
 *   permanent   never                                                      its code
 *
 * Waits are those of the retry layer, up to 5 minutes, and at least what the satellite asks for. Pure.
 */
import { decideRetry, decideStart, RETRY_POLICY, type RetryPolicy } from "../../dispatch/retry.ts";
import type { ExecutionError } from "../sdk/execution.ts";
import type { SatelliteFailure } from "../sdk/satellite_error.ts";
import type { ExecutionProgress } from "./execution_record.ts";

export const ATTEMPTS_MAX = 8;
const BACKOFF_MS_MAX = 300_000;

/** How an attempt failed. */
export interface FailedAttempt {
  readonly failure: SatelliteFailure;
  readonly code: string;
  /** Without the values of secrets. */
  readonly message: string;
  readonly retryAfterMs?: number | undefined;
}

/** What the satellite itself says of repeats. */
export interface RetryRules {
  /** Of which nothing is known. */
  readonly attemptsMax: number;
  readonly isRepeatable: boolean;
}

/** Again after a wait in milliseconds, or what the execution fails with. */
export type AttemptDecision =
  | { readonly retry: true; readonly delayMs: number }
  | { readonly retry: false; readonly error: ExecutionError };

/** What was not the satellite's own fault is no attempt that is bounded: see `policyOf`. */
const ALL_COUNT = { uncounted: 0, uncountedAmbiguous: 0 };

type Counts = Pick<ExecutionProgress, "attempts" | "ambiguousAttempts">;

/** `counts` with the attempt that has failed; `random` in [0, 1). */
export function decideAttempt(
  failed: FailedAttempt,
  counts: Counts,
  rules: RetryRules,
  { remainingMs, random }: { readonly remainingMs: number; readonly random: number },
): AttemptDecision {
  const { failure, code, message, retryAfterMs } = failed;
  const state = { ...counts, ...ALL_COUNT, emptyOutputs: 0, remainingMs };
  const result = {
    ...{ class: failure, message, scope: "item" as const, latencyMs: 0 },
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  };
  const decided = decideRetry(state, result, policyOf(rules), random);
  if (decided.retry) return decided;
  if (failure === "ambiguous" && !rules.isRepeatable)
    return { retry: false, error: ambiguous(code, message) };
  return { retry: false, error: { code, message, retryable: failure !== "permanent" } };
}

/** Whether one whose earlier attempts ended with a process may begin another; else what it ends with. */
export function decideAgain(
  counts: Counts,
  rules: RetryRules,
): { readonly ok: true } | { readonly ok: false; readonly error: ExecutionError } {
  return decideStart({ ...counts, ...ALL_COUNT }, policyOf(rules)).ok
    ? { ok: true }
    : { ok: false, error: LOST };
}

/** Nothing is known of the last attempt but that it had begun. */
export const LOST: ExecutionError = {
  code: "ambiguous",
  message: "the process ended during an attempt, which may have done its work",
  retryable: true,
};

function ambiguous(code: string, message: string): ExecutionError {
  return {
    code: "ambiguous",
    message: `it may have been done, and is not repeated (${code}: ${message})`,
    retryable: true,
  };
}

function policyOf({ attemptsMax, isRepeatable }: RetryRules): RetryPolicy {
  return {
    ...RETRY_POLICY,
    attemptsMax: Number.POSITIVE_INFINITY,
    ambiguousMax: isRepeatable ? attemptsMax - 1 : 0,
    backoffMaxMs: BACKOFF_MS_MAX,
  };
}
