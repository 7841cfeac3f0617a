/**
 * Keeps the price of each model for as long as it holds.
 *
 * Hot path: a price that is kept costs two map look-ups, at most 0.2 us (`bench/price.ts`); finding one in the
 * list takes under 1 ms (the first also loads the list, see `base.ts`).
 * Limits: at most 10,000 models are kept (beyond, all are forgotten and found again), each for at most 24 hours.
 */
import type { ModelId } from "../work/request.ts";
import { basePrice } from "./base.ts";
import { checkPriceOverrides, type PriceOverrides } from "./overrides.ts";
import type { BasePrice } from "./rates.ts";

const MODELS_MAX = 10_000;
const KEPT_MS_MAX = 86_400_000;

interface Entry {
  readonly price: BasePrice | undefined;
  readonly fromWallMs: number;
  readonly untilWallMs: number;
}

export class PriceBook {
  readonly #overrides: PriceOverrides;
  /** By provider, then by name: no key has to be put together on the hot path. */
  readonly #entries = new Map<string, Map<string, Entry>>();
  #entryCount = 0;

  /** Throws `invalid_config` when an override is no price. */
  constructor(overrides: PriceOverrides = {}) {
    checkPriceOverrides(overrides);
    this.#overrides = structuredClone(overrides);
  }

  /** The price of a model at a moment (Unix milliseconds, in any order); undefined when none is known. */
  price(model: ModelId, wallMs: number): BasePrice | undefined {
    const entry = this.#entries.get(model.provider)?.get(model.name);
    if (entry !== undefined && wallMs >= entry.fromWallMs && wallMs < entry.untilWallMs) return entry.price;
    return this.#find(model, wallMs);
  }

  #find(model: ModelId, wallMs: number): BasePrice | undefined {
    const price = basePrice(model, wallMs, this.#overrides);
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
    names.set(model.name, {
      price,
      fromWallMs: Math.max(price?.validFromWallMs ?? Number.NEGATIVE_INFINITY, wallMs - KEPT_MS_MAX),
      untilWallMs: Math.min(price?.validUntilWallMs ?? Number.POSITIVE_INFINITY, wallMs + KEPT_MS_MAX),
    });
    return price;
  }
}
