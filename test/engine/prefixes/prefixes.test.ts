/** Items that share a prefix are answered from the provider's prompt cache, as far as that is cheaper. */
import { describe, expect, it } from "vitest";
import { type PrefixWorkload, runPrefixes, runWorkload } from "./prefix_world.ts";

const SHARED: PrefixWorkload = {
  model: "anthropic:claude-sonnet-4-5",
  tokensMin: 1_024,
  prefixes: [1_500, 2_000],
  items: Array.from({ length: 60 }, (_, index) => index % 2),
  concurrency: 16,
  latencyMs: 2_000,
  slaMinutes: undefined,
};

describe("items that share prefixes", () => {
  it("write each prefix once and read it otherwise, but for two that try a new key", async () => {
    const result = await runWorkload(SHARED, 1, {});
    expect(result).toMatchObject({ completed: 60, writtenTokens: 3_500 });
    expect(result.cachedTokens).toBeGreaterThanOrEqual(29 * 3_500 - 2 * 2_000);
  });

  it("ask for nothing where prefixes are switched off, too short by configuration, or all different", async () => {
    const alone = {
      ...SHARED,
      prefixes: Array.from({ length: 12 }, () => 1_500),
      items: [...Array(12).keys()],
    };
    const results = [
      await runWorkload(SHARED, 1, { prefixes: { enabled: false } }),
      await runWorkload(SHARED, 1, { prefixes: { minTokens: { "anthropic:*": 3_000 } } }),
      await runWorkload(alone, 1, {}),
    ];
    for (const { writtenTokens, cachedTokens } of results)
      expect([writtenTokens, cachedTokens]).toEqual([0, 0]);
  });

  it("go on without a cache where the model keeps nothing so short", async () => {
    const result = await runWorkload({ ...SHARED, tokensMin: 4_096 }, 1, {});
    expect(result).toMatchObject({ completed: 60, writtenTokens: 0, cachedTokens: 0 });
  });

  it("have a cached share within 3 % of the most that is possible, and never cost more than without", async () => {
    for (const { seed, workload, result, oracleTokens, ...without } of await runPrefixes([3, 8, 11, 15])) {
      expect({ seed, completed: result.completed }).toEqual({ seed, completed: workload.items.length });
      expect(result.cachedTokens, `seed ${seed}`).toBeGreaterThanOrEqual(oracleTokens * 0.97);
      expect(result.costTokens, `seed ${seed}`).toBeLessThanOrEqual(without.withoutTokens);
    }
  });
});
