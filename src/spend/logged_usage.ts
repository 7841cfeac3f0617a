/**
 * What a line of a log says about one request, or about the sum of many.
 *
 * All formats are read into this shape: `formats/` has one file for each. Tokens follow OpenAI's sense: the input includes
 * what was read from and written to the cache.
 */

export type LogFormat = "openai" | "anthropic" | "litellm" | "otel";

export interface LoggedUsage {
  readonly format: LogFormat;
  /** As in model ids of perigee; empty when neither the line nor the format says it. */
  readonly provider: string;
  readonly model: string;
  /** The provider's word for the tier that served it; undefined where the log names none. */
  readonly tier: string | undefined;
  /** 1 for a request; of a sum the requests in it, 0 where the log does not count them. */
  readonly requests: number;
  /** Whether it is a sum over requests, whose sizes are not known. */
  readonly isSum: boolean;
  /** Unix milliseconds at which it began; NaN where the log has no time. */
  readonly fromMs: number;
  /** Unix milliseconds at which it ended; NaN as above. */
  readonly toMs: number;
  readonly inputTokens: number;
  readonly cachedTokens: number;
  /** Written to the cache for any time, those for an hour included. */
  readonly cacheWriteTokens: number;
  /** Of these, those that are kept for an hour (Anthropic), which cost more. */
  readonly hourWriteTokens: number;
  readonly outputTokens: number;
  /** What the log says that it cost, in USD; NaN where it says nothing. */
  readonly statedUsd: number;
}

/** Why a line, or an entry of one, has no usage of a provider although it is understood. */
export const WITHOUT_USAGE = ["failed", "gateway_cache", "other_spans", "summing_spans"] as const;
export type WithoutUsage = (typeof WITHOUT_USAGE)[number];

/** Where lines are read into. */
export interface UsageSink {
  usage(usage: LoggedUsage): void;
  /** A cost of a provider without tokens, as in exports of costs. */
  cost(provider: string, usd: number, fromMs: number, toMs: number): void;
  without(why: WithoutUsage): void;
}

/** Undefined when the value was read into the sink; else what is wrong, to follow "line 7: ". */
export type Refusal = string | undefined;
