import { describe, expect, it } from "vitest";
import { basePrice } from "../../src/price/base.ts";
import { costOf, worstCaseUsd } from "../../src/price/cost.ts";
import { laneFactor, laneFactorOf, laneTierOf } from "../../src/price/lane_factors.ts";
import { type BasePrice, ceilingOf } from "../../src/price/rates.ts";
import { NO_USAGE, type Usage } from "../../src/work/outcome.ts";

const NOON = Date.parse("2026-11-20T12:00:00Z");
const FULL = { factor: 1, laneFactor: 1 };

function price(provider: string, name: string): BasePrice {
  const found = basePrice({ provider, name }, NOON);
  if (found === undefined) throw new Error(name);
  return found;
}

function usage(given: Partial<Usage>): Usage {
  return { ...NO_USAGE, ...given };
}

describe("the cost of an answer", () => {
  it("is its tokens at their rates", () => {
    const cost = costOf(
      usage({ inputTokens: 1_000_000, outputTokens: 100_000 }),
      price("openai", "gpt-4o-mini"),
      FULL,
    );
    expect(cost.listUsd).toBeCloseTo(0.15 + 0.06, 12);
    expect(cost).toMatchObject({ usd: cost.listUsd, billedUsd: cost.listUsd, isEstimated: false });
  });

  it("takes cached and written input at their own rates, out of the total", () => {
    const cost = costOf(
      usage({ inputTokens: 1_000_000, cachedTokens: 600_000, cacheWriteTokens: 300_000 }),
      price("anthropic", "claude-haiku-4-5"),
      FULL,
    );
    expect(cost.listUsd).toBeCloseTo(0.1 * 1 + 0.6 * 0.1 + 0.3 * 1.25, 12);
  });

  it("does not count reasoning on top of the output that holds it", () => {
    const gpt = price("openai", "gpt-6-sol");
    const plain = costOf(usage({ inputTokens: 10, outputTokens: 500 }), gpt, FULL);
    expect(costOf(usage({ inputTokens: 10, outputTokens: 500, reasoningTokens: 450 }), gpt, FULL)).toEqual(
      plain,
    );
  });

  it("changes the price of the whole request above a tier's start", () => {
    const gpt = price("openai", "gpt-5.4"); // start 271,999
    const below = costOf(usage({ inputTokens: 271_999, outputTokens: 1_000 }), gpt, FULL);
    const above = costOf(usage({ inputTokens: 272_000, outputTokens: 1_000 }), gpt, FULL);
    expect(below.listUsd).toBeCloseTo((271_999 * 2.5 + 1_000 * 15) / 1e6, 12);
    expect(above.listUsd).toBeCloseTo((272_000 * 5 + 1_000 * 22.5) / 1e6, 12);
  });

  it("multiplies by the price factor for the customer and by the lane factor for the provider", () => {
    const cost = costOf(usage({ inputTokens: 1_000_000 }), price("openai", "gpt-6-sol"), {
      factor: 0.4,
      laneFactor: 0.5,
    });
    expect(cost).toMatchObject({ listUsd: 4, usd: 1.6, billedUsd: 2 });
  });

  it("keeps cached input at full price in Gemini's batches", () => {
    const lane = laneFactor("gemini", "batch");
    const cost = costOf(
      usage({ inputTokens: 1_000_000, cachedTokens: 1_000_000 }),
      price("gemini", "gemini-2.5-flash"),
      {
        factor: 1,
        laneFactor: lane?.factor ?? Number.NaN,
        laneCachedFactor: lane?.cachedFactor ?? Number.NaN,
      },
    );
    expect(cost.billedUsd).toBeCloseTo(0.03, 12);
  });

  it("believes the provider where it says what it charged", () => {
    const told = usage({ inputTokens: 1_000, outputTokens: 1_000, chargedUsd: 0.25 });
    expect(costOf(told, undefined, { factor: 0.5, laneFactor: 1 })).toEqual({
      listUsd: 0.25,
      usd: 0.125,
      billedUsd: 0.25,
      isEstimated: false,
    });
    expect(
      costOf(told, price("openrouter", "openai/gpt-6-sol"), { factor: 1, laneFactor: 0.5 }),
    ).toMatchObject({
      listUsd: 0.5,
      billedUsd: 0.25,
    });
    expect(costOf({ ...told, chargedUsd: 0 }, undefined, FULL)).toMatchObject({
      listUsd: 0,
      isEstimated: false,
    });
  });

  it("does not believe nonsense that the provider says it charged", () => {
    for (const chargedUsd of [Number.NaN, -1, Number.POSITIVE_INFINITY])
      expect(
        costOf(usage({ inputTokens: 1_000_000, chargedUsd }), price("openai", "gpt-4o-mini"), FULL).listUsd,
      ).toBeCloseTo(0.15, 12);
  });

  it("is nothing and estimated without a price", () => {
    expect(costOf(usage({ inputTokens: 5 }), undefined, FULL)).toEqual({
      listUsd: 0,
      usd: 0,
      billedUsd: 0,
      isEstimated: true,
    });
  });

  it("is estimated when usage was, or when the price is that of a similar name", () => {
    const tokens = { inputTokens: 5, outputTokens: 5 };
    expect(
      costOf(usage({ ...tokens, isEstimated: true }), price("openai", "gpt-6-sol"), FULL).isEstimated,
    ).toBe(true);
    expect(costOf(usage(tokens), price("anthropic", "claude-sonnet-5-5"), FULL).isEstimated).toBe(true);
  });

  it("is never NaN, infinite or negative, and says so when counts are nonsense", () => {
    for (const bad of [Number.NaN, -5, Number.POSITIVE_INFINITY, 1e300])
      for (const field of ["inputTokens", "cachedTokens", "cacheWriteTokens", "outputTokens"] as const) {
        const cost = costOf(
          usage({ inputTokens: 10, outputTokens: 10, [field]: bad }),
          price("openai", "gpt-6-sol"),
          FULL,
        );
        for (const usd of [cost.listUsd, cost.usd, cost.billedUsd]) {
          expect(Number.isFinite(usd)).toBe(true);
          expect(usd).toBeGreaterThanOrEqual(0);
        }
        expect(cost.isEstimated).toBe(true);
      }
  });

  it("counts more cached than input tokens as all input cached, estimated", () => {
    const cost = costOf(usage({ inputTokens: 100, cachedTokens: 500 }), price("openai", "gpt-6-sol"), FULL);
    expect(cost.listUsd).toBeCloseTo((100 * 0.2) / 1e6, 12);
    expect(cost.isEstimated).toBe(true);
  });
});

describe("the worst case of an attempt", () => {
  it("takes the write rate of the cache where it is above the input rate", () => {
    const load = { inputTokens: 1_000_000, maxOutputTokens: 0 };
    expect(worstCaseUsd(load, price("anthropic", "claude-haiku-4-5"))).toBe(1.25);
    expect(worstCaseUsd(load, price("openai", "gpt-4o-mini"))).toBe(0.15);
  });

  it("takes the tier of the request", () => {
    const gpt = price("openai", "gpt-6-sol");
    expect(worstCaseUsd({ inputTokens: 272_000, maxOutputTokens: 0 }, gpt)).toBeCloseTo(
      (272_000 * 2.5) / 1e6,
      12,
    );
    expect(worstCaseUsd({ inputTokens: 272_001, maxOutputTokens: 1_000 }, gpt)).toBeCloseTo(
      (272_001 * 5 + 1_000 * 15) / 1e6,
      12,
    );
  });

  it("never falls as requests grow, even over a tier that is cheaper", () => {
    const flat = { cachedUsdPerMillion: 1, cacheWriteUsdPerMillion: 1, outputUsdPerMillion: 1 };
    const ceiling = ceilingOf([
      { inputUsdPerMillion: 5, ...flat, tiers: [{ start: 100, inputUsdPerMillion: 2, ...flat }] },
    ]);
    expect(ceiling.map((entry) => entry.inputUsdPerMillion)).toEqual([5, 5]);
  });

  it("is nothing without a price", () => {
    expect(worstCaseUsd({ inputTokens: 5, maxOutputTokens: 5 }, undefined)).toBe(0);
  });
});

describe("lane factors", () => {
  it("are 1 in realtime for everyone and absent where the tier is not offered", () => {
    expect(laneFactor("anything", "realtime")?.factor).toBe(1);
    expect(laneFactor("openai", "batch")?.factor).toBe(0.5);
    expect(laneFactor("openai", "flex")?.factor).toBe(0.5);
    expect(laneFactor("groq", "flex")?.factor).toBe(1);
    expect(laneFactor("anthropic", "flex")).toBeUndefined();
    expect(laneFactor("together", "batch")).toBeUndefined();
    expect(laneFactor("deepseek", "batch")).toBeUndefined();
  });

  it("come from the configuration first", () => {
    expect(laneFactor("together", "batch", { together: { batch: 0.5 } })).toEqual({
      factor: 0.5,
      cachedFactor: 0.5,
      isVerified: true,
    });
    expect(laneFactor("__proto__", "batch", {})).toBeUndefined();
  });

  it("of a server without known prices are twice the list price for priority and for an unknown word, and no discount", () => {
    const words = ["priority", "FAST", "turbo", "flex", "batch", "default", undefined];
    for (const provider of ["mine", "together", "__proto__"])
      expect(
        words.map((word) => laneFactorOf(provider, word).factor),
        provider,
      ).toEqual([2, 2, 2, 1, 1, 1, 1]);
    expect(laneFactorOf("openai", "turbo").factor).toBe(2);
    expect(laneFactorOf("anthropic", "priority").factor).toBe(1);
    expect(laneFactorOf("openai", "flex").factor).toBe(0.5);
  });

  it("follow the provider's word for the tier that it served", () => {
    expect(["flex", "priority", "fast", "batch", "default", "standard", "on_demand"].map(laneTierOf)).toEqual(
      ["flex", "priority", "priority", "batch", "realtime", "realtime", "realtime"],
    );
    expect(laneTierOf(undefined)).toBe("realtime");
  });
});
