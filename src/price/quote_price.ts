/**
 * The price of a model, as a quote shows it.
 */
import type { BasePrice } from "./rates.ts";

export interface QuotePrice {
  readonly source: string;
  /** The day from which the source is, `YYYY-MM-DD`. */
  readonly as_of: string;
  readonly matched_model: string;
  readonly is_exact: boolean;
  readonly input_usd_per_million: number;
  readonly cached_usd_per_million: number;
  readonly cache_write_usd_per_million: number;
  readonly output_usd_per_million: number;
  /** When another price begins, ISO time; null when no change is known. */
  readonly valid_until: string | null;
}

/** With its source and the day of it. */
export function quotePrice(price: BasePrice): QuotePrice {
  return {
    source: price.source,
    as_of: price.asOf,
    matched_model: price.matchedModel,
    is_exact: price.isExact,
    input_usd_per_million: price.inputUsdPerMillion,
    cached_usd_per_million: price.cachedUsdPerMillion,
    cache_write_usd_per_million: price.cacheWriteUsdPerMillion,
    output_usd_per_million: price.outputUsdPerMillion,
    valid_until: Number.isFinite(price.validUntilWallMs)
      ? new Date(price.validUntilWallMs).toISOString()
      : null,
  };
}
