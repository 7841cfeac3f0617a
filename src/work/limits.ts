/**
 * Rate limits as data: what a user configures, what a provider sends in its headers, what one request takes.
 *
 * All rates are per sliding 60 seconds. A provider counts requests and one or more of: input tokens, output tokens,
 * both together (`tokensPerMinute`).
 */

/** The longest time for which one refusal stops a provider, whose limits other items need: 15 min, in ms. */
export const REFUSAL_WAIT_MS_MAX = 900_000;

/** Limits as configured. Absent means unlimited. Rates are whole numbers from 1. */
export interface LimitSettings {
  readonly requestsPerMinute?: number;
  /** Input and output together. */
  readonly tokensPerMinute?: number;
  readonly inputTokensPerMinute?: number;
  readonly outputTokensPerMinute?: number;
  /** Requests in flight at most. */
  readonly concurrency?: number;
}

/** What a response said of the limits; each absent when it did not say. Never negative. */
export interface LearntLimits {
  readonly requestsPerMinute?: number;
  readonly tokensPerMinute?: number;
  readonly inputTokensPerMinute?: number;
  readonly outputTokensPerMinute?: number;
  readonly remainingRequests?: number;
  readonly remainingTokens?: number;
  /** Milliseconds until the request bucket is full again. */
  readonly resetRequestsMs?: number;
  /** Milliseconds until the token bucket is full again. */
  readonly resetTokensMs?: number;
}

/** Answers that take longer than this prove less: those in flight when a limit is reached have yet to count against it. */
const LATE_MS = 3_000;

/** Places in flight that one answer adds in slow start (limits/concurrency.ts): 1, or a half where a round trip is long. */
export function slowStartGain(roundTripMs: number): number {
  return roundTripMs > LATE_MS ? 0.5 : 1;
}

/** Tokens that one request is expected to take, or took. */
export interface TokenLoad {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** How fast use may grow: above `inputTokensPerMinute` by at most the part `growth` of itself in so many minutes. */
export interface RampSettings {
  /** Use up to here may grow at once. A whole number from 1. */
  readonly inputTokensPerMinute: number;
  /** 0.5 is half as much again. Above 0. */
  readonly growth: number;
  readonly minutes: number;
}

/** What sets the time that work takes; `latency`: no limit matters; `backlog`: what waits already; `nothing`: there is no work. */
export type TimeBound =
  | "requests_per_minute"
  | "tokens_per_minute"
  | "input_tokens_per_minute"
  | "output_tokens_per_minute"
  | "concurrency"
  | "latency"
  | "backlog"
  | "nothing";
