import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Packer } from "../../src/shard/pack.ts";
import type { Shard } from "../../src/shard/shard.ts";
import { bodyOf, keyOf, measuredBlock, type PlainItem } from "../shard/measured_blocks.ts";

const item = fc.record({
  model: fc.constantFrom("echo:a", "echo:b", "openai:c"),
  prefix: fc.oneof(fc.constant(0), fc.nat(3), fc.nat(60)),
  tokens: fc.nat(40),
  maxOutputTokens: fc.nat(5),
  body: fc.string({ minLength: 1, maxLength: 30 }),
});
const bounds = fc.record({
  itemsMax: fc.integer({ min: 1, max: 12 }),
  tokensMax: fc.integer({ min: 1, max: 200 }),
  bytesMax: fc.integer({ min: 1, max: 400 }),
  openGroupsMax: fc.integer({ min: 1, max: 6 }),
  openBytesMax: fc.integer({ min: 1, max: 2_000 }),
  prefixItemsMin: fc.integer({ min: 1, max: 4 }),
  eagerItems: fc.nat(30),
});
const blockSizes = fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 1, maxLength: 10 });

describe("packing", () => {
  it("loses, doubles and changes no item, for any bounds", () => {
    fc.assert(
      fc.property(fc.array(item, { maxLength: 150 }), bounds, blockSizes, (plain, some, sizes) => {
        const items: PlainItem[] = plain.map((each, index) => ({ ...each, line: index + 1 }));
        const shards = pack(items, some, sizes);
        const found = shards.flatMap((shard) =>
          Array.from(shard.lines, (line, index) => ({ line, shard, index })),
        );
        expect(found.map(({ line }) => line).sort((a, b) => a - b)).toEqual(items.map(({ line }) => line));
        for (const { line, shard, index } of found) {
          const origin = items[line - 1] as PlainItem;
          expect(shard.model).toBe(origin.model);
          expect([0, origin.prefix]).toContain(shard.group.prefixHash);
          expect(shard.inputTokens[index]).toBe(origin.tokens);
          expect(shard.maxOutputTokens[index]).toBe(origin.maxOutputTokens);
          expect(shard.offsets[index]).toBe(line * 1000);
          expect(shard.keyJson(index)).toBe(keyOf(line));
          expect(Buffer.from(shard.body(index)).toString()).toBe(bodyOf(origin));
        }
      }),
      { numRuns: 150 },
    );
  });

  it("keeps the bounds of a shard, unless it holds a single item", () => {
    fc.assert(
      fc.property(fc.array(item, { maxLength: 150 }), bounds, blockSizes, (plain, some, sizes) => {
        const items: PlainItem[] = plain.map((each, index) => ({ ...each, line: index + 1 }));
        for (const shard of pack(items, some, sizes)) {
          expect(shard.count).toBeGreaterThan(0);
          expect(shard.count).toBeLessThanOrEqual(some.itemsMax);
          if (shard.count === 1) continue;
          expect(shard.inputTokensTotal).toBeLessThanOrEqual(some.tokensMax);
          expect(shard.preparedBytes).toBeLessThanOrEqual(some.bytesMax);
        }
      }),
      { numRuns: 150 },
    );
  });

  it("keeps the order of lines inside a shard, and among the shards of one model without prefixes", () => {
    fc.assert(
      fc.property(fc.array(item, { maxLength: 150 }), bounds, blockSizes, (plain, some, sizes) => {
        const items: PlainItem[] = plain.map((each, index) => ({ ...each, prefix: 0, line: index + 1 }));
        const byModel = new Map<string, number[]>();
        for (const shard of pack(items, some, sizes)) {
          byModel.set(shard.model, [...(byModel.get(shard.model) ?? []), ...shard.lines]);
        }
        for (const lines of byModel.values()) expect(lines).toEqual([...lines].sort((a, b) => a - b));
        const withPrefixes = plain.map((each, index) => ({ ...each, line: index + 1 }));
        for (const { lines } of pack(withPrefixes, some, sizes)) {
          expect([...lines]).toEqual([...lines].sort((a, b) => a - b));
        }
      }),
      { numRuns: 100 },
    );
  });
});

function pack(
  items: readonly PlainItem[],
  some: ConstructorParameters<typeof Packer>[0],
  sizes: readonly number[],
): Shard[] {
  const packer = new Packer(some);
  const shards: Shard[] = [];
  let from = 0;
  for (let round = 0; from < items.length; round += 1) {
    const size = sizes[round % sizes.length] as number;
    shards.push(...packer.add(measuredBlock(items.slice(from, from + size))));
    from += size;
  }
  return [...shards, ...packer.flush()];
}
