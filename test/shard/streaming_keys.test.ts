import { describe, expect, it } from "vitest";
import { SeenKeys } from "../../src/shard/streaming_keys.ts";

describe("SeenKeys", () => {
  it("tells a hash that is new from one that was there before", () => {
    const seen = new SeenKeys();
    expect([seen.add(1, 2), seen.add(1, 3), seen.add(2, 2), seen.add(1, 2)]).toEqual([
      true,
      true,
      true,
      false,
    ]);
    expect(seen.size).toBe(3);
  });

  it("takes the hash of zeros like any other", () => {
    const seen = new SeenKeys();
    expect([seen.add(0, 0), seen.add(0, 0)]).toEqual([true, false]);
  });

  it("keeps all hashes while it grows, at 8 bytes a slot", () => {
    const seen = new SeenKeys();
    const hash = (index: number): [number, number] => [
      Math.imul(index, 0x9e3779b1) >>> 0,
      Math.imul(index + 1, 0x85ebca6b) >>> 0,
    ];
    let added = 0;
    for (let index = 0; index < 100_000; index += 1) if (seen.add(...hash(index))) added += 1;
    expect(added).toBe(100_000);
    for (let index = 0; index < 100_000; index += 1) if (seen.add(...hash(index))) added += 1;
    expect(added).toBe(100_000);
    expect(seen.size).toBe(100_000);
    expect(seen.byteLength).toBe(2 ** 18 * 8);
  });

  it("forgets all hashes and keeps its table", () => {
    const seen = new SeenKeys(10_000);
    const { byteLength } = seen;
    seen.add(1, 2);
    seen.clear();
    expect([seen.size, seen.byteLength]).toEqual([0, byteLength]);
    expect([seen.add(1, 2), seen.add(1, 2)]).toEqual([true, false]);
  });

  it("takes hashes of which all low or all high bits are equal", () => {
    const seen = new SeenKeys();
    let added = 0;
    for (let index = 0; index < 3_000; index += 1) if (seen.add(index * 2 ** 20, 0)) added += 1;
    for (let index = 1; index < 3_000; index += 1) if (seen.add(0, index * 2 ** 20)) added += 1;
    expect(added).toBe(5_999);
  });
});
