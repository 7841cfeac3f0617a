/**
 * What each model's prompt cache takes and costs: by its protocol, its price and the configuration.
 *
 *   anthropic     asked for in the request, 5 min from the last use (1 h costs twice the input, and its tokens are not counted apart yet)
 *   all others    automatic, as far as the price list has a lower price for what is read
 *   no price, or none that is lower    no cache
 */
import type { PriceBook } from "../../price/price_book.ts";
import type { CacheTerms } from "../../queue/prefixes/cache_terms.ts";
import type { PrefixSettings } from "../config/prefix_settings.ts";
import type { ItemCall } from "../items/item_call.ts";

const KEPT_MS = 3_600_000;
const MODELS_MAX = 1_000;
const ANTHROPIC_TTL_MS = 300_000;

interface Entry {
  readonly terms: CacheTerms | undefined;
  readonly untilWallMs: number;
}

/** One for an engine. Hot path: a map look-up. */
export class CacheRules {
  readonly settings: PrefixSettings;
  readonly #prices: PriceBook;
  readonly #models = new Map<string, Entry>();

  constructor(settings: PrefixSettings, prices: PriceBook) {
    this.settings = settings;
    this.#prices = prices;
  }

  /** At a moment in Unix milliseconds; undefined where nothing is gained. */
  of(call: ItemCall, wallMs: number): CacheTerms | undefined {
    const known = this.#models.get(call.model);
    if (known !== undefined && wallMs < known.untilWallMs) return known.terms;
    if (this.#models.size >= MODELS_MAX) this.#models.clear();
    const entry = this.#find(call, wallMs);
    this.#models.set(call.model, entry);
    return entry.terms;
  }

  #find({ model, provider }: ItemCall, wallMs: number): Entry {
    const { price } = this.#prices.priceOf(model, wallMs);
    const untilWallMs = Math.min(wallMs + KEPT_MS, price?.validUntilWallMs ?? Number.POSITIVE_INFINITY);
    const { protocol } = provider.settings;
    if (!this.settings.isEnabled || price === undefined || price.inputUsdPerMillion <= 0)
      return { terms: undefined, untilWallMs };
    const readFactor = price.cachedUsdPerMillion / price.inputUsdPerMillion;
    if (readFactor >= 1 || protocol === "own" || protocol === "function")
      return { terms: undefined, untilWallMs };
    const isAsked = protocol === "anthropic";
    const ttlMs = isAsked ? ANTHROPIC_TTL_MS : this.settings.ttlMs(model);
    const writeFactor = price.cacheWriteUsdPerMillion / price.inputUsdPerMillion;
    const tokensMin = this.settings.tokensMin(model);
    return { terms: { isAsked, tokensMin, readFactor, lives: [{ ttlMs, writeFactor }] }, untilWallMs };
  }
}
