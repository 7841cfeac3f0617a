/**
 * Whether requests in a batch are asked to be cached, where that costs something.
 *
 *   a request reads with probability h, or else writes (no request waits for another in a batch)
 *   with          write + (n - 1) x (h x read + (1 - h) x write)            n requests with the prefix
 *   pays          below n: at h = 0.3, 1.25 and 0.1 from 4 requests on
 *
 * Anthropic states 30 to 98 % of hits in batches, "depending on traffic patterns", and nothing of their order
 * (https://platform.claude.com/docs/en/build-with-claude/batch-processing, November 2026): the lower end is assumed, until answers of a
 * model say that writes have cost more than reads have saved. Then nothing is asked for, for a day.
 *
 * A write for an hour pays only from 53 % of hits on, so batches ask for the shorter life.
 */
import type { CacheTerms } from "./cache_terms.ts";
import type { CacheUsage } from "./prefix_states.ts";

const HIT_SHARE_LEAST = 0.3;
const TRIAL_WRITES = 64;
const PAUSE_MS = 86_400_000;

const ASKED_MS = 600_000;
/** Prefixes that are remembered as asked for, about 1 MiB. */
const ASKED_MAX = 16_384;

/** Requests with one prefix that go into batches together. */
export interface BatchedPrefix {
  readonly hash: number;
  readonly tokens: number;
  readonly requests: number;
}

/** One for a model. */
export class BatchCache {
  /** What reads have saved less what writes have cost more, in tokens of plain input. */
  #savedTokens = 0;
  #writes = 0;
  /** When a prefix was last asked for as one that pays. */
  readonly #asked = new Map<number, number>();
  #pausedUntilMs = Number.NEGATIVE_INFINITY;

  /** Whether `requests` with a prefix of so many tokens are asked to be cached, and those that follow within 10 minutes. */
  pays(terms: CacheTerms, { hash, tokens, requests }: BatchedPrefix, nowMs: number): boolean {
    const [life] = terms.lives;
    if (!terms.isAsked || life === undefined || tokens < terms.tokensMin || nowMs < this.#pausedUntilMs)
      return false;
    const { writeFactor } = life;
    const follower = HIT_SHARE_LEAST * terms.readFactor + (1 - HIT_SHARE_LEAST) * writeFactor;
    const isEnough = requests > 1 && writeFactor + (requests - 1) * follower < requests;
    const askedMs = this.#asked.get(hash) ?? Number.NEGATIVE_INFINITY;
    if (!isEnough) return follower < 1 && nowMs - askedMs < ASKED_MS;
    if (this.#asked.size >= ASKED_MAX) this.#asked.clear();
    this.#asked.set(hash, nowMs);
    return true;
  }

  /** An answer in a batch arrived. */
  answered({ readFactor, lives }: CacheTerms, usage: CacheUsage, nowMs: number): void {
    const { cachedTokens, cacheWriteTokens } = usage;
    if (cacheWriteTokens > 0) this.#writes += 1;
    this.#savedTokens +=
      cachedTokens * (1 - readFactor) - cacheWriteTokens * ((lives[0]?.writeFactor ?? 1) - 1);
    if (this.#writes < TRIAL_WRITES || this.#savedTokens >= 0) return;
    this.#pausedUntilMs = nowMs + PAUSE_MS;
    this.#writes = 0;
    this.#savedTokens = 0;
  }
}
