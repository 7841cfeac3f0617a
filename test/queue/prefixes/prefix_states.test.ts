/** A prefix is primed by one request, followed by others, and never dearer than plain input in a cache that keeps its terms. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type CacheTerms, cheapestLife } from "../../../src/queue/prefixes/cache_terms.ts";
import { PrefixStates, type PrefixUse } from "../../../src/queue/prefixes/prefix_states.ts";

const FIVE_MINUTES = { ttlMs: 300_000, writeFactor: 1.25 };
const HOUR = { ttlMs: 3_600_000, writeFactor: 2 };
const ASKED: CacheTerms = { isAsked: true, tokensMin: 1_024, readFactor: 0.1, lives: [FIVE_MINUTES] };
const AUTOMATIC: CacheTerms = { ...ASKED, isAsked: false, lives: [{ ttlMs: 300_000, writeFactor: 1 }] };
const USE: PrefixUse = { key: "1 m", tokens: 2_000, followers: 9, gapMs: 0, holdMs: () => 2_000 };
const WRITTEN = { cachedTokens: 0, cacheWriteTokens: 2_000 };
const READ = { cachedTokens: 2_000, cacheWriteTokens: 0 };

describe("the life that is asked for", () => {
  it("is not used for a single request, is five minutes from two on, and an hour where they are far apart and at least three", () => {
    const both = { ...ASKED, lives: [FIVE_MINUTES, HOUR] };
    expect(cheapestLife(both, { requests: 1, gapMs: 0 })).toBeUndefined();
    expect(cheapestLife(both, { requests: 2, gapMs: 0 })).toBe(FIVE_MINUTES);
    expect(cheapestLife(both, { requests: 2, gapMs: 1_000_000 })).toBeUndefined();
    expect(cheapestLife(both, { requests: 3, gapMs: 1_000_000 })).toBe(HOUR);
    expect(cheapestLife(both, { requests: 3, gapMs: 3_000_000 })).toBeUndefined();
  });

  it("is the cheapest of all, and cheaper than plain input", () => {
    const factor = fc.double({ min: 0, max: 3, noNaN: true });
    fc.assert(
      fc.property(factor, factor, factor, fc.integer({ min: 1, max: 50 }), (read, short, long, requests) => {
        const lives = [
          { ttlMs: 300_000, writeFactor: short },
          { ttlMs: 3_600_000, writeFactor: long },
        ];
        const life = cheapestLife({ ...ASKED, readFactor: read, lives }, { requests, gapMs: 0 });
        const costs = lives.map(({ writeFactor }) => writeFactor + read * (requests - 1));
        const least = Math.min(...costs);
        if (requests < 2 || least >= requests) expect(life).toBeUndefined();
        else expect(costs[life === undefined ? -1 : lives.indexOf(life)]).toBe(least);
      }),
    );
  });
});

describe("a prefix", () => {
  it("is primed by one request, while the others wait for its answer for a while", () => {
    const states = new PrefixStates();
    expect(states.next(USE, ASKED, 0)).toEqual({ is: "prime", life: FIVE_MINUTES, holdMs: 2_000 });
    expect([states.heldUntilMs(USE.key, 1_999), states.heldUntilMs(USE.key, 2_000)]).toEqual([
      2_000,
      undefined,
    ]);
    expect(states.next(USE, ASKED, 2_000)).toEqual({ is: "plain" });
    states.answered(USE.key, "prime", ASKED, WRITTEN);
    expect(states.isPriming).toBe(false);
    expect(states.next({ ...USE, followers: 0 }, ASKED, 3_000)).toEqual({ is: "read", life: FIVE_MINUTES });
  });

  it("is cold again when the life since its last use is over, a little early", () => {
    const states = new PrefixStates();
    states.next(USE, ASKED, 0);
    states.answered(USE.key, "prime", ASKED, WRITTEN);
    expect(states.next({ ...USE, followers: 0 }, ASKED, 280_000).is).toBe("read");
    expect(states.next({ ...USE, followers: 0 }, ASKED, 560_000).is).toBe("read");
    expect(states.next({ ...USE, followers: 0 }, ASKED, 851_000).is).toBe("plain");
    expect(states.next(USE, ASKED, 851_000).is).toBe("prime");
  });

  it("is primed again where the first request failed, or was lost", () => {
    const states = new PrefixStates();
    states.next(USE, ASKED, 0);
    states.failed(USE.key);
    expect(states.next(USE, ASKED, 10).is).toBe("prime");
    expect(states.next(USE, ASKED, 600_009).is).toBe("plain");
    expect(states.next(USE, ASKED, 600_010).is).toBe("prime");
    states.failed(USE.key);
    expect(states.isPriming).toBe(false);
  });

  it("is left alone where nothing was cached though it was asked for, or it is too short, or alone", () => {
    const states = new PrefixStates();
    states.next(USE, ASKED, 0);
    states.answered(USE.key, "prime", ASKED, { cachedTokens: 0, cacheWriteTokens: 0 });
    expect(states.next(USE, ASKED, 10).is).toBe("plain");
    expect(states.next({ ...USE, key: "2 m", tokens: 1_023 }, ASKED, 10).is).toBe("plain");
    expect(states.next({ ...USE, key: "3 m", followers: 0 }, ASKED, 10).is).toBe("plain");
  });

  it("is warm in an automatic cache whatever its first answer says", () => {
    const states = new PrefixStates();
    states.next(USE, AUTOMATIC, 0);
    states.answered(USE.key, "prime", AUTOMATIC, { cachedTokens: 0, cacheWriteTokens: 0 });
    expect(states.next(USE, AUTOMATIC, 10).is).toBe("read");
  });

  it("is not asked for, for an hour, after eight writes that nothing has read", () => {
    const states = new PrefixStates();
    const write = (nowMs: number): string => {
      const key = `${nowMs} m`;
      const { is } = states.next({ ...USE, key }, ASKED, nowMs);
      if (is === "prime") states.answered(key, "prime", ASKED, WRITTEN);
      return is;
    };
    expect(Array.from({ length: 9 }, (_, each) => write(each)).filter((is) => is === "prime")).toHaveLength(
      8,
    );
    expect([write(3_600_000), write(3_600_009)]).toEqual(["plain", "prime"]);
  });

  it("is forgotten when many others were used since", () => {
    const states = new PrefixStates(2);
    for (const key of ["a", "b", "c"]) {
      states.next({ ...USE, key }, ASKED, 0);
      states.answered(key, "prime", ASKED, READ);
    }
    const isKnown = (key: string): boolean =>
      states.next({ ...USE, key, followers: 0 }, ASKED, 1).is === "read";
    expect(["a", "c"].map(isKnown)).toEqual([false, true]);
  });
});
