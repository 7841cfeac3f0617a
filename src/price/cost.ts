/**
 * What one answer costs, and the most that one attempt can cost.
 *
 *   list     = fresh x input rate + cached x cached rate + written x write rate + output x output rate
 *              (written for an hour: 2 x input rate)
 *   billed   = list x lane factor, or what the provider says that it charged (OpenRouter's `usage.cost`)
 *   usd      = list x price factor                  what a service charges its callers
 *
 * The rates are those of the tier of the whole request. Reasoning is part of the output. Where the provider says what
 * it charged, the list side follows from that. No result is ever NaN, infinite or negative, for any usage.
 */
import type { Cost, Usage } from "../work/outcome.ts";
import { type BasePrice, ratesFor } from "./rates.ts";

export interface CostFactors {
  /** The price factor of the item, in [0.3, 1]. */
  readonly factor: number;
  /** What the provider takes of its list price in the lane that served the request (`lane_factors.ts`). */
  readonly laneFactor: number;
  /** The same for cached input where it differs (Gemini's batches); `laneFactor` when absent. */
  readonly laneCachedFactor?: number;
}

/** Price of a token that is written to Anthropic's cache for an hour, in times of plain input (docs.claude.com/en/docs/about-claude/pricing). */
export const HOUR_WRITE_FACTOR = 2;

/** More than this for one answer is nonsense and not believed. */
const CHARGED_USD_MAX = 1_000_000;

/**
 * The cost of an answer. Estimated when usage was, when counts contradict each other, and when there is no price or
 * only that of a similar name.
 */
export function costOf(usage: Usage, price: BasePrice | undefined, factors: CostFactors): Cost {
  const factor = finite(factors.factor);
  const laneFactor = finite(factors.laneFactor);
  if (isCharged(usage)) {
    const { chargedUsd } = usage;
    const listUsd = laneFactor > 0 ? chargedUsd / laneFactor : chargedUsd;
    return { listUsd, usd: listUsd * factor, billedUsd: chargedUsd, isEstimated: usage.isEstimated };
  }
  if (price === undefined) return { listUsd: 0, usd: 0, billedUsd: 0, isEstimated: true };
  const input = counted(usage.inputTokens);
  const cached = Math.min(counted(usage.cachedTokens), input);
  const written = Math.min(counted(usage.cacheWriteTokens), input - cached);
  const output = counted(usage.outputTokens);
  const hours = Math.min(counted(usage.hourWriteTokens ?? 0), written);
  const rates = ratesFor(price, input);
  const cachedUsd = (cached * rates.cachedUsdPerMillion) / 1e6;
  const otherUsd =
    ((input - cached - written) * rates.inputUsdPerMillion +
      (written - hours) * rates.cacheWriteUsdPerMillion +
      hours * HOUR_WRITE_FACTOR * rates.inputUsdPerMillion +
      output * rates.outputUsdPerMillion) /
    1e6;
  const listUsd = cachedUsd + otherUsd;
  const isConsistent =
    input === usage.inputTokens &&
    cached === usage.cachedTokens &&
    written === usage.cacheWriteTokens &&
    output === usage.outputTokens;
  return {
    listUsd,
    usd: listUsd * factor,
    billedUsd: otherUsd * laneFactor + cachedUsd * finite(factors.laneCachedFactor ?? laneFactor),
    isEstimated: usage.isEstimated || !isConsistent || !price.isExact,
  };
}

/** Whether the provider itself says what it charged, and says something possible: no price list is read then. */
export function isCharged(usage: Usage): usage is Usage & { readonly chargedUsd: number } {
  const { chargedUsd } = usage;
  return chargedUsd !== undefined && chargedUsd >= 0 && chargedUsd <= CHARGED_USD_MAX;
}

/** Tokens that one attempt takes at most; both must be upper bounds for `worstCaseUsd` to be one. */
export interface WorstLoad {
  readonly inputTokens: number;
  readonly maxOutputTokens: number;
}

/** How much dearer the input of a request can be that is written to a cache for an hour, in times of what `worstCaseUsd` assumes. */
export function hourWriteShare(price: BasePrice): number {
  const { inputUsdPerMillion, cachedUsdPerMillion, cacheWriteUsdPerMillion } = price;
  const mostUsd = Math.max(inputUsdPerMillion, cachedUsdPerMillion, cacheWriteUsdPerMillion);
  return mostUsd > 0 ? Math.max(1, (HOUR_WRITE_FACTOR * inputUsdPerMillion) / mostUsd) : 1;
}

/**
 * The most that one attempt can cost at list price: all input at the dearest of its input, cached and write rates,
 * all of the output used, in the dearest tier and hour that it can meet. Multiply by a lane factor above 1.
 * Without a price 0: a cap cannot bound what has no price. `inputShare`: see `hourWriteShare`.
 */
export function worstCaseUsd(load: WorstLoad, price: BasePrice | undefined, inputShare: number = 1): number {
  if (price === undefined) return 0;
  const input = counted(load.inputTokens);
  let inputRate = 0;
  let outputRate = 0;
  for (const ceiling of price.ceiling) {
    if (input <= ceiling.start) break;
    inputRate = ceiling.inputUsdPerMillion;
    outputRate = ceiling.outputUsdPerMillion;
  }
  return (input * inputRate * inputShare + counted(load.maxOutputTokens) * outputRate) / 1e6;
}

/** A count that can be multiplied: nonsense from a provider counts as nothing. */
export function counted(count: number): number {
  return count > 0 && count <= Number.MAX_SAFE_INTEGER ? count : 0;
}

function finite(factor: number): number {
  return factor >= 0 && Number.isFinite(factor) ? factor : 1;
}

/** To the nano-dollar: smaller differences of float sums are not money. */
export function roundedUsd(usd: number): number {
  return Math.round(usd * 1e9) / 1e9;
}
