/** Requests in batches are asked to be cached where that is expected to pay at the fewest hits that the provider states. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BatchCache } from "../../../src/queue/prefixes/batch_cache.ts";
import type { CacheTerms } from "../../../src/queue/prefixes/cache_terms.ts";

const FIVE_MINUTES = { ttlMs: 300_000, writeFactor: 1.25 };
const ASKED: CacheTerms = { isAsked: true, tokensMin: 1_024, readFactor: 0.1, lives: [FIVE_MINUTES] };
const DAY_MS = 86_400_000;

describe("a batch", () => {
  it("asks from 4 requests with a prefix on, and never where the cache is automatic or the prefix too short", () => {
    const cache = new BatchCache();
    expect(
      [1, 2, 3, 4, 5].map((requests) => cache.pays(ASKED, { hash: 1, tokens: 2_000, requests: requests }, 0)),
    ).toEqual([false, false, false, true, true]);
    expect(cache.pays({ ...ASKED, isAsked: false }, { hash: 1, tokens: 2_000, requests: 100 }, 0)).toBe(
      false,
    );
    expect(cache.pays(ASKED, { hash: 1, tokens: 1_023, requests: 100 }, 0)).toBe(false);
  });

  it("asks for what is left of a prefix that it has asked for within 10 minutes", () => {
    const cache = new BatchCache();
    const rest = (nowMs: number) => cache.pays(ASKED, { hash: 1, tokens: 2_000, requests: 1 }, nowMs);
    expect(rest(0)).toBe(false);
    cache.pays(ASKED, { hash: 1, tokens: 2_000, requests: 8 }, 0);
    expect([rest(599_999), rest(600_000)]).toEqual([true, false]);
  });

  it("asks only where it costs less than plain input at 30 % of hits", () => {
    const factor = fc.double({ min: 0, max: 3, noNaN: true });
    fc.assert(
      fc.property(factor, factor, fc.integer({ min: 1, max: 60 }), (readFactor, writeFactor, requests) => {
        const terms = { ...ASKED, readFactor, lives: [{ ttlMs: 300_000, writeFactor }] };
        const cost = writeFactor + (requests - 1) * (0.3 * readFactor + 0.7 * writeFactor);
        if (new BatchCache().pays(terms, { hash: 1, tokens: 2_000, requests: requests }, 0))
          expect(cost).toBeLessThan(requests);
        else expect(requests === 1 || cost >= requests).toBe(true);
      }),
    );
  });

  it("asks for nothing for a day after 64 writes that reads did not pay for, and goes on where they did", () => {
    const write = { cachedTokens: 0, cacheWriteTokens: 2_000 };
    const [poor, good] = [new BatchCache(), new BatchCache()];
    for (let answer = 0; answer < 64; answer += 1) {
      expect(poor.pays(ASKED, { hash: 1, tokens: 2_000, requests: 10 }, 0)).toBe(true);
      poor.answered(ASKED, write, 0);
      good.answered(ASKED, write, 0);
      good.answered(ASKED, { cachedTokens: 2_000, cacheWriteTokens: 0 }, 0);
    }
    expect(
      [0, DAY_MS - 1, DAY_MS].map((nowMs) =>
        poor.pays(ASKED, { hash: 1, tokens: 2_000, requests: 10 }, nowMs),
      ),
    ).toEqual([false, false, true]);
    expect(good.pays(ASKED, { hash: 1, tokens: 2_000, requests: 10 }, 0)).toBe(true);
  });
});
