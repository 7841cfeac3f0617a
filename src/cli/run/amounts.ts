/**
 * What a run took, in words: models without a known price count as 0, so their share of a sum is unknown.
 */
import { usdText } from "../../price/money.ts";

/** `isUnpriced`: some of it was taken by a model without a known price. The sum is then a lower bound. */
export function billedText(billedUsd: number, isUnpriced: boolean): string {
  if (!isUnpriced) return usdText(billedUsd);
  return billedUsd === 0 ? "unknown" : `at least ${usdText(billedUsd)}`;
}

/** The most that may be billed besides. */
export function doubtText(ambiguousUsd: number, isUnpriced: boolean): string {
  if (!isUnpriced) return `at most ${usdText(ambiguousUsd)}`;
  return ambiguousUsd === 0 ? "unknown" : `at most ${usdText(ambiguousUsd)} where the price is known`;
}
