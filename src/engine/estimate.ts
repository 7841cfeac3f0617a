/**
 * What an answer probably took that was written before a crash and not recorded: tokens as they were reserved for its
 * request and as long as its text is, at the price of today. Its line in the input is read for its model.
 */
import type { Clock } from "../clock.ts";
import type { PriceBook } from "../price/price_book.ts";
import type { MeasureOptions } from "../shard/measure.ts";
import type { Measurer } from "../shard/pool.ts";
import type { Usage } from "../work/outcome.ts";
import { type CostTerms, type PricedCost, priced } from "./item_cost.ts";

/**
 * The cost of a usage by the item that stands in `line`, a line of the input without its end; `answeredBy` is the model
 * that its answer names. A provider may name it as no price list does: then the model counts that the item requests.
 */
export type EstimateCost = (line: Uint8Array, usage: Usage, answeredBy?: string) => Promise<PricedCost>;

/** `modelOverride` as the run measured its lines with. */
export function costEstimator(
  parts: { readonly clock: Clock; readonly measurer: Measurer; readonly prices: PriceBook },
  terms: CostTerms,
  { modelOverride }: Pick<MeasureOptions, "modelOverride">,
): EstimateCost {
  return async (line, usage, answeredBy) => {
    const block = { bytes: Uint8Array.from(line), offset: 0, firstLine: 1, lineCount: 1 };
    const wallMs = parts.clock.wallMs();
    const isPriced = answeredBy !== undefined && parts.prices.priceOf(answeredBy, wallMs).price !== undefined;
    const options = {
      wantBodies: false,
      wantCounts: false,
      modelOverride: isPriced ? answeredBy : modelOverride,
    };
    const { groups } = await parts.measurer.measure(block, options);
    const model = groups[0]?.model ?? "";
    return priced(parts.prices, terms, model, usage, { wallMs });
  };
}
