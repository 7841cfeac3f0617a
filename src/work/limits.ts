/**
 * Rate limits as data: what a user configures, what a provider tells in its headers, what one request takes.
 *
 * All rates are per sliding 60 seconds. A provider counts requests and one or more of: input tokens, output tokens,
 * both together (`tokensPerMinute`).
 */

/** Limits as configured. Absent means none. Rates are whole numbers from 1. */
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

/** Tokens that one request is expected to take, or took. */
export interface TokenLoad {
  readonly inputTokens: number;
  readonly outputTokens: number;
}
