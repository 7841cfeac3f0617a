/**
 * The tallies of one model: found by the object that its price is, so that no key is put together for a request.
 *
 * Hot path: 0.2 us a request (`bench/jobs/audit.ts`); with a text as key it was 1.2.
 */
import type { PriceBook } from "../price/price_book.ts";
import { type BasePrice, type PriceRates, ratesFor } from "../price/rates.ts";
import { DatedPrices, type PriceSpan } from "./dated_prices.ts";
import type { LoggedUsage } from "./logged_usage.ts";

export interface LedgerTerms {
  readonly prices: PriceBook;
  /** Milliseconds that must be left before each sla for an answer in realtime; ascending. */
  readonly waitsMs: readonly number[];
  /** Unix milliseconds: usage without a time has the price of this moment. */
  readonly nowMs: number;
}

/** What requests of one kind used. Plain data: it crosses threads. */
export interface UsageTally {
  readonly provider: string;
  readonly model: string;
  /** As the log names it. */
  readonly tier: string | undefined;
  /** Undefined without a price. */
  readonly rates: PriceRates | undefined;
  readonly priceSource: string;
  readonly isExactPrice: boolean;
  /** The rates of hours that cost less, and the index of the first sla that they can be waited for with. */
  readonly later: { readonly rates: PriceRates; readonly slaIndex: number } | undefined;
  /** Whether the log says what these requests cost. */
  readonly isStated: boolean;
  readonly sums: TallySums;
}

/** Whole numbers. */
export interface TallySums {
  requests: number;
  inputTokens: number;
  cachedTokens: number;
  cacheWriteTokens: number;
  hourWriteTokens: number;
  outputTokens: number;
  statedNanoUsd: number;
}

/** A tally, and what tells it from others of the same rates. */
interface Kept {
  readonly tally: UsageTally;
  readonly laterRates: PriceRates | undefined;
  readonly slaIndex: number;
}

/** Of a tier, a provider, a model. */
const NAME_CHARS_MAX = 256;

export class ModelTallies {
  readonly #provider: string;
  readonly #model: string;
  readonly #terms: LedgerTerms;
  readonly #prices: DatedPrices;
  readonly #onNew: () => void;
  readonly #byRates = new Map<PriceRates | undefined, Kept[]>();

  /** `onNew` is called for each new tally; it throws when there are too many. */
  constructor(provider: string, model: string, terms: LedgerTerms, onNew: () => void) {
    this.#provider = provider.slice(0, NAME_CHARS_MAX);
    this.#model = model.slice(0, NAME_CHARS_MAX);
    this.#terms = terms;
    this.#prices = new DatedPrices(terms.prices, provider, model);
    this.#onNew = onNew;
  }

  /** Several may be of one kind (`tallyKey`). */
  *tallies(): Generator<UsageTally> {
    for (const kept of this.#byRates.values()) for (const { tally } of kept) yield tally;
  }

  tallyOf(usage: LoggedUsage): UsageTally {
    const atMs = Number.isNaN(usage.fromMs) ? this.#terms.nowMs : usage.fromMs;
    const span = this.#prices.at(atMs);
    const size = usage.isSum ? 0 : usage.inputTokens;
    const rates = span.price === undefined ? undefined : ratesFor(span.price, size);
    // How long the sums of an hour or a day may wait is not known.
    const slaIndex = span.lower === undefined || usage.isSum ? -1 : this.#slaIndex(span.untilMs - atMs);
    const laterRates = slaIndex < 0 || span.lower === undefined ? undefined : ratesFor(span.lower, size);
    const isStated = usage.statedUsd >= 0;
    let all = this.#byRates.get(rates);
    if (all === undefined) {
      all = [];
      this.#byRates.set(rates, all);
    }
    const tier = usage.tier?.slice(0, NAME_CHARS_MAX);
    for (const kept of all) if (isOf(kept, { tier, isStated, slaIndex, laterRates })) return kept.tally;
    this.#onNew();
    const later = laterRates === undefined ? undefined : { rates: plainRates(laterRates), slaIndex };
    const tally = { ...this.#newTally(span, rates), tier, later, isStated };
    all.push({ tally, laterRates, slaIndex });
    return tally;
  }

  #newTally(
    { price }: PriceSpan,
    rates: PriceRates | undefined,
  ): Omit<UsageTally, "tier" | "later" | "isStated"> {
    return {
      provider: this.#provider,
      model: this.#model,
      rates: rates === undefined ? undefined : plainRates(rates),
      priceSource: price === undefined ? "" : sourceOf(price),
      isExactPrice: price?.isExact ?? false,
      sums: emptySums(),
    };
  }

  /** The first sla that leaves a wait of so long; -1 without one. */
  #slaIndex(waitMs: number): number {
    return this.#terms.waitsMs.findIndex((ms) => waitMs <= ms);
  }
}

/** With its day where that is of the source; other sources have the day of use. */
function sourceOf({ source, asOf }: BasePrice): string {
  return source.startsWith("genai-prices") ? `${source}, ${asOf}` : source;
}

/** What tells a request's tally from others of the same rates. */
interface Wanted extends Omit<Kept, "tally"> {
  readonly tier: string | undefined;
  readonly isStated: boolean;
}

function isOf({ tally, laterRates, slaIndex }: Kept, wanted: Wanted): boolean {
  return (
    tally.tier === wanted.tier &&
    tally.isStated === wanted.isStated &&
    slaIndex === wanted.slaIndex &&
    laterRates === wanted.laterRates
  );
}

/** The same for tallies that are added to each other. */
export function tallyKey({ provider, model, tier, rates, later, isStated }: UsageTally): string {
  const laterKey = later === undefined ? "" : `${later.slaIndex} ${ratesKey(later.rates)}`;
  return JSON.stringify([provider, model, tier ?? null, ratesKey(rates), laterKey, isStated]);
}

function ratesKey(rates: PriceRates | undefined): string {
  return rates === undefined ? "" : Object.values(rates).join(" ");
}

/** The sums of two tallies. */
export function addSums(one: TallySums, other: TallySums): TallySums {
  return {
    requests: one.requests + other.requests,
    inputTokens: one.inputTokens + other.inputTokens,
    cachedTokens: one.cachedTokens + other.cachedTokens,
    cacheWriteTokens: one.cacheWriteTokens + other.cacheWriteTokens,
    hourWriteTokens: one.hourWriteTokens + other.hourWriteTokens,
    outputTokens: one.outputTokens + other.outputTokens,
    statedNanoUsd: one.statedNanoUsd + other.statedNanoUsd,
  };
}

export function emptySums(): TallySums {
  return {
    requests: 0,
    inputTokens: 0,
    cachedTokens: 0,
    cacheWriteTokens: 0,
    hourWriteTokens: 0,
    outputTokens: 0,
    statedNanoUsd: 0,
  };
}

/** Without what else the object has. */
function plainRates(rates: PriceRates): PriceRates {
  const { inputUsdPerMillion, cachedUsdPerMillion, cacheWriteUsdPerMillion, outputUsdPerMillion } = rates;
  return { inputUsdPerMillion, cachedUsdPerMillion, cacheWriteUsdPerMillion, outputUsdPerMillion };
}
