/**
 * What requests in batches say of the provider's prompt cache: a batch has its own, which realtime neither reads nor fills.
 *
 *   an item joins a batch -> its request, with a mark where that pays (queue/prefixes/batch_cache.ts) -> its answer is learnt from
 */
import type { Clock } from "../../clock.ts";
import { BatchCache } from "../../queue/prefixes/batch_cache.ts";
import type { CacheUsage } from "../../queue/prefixes/prefix_states.ts";
import type { ItemCall } from "../items/item_call.ts";
import type { CachedRequest, CacheRules } from "./cache_rules.ts";

const MODELS_MAX = 1_000;

/** One for an engine. */
export class BatchPrefixes {
  readonly rules: CacheRules;
  readonly #clock: Clock;
  readonly #models = new Map<string, BatchCache>();

  constructor(rules: CacheRules, clock: Clock) {
    this.rules = rules;
    this.#clock = clock;
  }

  /** The body of an item's request, as a batch has it. */
  bodyOf(call: ItemCall): Uint8Array {
    const { plainBody, shard, provider, model } = call;
    const { shared } = shard.group;
    const terms = shared === undefined ? undefined : this.rules.of(call, this.#clock.wallMs());
    if (shared === undefined || terms === undefined || shared.tokens < terms.tokensMin) return plainBody;
    const [life] = terms.lives;
    const isAsked = this.#of(model).pays(terms, { ...shared, requests: shard.count }, this.#clock.nowMs());
    const step = isAsked && life !== undefined ? { is: "read" as const, life } : { is: "plain" as const };
    const marks = this.rules.marksOf(provider, shared, step);
    return marks === undefined ? plainBody : marks(plainBody);
  }

  /** An answer in a batch arrived. */
  answered(request: CachedRequest, usage: CacheUsage): void {
    if (usage.cachedTokens + usage.cacheWriteTokens === 0) return;
    const terms = this.rules.of(request, this.#clock.wallMs());
    if (terms !== undefined) this.#of(request.model).answered(terms, usage, this.#clock.nowMs());
  }

  #of(model: string): BatchCache {
    if (this.#models.size >= MODELS_MAX) this.#models.clear();
    const cache = this.#models.get(model) ?? new BatchCache();
    this.#models.set(model, cache);
    return cache;
  }
}
