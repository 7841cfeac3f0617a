/**
 * What items were sold for, by the model that answered them: what callers were charged, what they got back, and what it cost.
 *
 *   charged   list price times price factor (money.ts: `usd`)
 *   refund    of an item that missed its deadline: its charge x the share that was promised, rounded half up to a nano-USD
 *   margin    charged - refund - billed               what is in doubt is beside it: it may be billed, too
 *
 * Money is summed in whole nano-USD, so sums of items, models, days and projects are equal to the last digit (nano.ts).
 */
import { type Money, NO_MONEY } from "./money.ts";
import { minusUsd, nanoOf, plusUsd, usdOfNano } from "./nano.ts";

/** Tokens and money of items that have ended. */
export interface Sale extends Money {
  readonly items: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly refundUsd: number;
}

/** By model, `<provider>:<name>`. */
export type ModelSales = Readonly<Record<string, Sale>>;

/** Of nothing. */
export const NO_SALES: ModelSales = {};

export const NO_SALE: Sale = { items: 0, inputTokens: 0, outputTokens: 0, refundUsd: 0, ...NO_MONEY };

/** Models that are kept apart in one sum; what others took is in the sum all the same. */
const SOLD_MODELS_MAX = 200;

/** What an item gets back of its charge, in USD; `share` is from 0 to 1. */
export function refundOf(chargedUsd: number, share: number): number {
  return usdOfNano(nanoOf(usdOfNano(nanoOf(chargedUsd)) * share));
}

/** The sum of two. Names its parts, because V8 is slow to spread objects with fractions. */
export function addSale(left: Sale, right: Sale): Sale {
  return {
    items: left.items + right.items,
    inputTokens: left.inputTokens + right.inputTokens,
    outputTokens: left.outputTokens + right.outputTokens,
    listUsd: plusUsd(left.listUsd, right.listUsd),
    usd: plusUsd(left.usd, right.usd),
    billedUsd: plusUsd(left.billedUsd, right.billedUsd),
    ambiguousUsd: plusUsd(left.ambiguousUsd, right.ambiguousUsd),
    refundUsd: plusUsd(left.refundUsd, right.refundUsd),
  };
}

/** What is left of a sum without a part of it. */
export function lessSale(sum: Sale, part: Sale): Sale {
  return {
    items: sum.items - part.items,
    inputTokens: sum.inputTokens - part.inputTokens,
    outputTokens: sum.outputTokens - part.outputTokens,
    listUsd: minusUsd(sum.listUsd, part.listUsd),
    usd: minusUsd(sum.usd, part.usd),
    billedUsd: minusUsd(sum.billedUsd, part.billedUsd),
    ambiguousUsd: minusUsd(sum.ambiguousUsd, part.ambiguousUsd),
    refundUsd: minusUsd(sum.refundUsd, part.refundUsd),
  };
}

/** Two sums by model; a model too many is left out. */
export function addSales(left: ModelSales, right: ModelSales): ModelSales {
  const models: Record<string, Sale> = { ...left };
  let count = Object.keys(models).length;
  for (const [model, sale] of Object.entries(right)) {
    const known = models[model];
    if (known === undefined && count >= SOLD_MODELS_MAX) continue;
    if (known === undefined) count += 1;
    models[model] = known === undefined ? sale : addSale(known, sale);
  }
  return models;
}

/** Sums items by their models. */
export class SaleSums {
  readonly #models = new Map<string, Sale>();
  #refundUsd = 0;

  /** Of all items. */
  get refundUsd(): number {
    return this.#refundUsd;
  }

  get models(): ModelSales {
    return Object.fromEntries(this.#models);
  }

  /** `model`: undefined where nothing was asked. */
  add(model: string | undefined, sale: Sale): void {
    this.#refundUsd = plusUsd(this.#refundUsd, sale.refundUsd);
    if (model === undefined) return;
    const known = this.#models.get(model);
    if (known === undefined && this.#models.size >= SOLD_MODELS_MAX) return;
    this.#models.set(model, known === undefined ? sale : addSale(known, sale));
  }
}
