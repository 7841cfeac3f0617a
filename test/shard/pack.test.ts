import { describe, expect, it } from "vitest";
import { PACK_BOUNDS, Packer } from "../../src/shard/pack.ts";
import type { Shard } from "../../src/shard/shard.ts";
import { measuredBlock, type PlainItem, WARNED } from "./measured_blocks.ts";

describe("Packer", () => {
  it("packs items of one model and prefix together, with their columns and bytes", () => {
    const packer = new Packer({ eagerItems: 0 });
    const shards = [
      ...packer.add(
        measuredBlock([
          { line: 1, tokens: 5 },
          { line: 2, model: "echo:b", maxOutputTokens: 7 },
          { line: 3, tokens: 6, maxOutputTokens: 9 },
        ]),
      ),
      ...packer.flush(),
    ];
    expect(shards.map((shard) => [shard.model, [...shard.lines]])).toEqual([
      ["echo:b", [2]],
      ["echo:a", [1, 3]],
    ]);
    const shard = shards[1] as Shard;
    expect([...shard.offsets]).toEqual([1000, 3000]);
    expect([...shard.lengths]).toEqual([101, 103]);
    expect([...shard.inputTokens]).toEqual([5, 6]);
    expect([...shard.maxOutputTokens]).toEqual([0, 9]);
    expect([shard.warnings(0), shard.warnings(1)]).toEqual([WARNED, WARNED]);
    expect((shards[0] as Shard).warnings(0)).toBe("");
    expect([shard.inputTokensTotal, shard.maxOutputTokensTotal, shard.unlimitedCount]).toEqual([11, 9, 1]);
    expect(Buffer.from(shard.body(1)).toString()).toBe('{"line":3}');
    expect(shard.keyJson(0)).toBe('"key 1"');
  });

  it("closes a shard at the bound of items, of tokens and of bytes", () => {
    const lines = (shards: readonly Shard[]): number[][] => shards.map((shard) => [...shard.lines]);
    const items = numbered(5);
    expect(lines(packAll({ itemsMax: 2 }, items))).toEqual([[1, 2], [3, 4], [5]]);
    expect(lines(packAll({ tokensMax: 25 }, items))).toEqual([[1, 2], [3, 4], [5]]);
    expect(lines(packAll({ bytesMax: 40 }, items))).toEqual([[1, 2], [3, 4], [5]]);
  });

  it("gives an item above the bounds a shard of its own", () => {
    const shards = packAll({ tokensMax: 25 }, [{ line: 1 }, { line: 2, tokens: 99 }, { line: 3 }]);
    expect(shards.map((shard) => [...shard.lines])).toEqual([[1], [2], [3]]);
  });

  it("lets the first items go after each block, and later ones wait for a full shard", () => {
    const packer = new Packer({ eagerItems: 4 });
    expect(packer.add(measuredBlock(numbered(3))).map((shard) => shard.count)).toEqual([3]);
    expect(packer.add(measuredBlock([{ line: 4 }])).map((shard) => shard.count)).toEqual([1]);
    expect(packer.add(measuredBlock([{ line: 5 }]))).toEqual([]);
    expect(packer.waitingItems).toBe(1);
    expect(packer.flush().map((shard) => [...shard.lines])).toEqual([[5]]);
    expect(packer.waitingItems).toBe(0);
  });

  it("keeps a shared prefix together when several items have it", () => {
    const items = numbered(32).map((item) => ({ ...item, prefix: (item.line % 2) + 1 }));
    const shards = packAll({}, items);
    expect(shards.map((shard) => [shard.group.prefixHash, shard.group.prefixTokens, shard.count])).toEqual([
      [2, 2, 16],
      [1, 1, 16],
    ]);
  });

  it("packs full shards when each line has a prefix of its own", () => {
    const items = numbered(2_000).map((item) => ({ ...item, prefix: item.line }));
    const shards = packAll({}, items, 256);
    expect(shards.length).toBeLessThanOrEqual(5);
    for (const shard of shards) expect(shard.group.prefixHash).toBe(0);
    for (const shard of shards) expect([...shard.lines]).toEqual([...shard.lines].sort((a, b) => a - b));
  });

  it("keeps a popular prefix apart from many rare ones", () => {
    const items = numbered(2_000).map((item) => ({
      ...item,
      prefix: item.line % 2 === 0 ? 7 : item.line + 100,
    }));
    const shards = packAll({}, items, 256);
    const popular = shards.filter((shard) => shard.group.prefixHash === 7);
    expect(popular.map((shard) => shard.count)).toEqual([512, 488]);
  });

  it("bounds the bytes of open groups", () => {
    const packer = new Packer({ eagerItems: 0, openBytesMax: 10_000, bytesMax: 8_000 });
    const shards: Shard[] = [];
    for (let line = 1; line <= 100; line += 1) {
      const body = "x".repeat(500);
      shards.push(...packer.add(measuredBlock([{ line, model: `echo:${line % 5}`, body }])));
    }
    expect(shards.length).toBeGreaterThan(0);
    expect(packer.waitingItems * 500).toBeLessThanOrEqual(10_000);
  });

  it("has the bounds of the decision by default", () => {
    expect(PACK_BOUNDS).toMatchObject({ itemsMax: 512, bytesMax: 1024 * 1024, openGroupsMax: 64 });
  });
});

function numbered(count: number): PlainItem[] {
  return Array.from({ length: count }, (_, index) => ({ line: index + 1 }));
}

function packAll(
  bounds: ConstructorParameters<typeof Packer>[0],
  items: readonly PlainItem[],
  blockItems = 1_000,
): Shard[] {
  const packer = new Packer({ eagerItems: 0, ...bounds });
  const shards: Shard[] = [];
  for (let from = 0; from < items.length; from += blockItems) {
    shards.push(...packer.add(measuredBlock(items.slice(from, from + blockItems))));
  }
  return [...shards, ...packer.flush()];
}
