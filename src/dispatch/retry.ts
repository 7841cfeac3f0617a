/**
 * Decides whether a failed attempt is repeated, when, and what the item ends with if not. Pure.
 *
 *   class       repeated                                                  else the item ends with
 *   not_sent    while counted attempts < attemptsMax                      the last failure's code
 *   refused     while counted attempts < attemptsMax                      the last failure's code
 *   ambiguous   and while counted ambiguous attempts <= ambiguousMax,     the last failure's code
 *               and answers that cannot be used <= ambiguousMax
 *     under at_most_once (ambiguousMax 0), never                          `ambiguous`
 *     empty_output   and while such answers <= emptyOutputsMax            `empty_output`
 *   permanent   never                                                     its code
 *   any, when no attempt fits before the deadline                         `expired`, at the deadline
 *
 * A failed attempt counts when the item is to blame for it (queue/failures/blame.ts): an outage, a rate limit or an overload
 * (529, or 503 with a wait) costs the item nothing, however often it is met.
 *
 * Wait: full jitter, random x min(30 s, 0.5 s x 2^(attempts - 1)), at most half of the remaining time, and at least
 * what the provider asked for (formula: AWS Architecture Blog, "Exponential Backoff And Jitter", 2015).
 *
 * A policy with waits of its own (`delaysMs`) has those instead, each up to a tenth longer.
 *
 * An attempt is one request. Where two requests of one item are under way (hedge.ts), the decision follows the end of both.
 */
import type { FailureCode } from "../errors.ts";
import type { AttemptResult } from "./attempt.ts";

/** Bounds of the retries of one item. */
export interface RetryPolicy {
  /** Counted requests for one item at most, of all classes together. From 1. */
  readonly attemptsMax: number;
  /** Counted ambiguous attempts that may be repeated: 2 for at-least-once delivery, 0 for at-most-once. */
  readonly ambiguousMax: number;
  /** Answers that cannot be used after which one without text may be repeated. */
  readonly emptyOutputsMax: number;
  readonly backoffFirstMs: number;
  readonly backoffMaxMs: number;
  /** Waits after the first attempt, the second, and so on, in place of backoff; each is up to a tenth longer by chance. */
  readonly delaysMs?: readonly number[] | undefined;
}

/** At-least-once delivery. */
export const RETRY_POLICY: RetryPolicy = {
  attemptsMax: 8,
  ambiguousMax: 2,
  emptyOutputsMax: 1,
  backoffFirstMs: 500,
  backoffMaxMs: 30_000,
};

/** What has been done for an item. */
export interface Made {
  /** Attempts, those included whose request did not leave this machine. */
  readonly attempts: number;
  /** Of these, the ones that do not count against the item: an outage, a rate limit, a stopped account. */
  readonly uncounted: number;
  /** Of all, the ones that may have been billed without an answer. */
  readonly ambiguousAttempts: number;
  /** Of these, the ones that do not count against the item. */
  readonly uncountedAmbiguous: number;
  /** Answers that could not be used: empty ones, those that did not fit, and billed ones that were broken and count against the item. */
  readonly unusableAnswers: number;
}

/** What was done for an item so far, the attempt that just failed included. */
export interface RetryState extends Made {
  /** Of an item whose answer is checked: answers that it has at most. */
  readonly answersMax?: number | undefined;
  /** Refusals of a tier for want of capacity, which are no attempts. */
  readonly sheds?: number;
  /** Until the item's deadline; Infinity without one. */
  readonly remainingMs: number;
}

export type RetryDecision =
  | { readonly retry: true; readonly delayMs: number }
  | { readonly retry: false; readonly code: FailureCode };

/** The shortest time of an attempt; with less left, no attempt is made. */
export const ATTEMPT_MS_MIN = 50;

/** Answers that an item whose answer is checked has at most, the first included. */
export const ANSWERS_MAX = 3;

/** Short beside what an item's deadline leaves for an answer in realtime (queue/offer_choice.ts). */
const TIER_DELAY_MS_MAX = 2_000;
/** So that what failed together is not repeated together. */
const DELAY_JITTER = 0.1;

/**
 * `random` is a number in [0, 1). The result must not be a success. An answer that does not fit is not asked for again in less time than
 * it took.
 */
export function decideRetry(
  state: RetryState,
  result: AttemptResult,
  policy: RetryPolicy,
  random: number,
): RetryDecision {
  if (!mayRepeat(state, result, policy)) return { retry: false, code: endCode(result, policy) };
  const delayMs = delayBefore(state, result, policy, random);
  if (result.class === "unfit" && result.latencyMs > state.remainingMs)
    return { retry: false, code: "expired" };
  if (!(delayMs + ATTEMPT_MS_MIN <= state.remainingMs)) return { retry: false, code: "expired" };
  return { retry: true, delayMs };
}

/**
 * Whether an item with earlier attempts (before a restart) may be sent at all; else the code that it ends with, because
 * nothing more is known of it.
 */
export function decideStart(
  state: Omit<RetryState, "remainingMs">,
  policy: RetryPolicy,
): { readonly ok: true } | { readonly ok: false; readonly code: FailureCode } {
  if (countedAmbiguous(state, policy) > policy.ambiguousMax) return { ok: false, code: "ambiguous" };
  const { answersMax } = state;
  if (answersMax === undefined && state.unusableAnswers > policy.ambiguousMax)
    return { ok: false, code: "empty_output" };
  if (answersMax !== undefined && state.unusableAnswers >= answersMax)
    return { ok: false, code: "schema_unmet" };
  if (state.attempts - state.uncounted < policy.attemptsMax) return { ok: true };
  return { ok: false, code: state.ambiguousAttempts > 0 ? "ambiguous" : "provider_error" };
}

function mayRepeat(state: RetryState, result: AttemptResult, policy: RetryPolicy): boolean {
  if (result.class === "permanent" || result.class === "success") return false;
  if (state.attempts - state.uncounted >= policy.attemptsMax) return false;
  if (result.class === "unfit")
    return result.isFinal !== true && state.unusableAnswers < (state.answersMax ?? ANSWERS_MAX);
  if (result.class !== "ambiguous") return true;
  if (result.code === "empty_output" && state.unusableAnswers > policy.emptyOutputsMax) return false;
  return Math.max(countedAmbiguous(state, policy), state.unusableAnswers) <= policy.ambiguousMax;
}

/** Under at-most-once delivery a request that may have been answered is not repeated, after any failure. */
function countedAmbiguous(
  state: Pick<RetryState, "ambiguousAttempts" | "uncountedAmbiguous">,
  policy: RetryPolicy,
): number {
  return state.ambiguousAttempts - (policy.ambiguousMax === 0 ? 0 : state.uncountedAmbiguous);
}

/** A tier without capacity is asked again soon, at a rate that its lane bounds, and any other tier at once. */
function tierDelayMs({ sheds = 1 }: RetryState, { ofTier }: AttemptResult, random: number): number {
  return ofTier === "shed" ? random * Math.min(TIER_DELAY_MS_MAX, 500 * 2 ** Math.min(sheds - 1, 10)) : 0;
}

function endCode(result: AttemptResult, policy: RetryPolicy): FailureCode {
  const code = result.code ?? "provider_error";
  // An empty answer is an answer: nothing about it is in doubt.
  return result.class === "ambiguous" && policy.ambiguousMax === 0 && code !== "empty_output"
    ? "ambiguous"
    : code;
}

function delayBefore(state: RetryState, result: AttemptResult, policy: RetryPolicy, random: number): number {
  if (result.ofTier !== undefined) return tierDelayMs(state, result, random);
  if (result.class === "unfit") return 0; // the provider works
  const { retryAfterMs = 0 } = result;
  const askedMs = retryAfterMs > 0 && retryAfterMs < Number.POSITIVE_INFINITY ? retryAfterMs : 0;
  const setMs = policy.delaysMs?.[state.attempts - 1];
  if (setMs !== undefined) return Math.max(askedMs, Math.ceil(setMs * (1 + DELAY_JITTER * random)));
  const exponent = Math.min(Math.max(0, state.attempts - 1), 50); // beyond, the bound below decides anyway
  const backoffMs = random * Math.min(policy.backoffMaxMs, policy.backoffFirstMs * 2 ** exponent);
  return Math.max(askedMs, Math.min(backoffMs, Math.max(0, state.remainingMs / 2)));
}
