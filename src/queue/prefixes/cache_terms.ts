/**
 * When a provider's prompt cache pays, in times of the price of plain input.
 *
 *   without       n
 *   with          write + read x (n - 1)                n requests, each before the life of the last one is over
 *   pays          n > (write - read) / (1 - read)       Anthropic, 5 min: 1.25 and 0.1, from 2 requests; 1 h: 2 and 0.1, from 3
 *
 * Where caching is automatic, its writes are billed anyhow: it pays to send requests one after another from 2 on.
 *
 * Anthropic's cache: https://platform.claude.com/docs/en/build-with-claude/prompt-caching (5 min or 1 h from the last use).
 */

/** How long a provider keeps what was written. */
export interface CacheLife {
  /** From the last use, in milliseconds. */
  readonly ttlMs: number;
  /** Price of a written token, in times of plain input. */
  readonly writeFactor: number;
}

/** What is known of a model's cache. */
export interface CacheTerms {
  /** Whether nothing is cached, or billed for it, unless a request asks for it. */
  readonly isAsked: boolean;
  /** Tokens below which a prefix is not cached. */
  readonly tokensMin: number;
  /** Price of a token that is read, in times of plain input. */
  readonly readFactor: number;
  /** At least one, by rising life. */
  readonly lives: readonly CacheLife[];
}

/** What is expected of a prefix. */
export interface ExpectedUses {
  /** Requests with it, the next one included. */
  readonly requests: number;
  /** Milliseconds between two of them, and until the first answer. */
  readonly gapMs: number;
}

/** The share of a life that may pass until the next use is expected; the rest is for the tail. */
const GAP_SHARE = 0.5;

/** The cheapest life for a prefix; undefined where none is cheaper than plain input. */
export function cheapestLife(
  { isAsked, readFactor, lives }: CacheTerms,
  { requests, gapMs }: ExpectedUses,
): CacheLife | undefined {
  let best: CacheLife | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const life of lives) {
    if (gapMs > life.ttlMs * GAP_SHARE) continue;
    const factor = life.writeFactor + readFactor * (requests - 1);
    const without = isAsked ? requests : requests * Math.max(1, life.writeFactor);
    if (requests < 2 || factor >= without || factor >= least) continue;
    best = life;
    least = factor;
  }
  return best;
}
