/**
 * The prices that the costs of one task were reckoned with, numbered in the order of their first use. Each cost record of
 * the journal carries such a number, so that it names the source of its money in two bytes.
 *
 *   0           nothing was sent, so nothing was reckoned
 *   1 .. 65,534 the price of that number
 *   65,535      a further one: the table is full
 *
 * A number means its price in every later call of the run: the journal keeps the table, and a price that changes (a new
 * day, another configuration) gets a number of its own.
 *
 * Hot path: once per attempt, a look-up and a comparison while the price stays.
 */
import type { BasePrice } from "../../price/rates.ts";
import { type UsedPrice, usedPrice, versionText } from "../../price/used_prices.ts";

const PRICES_MAX = 65_534;
/** Models whose number is remembered without comparing the price's parts. */
const MODELS_MAX = 10_000;

interface LastPrice {
  readonly price: BasePrice | "charged" | undefined;
  readonly number: number;
}

export class PriceTable {
  /** Called with each new price, before its number is used. */
  whenAdded: (price: UsedPrice) => void = () => undefined;
  readonly #prices: UsedPrice[] = [];
  readonly #numbers = new Map<string, number>();
  readonly #lastOf = new Map<string, LastPrice>();

  /** In the order of their numbers, from 1. */
  get prices(): readonly UsedPrice[] {
    return this.#prices;
  }

  /** The source of the price of a number; null when it is not known, as for 0. */
  sourceOf(number: number): string | null {
    return this.#prices[number - 1]?.source ?? null;
  }

  /** The price sheet of a number, and its day; null when it is not known. */
  versionOf(number: number): string | null {
    const price = this.#prices[number - 1];
    return price === undefined ? null : versionText(price);
  }

  /** The model of a number; undefined when it is not known. */
  modelOf(number: number): string | undefined {
    return this.#prices[number - 1]?.model;
  }

  /** Prices that an earlier call recorded, in their order. */
  restore(prices: readonly UsedPrice[]): void {
    for (const price of prices) this.#put(price);
  }

  /** The number of a model's price; `charged` when the provider says itself what it took. */
  numberOf(model: string, price: BasePrice | "charged" | undefined): number {
    const last = this.#lastOf.get(model);
    if (last !== undefined && last.price === price) return last.number;
    const used = usedPrice(model, price);
    const number = this.#numbers.get(keyOf(used)) ?? this.#add(used);
    if (this.#lastOf.size >= MODELS_MAX) this.#lastOf.clear();
    this.#lastOf.set(model, { price, number });
    return number;
  }

  #add(price: UsedPrice): number {
    if (this.#prices.length === PRICES_MAX) return PRICES_MAX + 1;
    this.whenAdded(price);
    return this.#put(price);
  }

  #put(price: UsedPrice): number {
    const number = this.#prices.push(price);
    this.#numbers.set(keyOf(price), number);
    return number;
  }
}

function keyOf({ model, source, as_of, matched_model }: UsedPrice): string {
  return JSON.stringify([model, source, as_of, matched_model]);
}
