/**
 * What a token of a model's work costs on average: rows with their tiers by the size of a request, and what is read from and
 * written to the provider's cache. Pure.
 */
import type { ModelTotals } from "./quote.ts";
import { type BasePrice, ratesFor } from "./rates.ts";

/** USD a token, at list price times the tiers that requests name themselves. */
export interface MeanRates {
  readonly usdPerInputToken: number;
  /** Of input that is neither read from nor written to a cache. */
  readonly usdPerFreshToken: number;
  readonly usdPerOutputToken: number;
}

/** Of the rows of one model; its first rates where they have no tokens. */
export function meanRates(rows: readonly ModelTotals[], price: BasePrice): MeanRates {
  const sums = { inputUsd: 0, freshUsd: 0, outputUsd: 0, inputTokens: 0, outputTokens: 0 };
  for (const row of rows) {
    const rates = ratesFor(price, row.items > 0 ? row.inputTokens / row.items : 0);
    const { inputTokens, cachedTokens, cacheWriteTokens, expectedOutputTokens, tierFactor = 1 } = row;
    const fresh = Math.max(0, inputTokens - cachedTokens - cacheWriteTokens);
    sums.inputUsd +=
      (tierFactor *
        (fresh * rates.inputUsdPerMillion +
          cachedTokens * rates.cachedUsdPerMillion +
          cacheWriteTokens * rates.cacheWriteUsdPerMillion)) /
      1e6;
    sums.freshUsd += (tierFactor * inputTokens * rates.inputUsdPerMillion) / 1e6;
    sums.outputUsd += (tierFactor * expectedOutputTokens * rates.outputUsdPerMillion) / 1e6;
    sums.inputTokens += inputTokens;
    sums.outputTokens += expectedOutputTokens;
  }
  const first = price.inputUsdPerMillion / 1e6;
  return {
    usdPerInputToken: sums.inputTokens > 0 ? sums.inputUsd / sums.inputTokens : first,
    usdPerFreshToken: sums.inputTokens > 0 ? sums.freshUsd / sums.inputTokens : first,
    usdPerOutputToken:
      sums.outputTokens > 0 ? sums.outputUsd / sums.outputTokens : price.outputUsdPerMillion / 1e6,
  };
}
