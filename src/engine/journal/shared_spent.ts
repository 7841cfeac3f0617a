/**
 * What one request took, shared among its items by their input tokens.
 *
 * Whole tokens stay whole and add up to the request's: each item gets the difference of the rounded sums up to it. Money is shared
 * exactly.
 */
import type { Spent } from "./journal.ts";

/** One for each of `loads`, which are tokens, 0 counting as 1. */
export function shareSpent(total: Spent, loads: readonly number[]): readonly Spent[] {
  const all = loads.reduce((sum, load) => sum + Math.max(1, load), 0);
  let before = 0;
  return loads.map((load) => {
    const from = before / all;
    before += Math.max(1, load);
    const to = before / all;
    const whole = (tokens: number): number => Math.round(tokens * to) - Math.round(tokens * from);
    const share = Math.max(1, load) / all;
    return {
      isEstimated: total.isEstimated,
      inputTokens: whole(total.inputTokens),
      cachedTokens: whole(total.cachedTokens),
      cacheWriteTokens: whole(total.cacheWriteTokens),
      outputTokens: whole(total.outputTokens),
      reasoningTokens: whole(total.reasoningTokens),
      listUsd: total.listUsd * share,
      usd: total.usd * share,
      billedUsd: total.billedUsd * share,
      ambiguousUsd: total.ambiguousUsd * share,
      priceNumber: total.priceNumber,
    };
  });
}
