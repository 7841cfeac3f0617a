/**
 * What a run took, in words: models without a known price count as 0, so their share of a sum is unknown.
 */
import type { Summary } from "../../engine/items/progress.ts";
import { usdText } from "../../price/money.ts";

/** `isUnpriced`: some of it was taken by a model without a known price. The sum is then a lower bound. */
export function billedText(billedUsd: number, isUnpriced: boolean): string {
  if (!isUnpriced) return usdText(billedUsd);
  return billedUsd === 0 ? "unknown" : `at least ${usdText(billedUsd)}`;
}

/** What cheaper tiers saved for certain: the list price less what is billed, and less what may be; undefined for nothing. */
export function savedText({
  list_usd,
  billed_usd,
  ambiguous_usd,
}: Pick<Summary["cost"], "list_usd" | "billed_usd" | "ambiguous_usd">): string | undefined {
  const savedUsd = list_usd - billed_usd - ambiguous_usd;
  const percent = Math.floor((100 * savedUsd) / list_usd);
  return percent >= 1
    ? `${usdText(savedUsd)} (${percent} % of the list price, ${usdText(list_usd)})`
    : undefined;
}

/** The most that may be billed besides. */
export function doubtText(ambiguousUsd: number, isUnpriced: boolean): string {
  if (!isUnpriced) return `at most ${usdText(ambiguousUsd)}`;
  return ambiguousUsd === 0 ? "unknown" : `at most ${usdText(ambiguousUsd)} where the price is known`;
}
