/**
 * What each model's prompt cache takes and costs: by its protocol, its price and the configuration.
 *
 *   anthropic     asked for in the request: 5 min from the last use for 1.25 times the input, or 1 h for twice the input
 *   all others    automatic, as far as the price list has a lower price for what is read
 *   no price, or none that is lower    no cache
 */
import { HOUR_WRITE_FACTOR } from "../../price/cost.ts";
import type { PriceBook } from "../../price/price_book.ts";
import { namesCacheKey, withCacheControl, withCacheKey } from "../../providers/cache_marks.ts";
import type { Provider } from "../../providers/provider.ts";
import type { CacheTerms } from "../../queue/prefixes/cache_terms.ts";
import type { PrefixStep } from "../../queue/prefixes/prefix_states.ts";
import type { SharedPrefix } from "../../shard/prefix_ends.ts";
import type { PrefixSettings } from "../config/prefix_settings.ts";
import type { CacheUse } from "../items/cache_use.ts";

const KEPT_MS = 3_600_000;
const MODELS_MAX = 1_000;
const ANTHROPIC_TTL_MS = 300_000;
export const HOUR_MS = 3_600_000;

/** What is asked of a request: its model, `<provider>:<name>`, and its provider. */
export interface CachedRequest {
  readonly model: string;
  readonly provider: Pick<Provider, "settings">;
}

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
  of(call: CachedRequest, wallMs: number): CacheTerms | undefined {
    const known = this.#models.get(call.model);
    if (known !== undefined && wallMs < known.untilWallMs) return known.terms;
    if (this.#models.size >= MODELS_MAX) this.#models.clear();
    const entry = this.#find(call, wallMs);
    this.#models.set(call.model, entry);
    return entry.terms;
  }

  /** What a request says of the cache; undefined for nothing. */
  marksOf(
    { settings: { name, protocol } }: Pick<Provider, "settings">,
    { hash, parts }: SharedPrefix,
    step: PrefixStep,
  ): CacheUse["body"] | undefined {
    if (protocol === "anthropic") {
      if (step.is === "plain") return undefined;
      const ttl = step.life.ttlMs >= HOUR_MS ? "1h" : "5m";
      return (body) => withCacheControl(body, parts, ttl);
    }
    if (protocol !== "openai" || !this.settings.cacheKeys.has(name)) return undefined;
    const key = `perigee-${hash.toString(36)}`;
    return (body) => (namesCacheKey(body) ? body : withCacheKey(body, key));
  }

  #find({ model, provider }: CachedRequest, wallMs: number): Entry {
    const { price } = this.#prices.priceOf(model, wallMs);
    const untilWallMs = Math.min(wallMs + KEPT_MS, price?.validUntilWallMs ?? Number.POSITIVE_INFINITY);
    const { protocol } = provider.settings;
    if (!this.settings.isEnabled || price === undefined || price.inputUsdPerMillion <= 0)
      return { terms: undefined, untilWallMs };
    const readFactor = price.cachedUsdPerMillion / price.inputUsdPerMillion;
    if (readFactor >= 1 || protocol === "own" || protocol === "function")
      return { terms: undefined, untilWallMs };
    const writeFactor = price.cacheWriteUsdPerMillion / price.inputUsdPerMillion;
    const tokensMin = this.settings.tokensMin(model);
    if (protocol !== "anthropic") {
      const lives = [{ ttlMs: this.settings.ttlMs(model), writeFactor }];
      return { terms: { isAsked: false, tokensMin, readFactor, lives }, untilWallMs };
    }
    const lives = [
      { ttlMs: ANTHROPIC_TTL_MS, writeFactor },
      { ttlMs: HOUR_MS, writeFactor: HOUR_WRITE_FACTOR },
    ];
    return { terms: { isAsked: true, tokensMin, readFactor, lives }, untilWallMs };
  }
}
