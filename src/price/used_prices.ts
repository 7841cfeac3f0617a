/**
 * The prices that a piece of work was reckoned with: for each model the source, its day, and what it was found as.
 */
import type { BasePrice } from "./rates.ts";

/** Of one model; the last four are null, and false, when no price is known: its costs are 0, and estimated. */
export interface UsedPrice {
  /** `<provider>:<name>`. */
  readonly model: string;
  /** `genai-prices <version>`, `config`, `local`, or `provider` when it says itself what it charged. */
  readonly source: string | null;
  /** The day from which the source is, `YYYY-MM-DD`; null for a provider's own charges. */
  readonly as_of: string | null;
  /** The price list's name, or the key in the configuration; null for a provider's own charges. */
  readonly matched_model: string | null;
  /** False when the price is that of a similar name. */
  readonly is_exact: boolean;
}

/** A price as a record names it; `charged` for a provider's own charges. */
export function usedPrice(model: string, price: BasePrice | "charged" | undefined): UsedPrice {
  if (price === "charged")
    return { model, source: "provider", as_of: null, matched_model: null, is_exact: true };
  return {
    model,
    source: price?.source ?? null,
    as_of: price?.asOf ?? null,
    matched_model: price?.matchedModel ?? null,
    is_exact: price?.isExact ?? false,
  };
}

/** A source with its day, as receipts name it: `genai-prices 0.0.30, 2026-11-20`; null when no price is known. */
export function versionText({ source, as_of }: UsedPrice): string | null {
  return source === null || as_of === null ? source : `${source}, ${as_of}`;
}

/** Each source with its day, once, for people. */
export function sourceText(prices: readonly UsedPrice[]): string {
  return [...new Set(prices.map(sourceOf))].join("; ");
}

function sourceOf({ source, as_of }: UsedPrice): string {
  if (source === null) return "no known price";
  return as_of === null ? "charged by the provider" : `${source}, ${as_of}`;
}
