/**
 * Decides whether a failed attempt is repeated, when, and what the item ends with if not. Pure.
 *
 *   class       repeated                                                  else the item ends with
 *   not_sent    while attempts < attemptsMax                              the last failure's code
 *   refused     while attempts < attemptsMax                              the last failure's code
 *   ambiguous   and while ambiguous attempts <= ambiguousMax              the last failure's code;
 *                                                                         `ambiguous` when ambiguousMax is 0
 *     empty_output   and only once                                        `empty_output`
 *   permanent   never                                                     its code
 *
 * Only the ambiguous class costs budget: the others were surely not billed. Everything is bounded by `attemptsMax`.
 *
 * Wait: full jitter, random x min(30 s, 0.5 s x 2^(attempts - 1)), at most half of the remaining time, and at least
 * what the provider asked for (formula: AWS Architecture Blog, "Exponential Backoff And Jitter", 2015). A wait after
 * which no attempt fits any more is no retry.
 *
 * Hedging (a second request beside a slow one) is off: there is exactly one request per attempt.
 */
import type { FailureCode } from "../errors.ts";
import type { AttemptResult } from "./attempt.ts";

/** Bounds of the retries of one item. */
export interface RetryPolicy {
  /** Requests sent for one item at most, of all classes together. From 1. */
  readonly attemptsMax: number;
  /** Ambiguous attempts that may be repeated: 2 for at-least-once delivery, 0 for at-most-once. */
  readonly ambiguousMax: number;
  /** Answers without text that may be repeated. */
  readonly emptyOutputsMax: number;
  readonly backoffFirstMs: number;
  readonly backoffMaxMs: number;
}

/** At-least-once delivery. */
export const RETRY_POLICY: RetryPolicy = {
  attemptsMax: 8,
  ambiguousMax: 2,
  emptyOutputsMax: 1,
  backoffFirstMs: 500,
  backoffMaxMs: 30_000,
};

/** What was done for an item so far, the attempt that just failed included. */
export interface RetryState {
  readonly attempts: number;
  readonly ambiguousAttempts: number;
  readonly emptyOutputs: number;
  /** Until the item's deadline; Infinity without one. */
  readonly remainingMs: number;
}

export type RetryDecision =
  | { readonly retry: true; readonly delayMs: number }
  | { readonly retry: false; readonly code: FailureCode };

/** The shortest time that an attempt is given; with less left, none is made. */
export const ATTEMPT_MS_MIN = 50;

/** `random` is a number in [0, 1). The result must be no success. */
export function decideRetry(
  state: RetryState,
  result: AttemptResult,
  policy: RetryPolicy,
  random: number,
): RetryDecision {
  if (!mayRepeat(state, result, policy)) return { retry: false, code: endCode(result, policy) };
  const delayMs = delayBefore(state, result, policy, random);
  if (!(delayMs + ATTEMPT_MS_MIN <= state.remainingMs))
    return { retry: false, code: endCode(result, policy) };
  return { retry: true, delayMs };
}

/**
 * Whether an item with earlier attempts (before a restart) may be sent at all; else the code that it ends with, for
 * nothing more is known of it.
 */
export function decideStart(
  state: Pick<RetryState, "attempts" | "ambiguousAttempts">,
  policy: RetryPolicy,
): { readonly ok: true } | { readonly ok: false; readonly code: FailureCode } {
  if (state.ambiguousAttempts > policy.ambiguousMax) return { ok: false, code: "ambiguous" };
  if (state.attempts < policy.attemptsMax) return { ok: true };
  return { ok: false, code: state.ambiguousAttempts > 0 ? "ambiguous" : "provider_error" };
}

function mayRepeat(state: RetryState, result: AttemptResult, policy: RetryPolicy): boolean {
  if (result.class === "permanent" || result.class === "success") return false;
  if (state.attempts >= policy.attemptsMax) return false;
  if (result.class !== "ambiguous") return true;
  if (result.code === "empty_output" && state.emptyOutputs > policy.emptyOutputsMax) return false;
  return state.ambiguousAttempts <= policy.ambiguousMax;
}

function endCode(result: AttemptResult, policy: RetryPolicy): FailureCode {
  const code = result.code ?? "provider_error";
  // An empty answer is an answer: nothing about it is in doubt.
  return result.class === "ambiguous" && policy.ambiguousMax === 0 && code !== "empty_output"
    ? "ambiguous"
    : code;
}

function delayBefore(state: RetryState, result: AttemptResult, policy: RetryPolicy, random: number): number {
  const exponent = Math.min(Math.max(0, state.attempts - 1), 50); // beyond, the bound below decides anyway
  const backoffMs = random * Math.min(policy.backoffMaxMs, policy.backoffFirstMs * 2 ** exponent);
  const askedMs = result.retryAfterMs ?? 0;
  return Math.max(askedMs > 0 ? askedMs : 0, Math.min(backoffMs, Math.max(0, state.remainingMs / 2)));
}
