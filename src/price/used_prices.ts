/**
 * The prices that a piece of work was reckoned with: for each model the source, its day, and what it was found as.
 */
import { parseModelId } from "../work/request.ts";
import type { PriceBook } from "./price_book.ts";

/** Of one model; the last four are null, and false, when no price is known: its costs are 0 and estimated. */
export interface UsedPrice {
  /** `<provider>:<name>`. */
  readonly model: string;
  /** `genai-prices <version>`, `config` or `local`. */
  readonly source: string | null;
  /** The day from which the source is, `YYYY-MM-DD`. */
  readonly as_of: string | null;
  /** The price list's name, or the key in the configuration. */
  readonly matched_model: string | null;
  /** False when the price is that of a similar name. */
  readonly is_exact: boolean;
}

/** The prices of models at a moment (Unix milliseconds), in their order. */
export function usedPrices(models: Iterable<string>, prices: PriceBook, wallMs: number): UsedPrice[] {
  return [...models].map((model) => {
    const id = parseModelId(model);
    const price = id === undefined ? undefined : prices.price(id, wallMs);
    return {
      model,
      source: price?.source ?? null,
      as_of: price?.asOf ?? null,
      matched_model: price?.matchedModel ?? null,
      is_exact: price?.isExact ?? false,
    };
  });
}

/** Each source with its day, once, for people. */
export function sourceText(prices: readonly UsedPrice[]): string {
  const sources = prices.map(({ source, as_of }) =>
    source === null ? "no known price" : `${source}, ${as_of}`,
  );
  return [...new Set(sources)].join("; ");
}
