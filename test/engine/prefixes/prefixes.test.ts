/** Items that share a prefix are answered from the provider's prompt cache, as far as that is cheaper. */
import { describe, expect, it } from "vitest";
import { type PrefixWorkload, runWorkload } from "./prefix_world.ts";

const [TWO, OTHER] = [1_500, 2_000].map((systemTokens, system) => ({
  ...{ system, systemTokens, document: 0, documentTokens: 0 },
})) as [PrefixWorkload["items"][number], PrefixWorkload["items"][number]];

const SHARED: PrefixWorkload = {
  model: "anthropic:claude-sonnet-4-5",
  cache: { kind: "marks", tokensMin: 1_024 },
  items: Array.from({ length: 60 }, (_, index) => (index % 2 === 0 ? TWO : OTHER)),
  hasParts: true,
  concurrency: 16,
  latencyMs: 2_000,
  isSlow: false,
  slaMinutes: undefined,
  batchHitShare: undefined,
};

describe("items that share prefixes", () => {
  it("write each prefix once and read it otherwise, but for two that try a new key", async () => {
    const result = await runWorkload(SHARED, 1, {});
    expect(result).toMatchObject({ completed: 60, writtenTokens: 3_500, hourTokens: 0 });
    expect(result.cachedTokens).toBeGreaterThanOrEqual(29 * 3_500 - 2 * 2_000);
  });

  it("write for an hour where answers take minutes, and are billed twice the input for it", async () => {
    const result = await runWorkload({ ...SHARED, latencyMs: 300_000, isSlow: true }, 1, {});
    expect(result.hourTokens).toBeGreaterThan(0);
    expect(result.billedUsd).toBeCloseTo(result.bookedUsd, 9);
  });

  it("share leading turns after a system instruction that more of them share", async () => {
    const items = Array.from({ length: 80 }, (_, index) => {
      const document = Math.floor(index / 20);
      return { system: 0, systemTokens: 1_500, document, documentTokens: 1_200 };
    });
    const result = await runWorkload({ ...SHARED, items }, 1, {});
    expect(result.writtenTokens).toBeLessThanOrEqual(1_500 + 4 * 1_200 + 2 * 2_700);
    expect(result.cachedTokens).toBeGreaterThanOrEqual(76 * 2_700 - 2 * 2_700);
  });

  it("ask for nothing where prefixes are switched off, too short by configuration, or all different", async () => {
    const items = Array.from({ length: 12 }, (_, system) => ({ ...TWO, system }));
    const results = [
      await runWorkload(SHARED, 1, { prefixes: { enabled: false } }),
      await runWorkload(SHARED, 1, { prefixes: { minTokens: { "anthropic:*": 3_000 } } }),
      await runWorkload({ ...SHARED, items }, 1, {}),
    ];
    for (const { writtenTokens, cachedTokens } of results)
      expect([writtenTokens, cachedTokens]).toEqual([0, 0]);
  });

  it("go on without a cache where the model keeps nothing so short", async () => {
    const result = await runWorkload({ ...SHARED, cache: { kind: "marks", tokensMin: 4_096 } }, 1, {});
    expect(result).toMatchObject({ completed: 60, writtenTokens: 0, cachedTokens: 0 });
  });

  it("have what they write reserved: a cap that leaves no money for an hour is kept, and all is sent", async () => {
    const slow = { ...SHARED, latencyMs: 300_000, isSlow: true };
    const result = await runWorkload(slow, 1, {}, 3.2);
    expect(result.completed).toBe(60);
    expect(result.billedUsd).toBeLessThanOrEqual(3.2);
  });
});
