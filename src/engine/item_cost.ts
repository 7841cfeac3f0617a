/**
 * What the usage of one item costs in its run, and which price says so.
 *
 * Hot path, once an attempt: its parts are named, because V8 takes 0.6 us to spread an object with fractions in it.
 */
import { costOf, type ItemCost, isCharged } from "../price/cost.ts";
import { laneFactor, laneTierOf } from "../price/lane_factors.ts";
import type { PriceBook } from "../price/price_book.ts";
import type { Usage } from "../work/outcome.ts";
import { parseModelId } from "../work/request.ts";
import type { PriceTable } from "./price_table.ts";

/** How a run reckons. */
export interface CostTerms {
  /** The price factor of a model in this run, frozen when the run was accepted. */
  readonly factorOf: (model: string) => number;
  /** Numbers the prices that were used. */
  readonly prices: PriceTable;
}

/** Money, and the number of its price in the run's table. */
export interface PricedCost extends ItemCost {
  readonly priceNumber: number;
}

/** Real usage at list price, that times the run's price factor, and what the provider bills. */
export function priced(
  book: PriceBook,
  terms: CostTerms,
  model: string,
  usage: Usage,
  { wallMs, servedTier }: { readonly wallMs: number; readonly servedTier?: string | undefined },
): PricedCost {
  const id = parseModelId(model);
  const price = id === undefined ? undefined : book.price(id, wallMs);
  const lane = laneFactor(id?.provider ?? "", laneTierOf(servedTier));
  const cost = costOf(usage, price, {
    factor: terms.factorOf(model),
    laneFactor: lane?.factor ?? 1,
    laneCachedFactor: lane?.cachedFactor ?? 1,
  });
  const { listUsd, usd, providerUsd, isEstimated } = cost;
  const priceNumber = terms.prices.numberOf(model, isCharged(usage) ? "charged" : price);
  return { listUsd, usd, providerUsd, isEstimated, priceNumber };
}
