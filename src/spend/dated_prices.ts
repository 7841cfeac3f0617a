/**
 * The price of a model at any moment of a log, and the hours that cost less after it.
 *
 * A price holds in a span of time; the spans that were met are kept, so that lines in any order find theirs by halving. (The
 * price book keeps one span a model, which would be found again for every other line of a shuffled log.)
 *
 * Hot path: a price that is kept takes 0.1 us. Limits: as many spans as the sheet has in the log's time, two to eight a day of
 * a model with hours of its own, one for most others.
 */
import type { PriceBook } from "../price/price_book.ts";
import type { BasePrice } from "../price/rates.ts";
import { offersOf } from "../queue/offers.ts";

/** What holds from a moment to another. */
export interface PriceSpan {
  readonly price: BasePrice | undefined;
  readonly fromMs: number;
  readonly untilMs: number;
  /** The price from `untilMs` on, where the provider sells hours that cost less and these begin then. */
  readonly lower: BasePrice | undefined;
}

export class DatedPrices {
  readonly #book: PriceBook;
  readonly #provider: string;
  readonly #name: string;
  readonly #hasHours: boolean;
  /** By `fromMs`, without overlaps. */
  readonly #spans: PriceSpan[] = [];

  /** Of one model. */
  constructor(book: PriceBook, provider: string, name: string) {
    this.#book = book;
    this.#provider = provider;
    this.#name = name;
    this.#hasHours = offersOf(provider, () => undefined).some(({ kind }) => kind === "offpeak");
  }

  /** The span that holds at a Unix time in milliseconds. */
  at(wallMs: number): PriceSpan {
    const index = this.#indexAt(wallMs);
    const known = this.#spans[index];
    if (known !== undefined && wallMs >= known.fromMs && wallMs < known.untilMs) return known;
    const found = this.#find(wallMs);
    this.#spans.splice(index + 1, 0, found);
    return found;
  }

  /** The last span that begins at or before a moment; -1 without one. */
  #indexAt(wallMs: number): number {
    let [low, high] = [0, this.#spans.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#spans[middle]?.fromMs ?? 0) <= wallMs) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  #find(wallMs: number): PriceSpan {
    const price = this.#priceAt(wallMs);
    const fromMs = price?.validFromWallMs ?? Number.NEGATIVE_INFINITY;
    const untilMs = price?.validUntilWallMs ?? Number.POSITIVE_INFINITY;
    const next = this.#hasHours && Number.isFinite(untilMs) ? this.#priceAt(untilMs) : undefined;
    const isLower = price !== undefined && next !== undefined && isCheaper(next, price);
    return { price, fromMs, untilMs, lower: isLower ? next : undefined };
  }

  #priceAt(wallMs: number): BasePrice | undefined {
    return this.#provider === "" || this.#name === ""
      ? undefined
      : this.#book.price({ provider: this.#provider, name: this.#name }, wallMs);
  }
}

function isCheaper(later: BasePrice, now: BasePrice): boolean {
  const inputs = later.inputUsdPerMillion - now.inputUsdPerMillion;
  const outputs = later.outputUsdPerMillion - now.outputUsdPerMillion;
  return inputs <= 0 && outputs <= 0 && inputs + outputs < 0;
}
