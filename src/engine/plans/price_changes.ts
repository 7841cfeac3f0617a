/**
 * Prices that are known to change, as the price list has them by the clock or by date.
 */
import type { PriceBook } from "../../price/price_book.ts";
import type { PriceChange } from "../../price/price_change.ts";

/** Of one model: prices by the clock change several times a day, for ever. */
const CHANGES_MAX = 8;

/** The changes of these models' prices between two moments, in the order of time; at most eight of a model. */
export function priceChanges(
  prices: PriceBook,
  models: Iterable<string>,
  { fromWallMs, untilWallMs }: { readonly fromWallMs: number; readonly untilWallMs: number },
): readonly PriceChange[] {
  const changes: (PriceChange & { readonly atWallMs: number })[] = [];
  for (const model of models) {
    let atWallMs = fromWallMs;
    for (let count = 0; count < CHANGES_MAX; count += 1) {
      const before = prices.priceOf(model, atWallMs).price;
      atWallMs = before?.validUntilWallMs ?? Number.POSITIVE_INFINITY;
      if (!(atWallMs <= untilWallMs) || !Number.isFinite(atWallMs)) break;
      const { price } = prices.priceOf(model, atWallMs);
      if (price === undefined) break;
      const at = new Date(atWallMs).toISOString();
      const { inputUsdPerMillion, outputUsdPerMillion } = price;
      changes.push({
        ...{ model, at, atWallMs },
        input_usd_per_million: inputUsdPerMillion,
        output_usd_per_million: outputUsdPerMillion,
      });
    }
  }
  return changes
    .toSorted((one, other) => one.atWallMs - other.atWallMs)
    .map(({ atWallMs: _, ...change }) => change);
}
