/**
 * Keeps the price of each model for as long as it holds.
 *
 * Hot path: a price that is kept costs two map look-ups, at most 0.2 us (`bench/parts/admit.ts`), or one by the whole id of its
 * model, whose parts are made once; finding one in the list takes under 1 ms (the first also loads the list, see `base.ts`).
 * Limits: at most 10,000 models are kept (beyond, all are forgotten and found again), each for at most 24 hours.
 */
import { type ModelId, parseModelId } from "../work/request.ts";
import { basePrice } from "./base.ts";
import { type LaneFactor, type LaneFactorOverrides, laneFactorOf } from "./lane_factors.ts";
import { OffPeakDays } from "./off_peak_days.ts";
import { checkPriceOverrides, type PriceOverrides } from "./overrides.ts";
import type { BasePrice } from "./rates.ts";

const MODELS_MAX = 10_000;
const KEPT_MS_MAX = 86_400_000;

interface Entry {
  readonly price: BasePrice | undefined;
  readonly fromWallMs: number;
  readonly untilWallMs: number;
}

/** A model's provider and price, found by its whole id. */
interface ModelEntry extends Entry {
  /** Empty when the id has no provider. */
  readonly provider: string;
}

/** The price of a model, and its provider. */
export type ModelPrice = Pick<ModelEntry, "price" | "provider">;

export class PriceBook {
  readonly #overrides: PriceOverrides;
  readonly #offPeakDays: OffPeakDays;
  readonly #laneFactors: LaneFactorOverrides;
  /** By provider, then by name: no key has to be put together on the hot path. */
  readonly #entries = new Map<string, Map<string, Entry>>();
  #entryCount = 0;
  /** Models by their whole ids. */
  readonly #models = new Map<string, ModelEntry>();

  /** `holidays` as in `OffPeakDays`; `laneFactors` instead of those that are known. Throws `invalid_config` when an override is not a price, or a holiday is not a day. */
  constructor(
    overrides: PriceOverrides = {},
    holidays?: readonly string[],
    laneFactors: LaneFactorOverrides = {},
  ) {
    this.#laneFactors = structuredClone(laneFactors);
    this.#offPeakDays = new OffPeakDays(holidays);
    checkPriceOverrides(overrides);
    this.#overrides = structuredClone(overrides);
  }

  /** The price of a model at a moment (Unix milliseconds, in any order); undefined when it is not known. */
  price(model: ModelId, wallMs: number): BasePrice | undefined {
    const entry = this.#entries.get(model.provider)?.get(model.name);
    return entry !== undefined && holds(entry, wallMs) ? entry.price : this.#find(model, wallMs).price;
  }

  /** The same for a whole id, such as `openai:gpt-4o-mini`. If it is not a valid id, there is no price and the provider is empty. */
  priceOf(model: string, wallMs: number): ModelPrice {
    const known = this.#models.get(model);
    if (known !== undefined && holds(known, wallMs)) return known;
    const id = parseModelId(model);
    const entry = id === undefined ? NO_MODEL : { ...this.#find(id, wallMs), provider: id.provider };
    if (this.#models.size >= MODELS_MAX) this.#models.clear();
    this.#models.set(model, entry);
    return entry;
  }

  /** As `laneFactorOf` of lane_factors.ts, with what is configured. */
  laneFactorOf(provider: string, word: string | undefined): LaneFactor {
    return laneFactorOf(provider, word, this.#laneFactors);
  }

  #find(model: ModelId, wallMs: number): Entry {
    const price = basePrice(model, wallMs, this.#overrides, this.#offPeakDays);
    if (this.#entryCount >= MODELS_MAX) {
      this.#entries.clear();
      this.#entryCount = 0;
    }
    let names = this.#entries.get(model.provider);
    if (names === undefined) {
      names = new Map();
      this.#entries.set(model.provider, names);
    }
    if (!names.has(model.name)) this.#entryCount++;
    const entry: Entry = {
      price,
      fromWallMs: Math.max(price?.validFromWallMs ?? Number.NEGATIVE_INFINITY, wallMs - KEPT_MS_MAX),
      untilWallMs: Math.min(price?.validUntilWallMs ?? Number.POSITIVE_INFINITY, wallMs + KEPT_MS_MAX),
    };
    names.set(model.name, entry);
    return entry;
  }
}

const NO_MODEL: ModelEntry = {
  provider: "",
  price: undefined,
  fromWallMs: Number.NEGATIVE_INFINITY,
  untilWallMs: Number.POSITIVE_INFINITY,
};

function holds({ fromWallMs, untilWallMs }: Entry, wallMs: number): boolean {
  return wallMs >= fromWallMs && wallMs < untilWallMs;
}
