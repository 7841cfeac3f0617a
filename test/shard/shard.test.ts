import { describe, expect, it } from "vitest";
import { Packer } from "../../src/shard/pack.ts";
import type { Shard } from "../../src/shard/shard.ts";
import { measuredBlock } from "./measured_blocks.ts";

describe("Shard", () => {
  it("gives views of its bytes while prepared, and none after they were dropped", () => {
    const shard = shardOf(3);
    expect(shard.preparedBytes).toBe(51);
    shard.dropPrepared();
    shard.dropPrepared();
    expect([shard.isPrepared, shard.preparedBytes]).toEqual([false, 0]);
    expect(() => shard.body(0)).toThrow("reload it first");
    expect([...shard.lines]).toEqual([1, 2, 3]);
  });

  it("takes back the bytes that were dropped", () => {
    const shard = shardOf(3);
    const prepared = preparedOf(shard);
    shard.dropPrepared();
    shard.restore(prepared);
    expect(Buffer.from(shard.body(2)).toString()).toBe('{"line":3}');
  });

  it("refuses bytes that are not those that were dropped", () => {
    const shard = shardOf(3);
    const prepared = preparedOf(shard);
    shard.dropPrepared();
    const bodies = prepared.bodies.slice();
    bodies[3] = 0x58;
    expect(() => shard.restore({ ...prepared, bodies })).toThrow("lines 1 to 3 of the input");
    expect(shard.isPrepared).toBe(false);
  });

  it("costs 32 bytes an item in one buffer once its bytes are dropped", () => {
    const shard = shardOf(100);
    shard.dropPrepared();
    expect(shard.lines.buffer.byteLength).toBe(3_200);
    expect(shard.offsets.buffer).toBe(shard.lines.buffer);
  });
});

function shardOf(count: number): Shard {
  const items = Array.from({ length: count }, (_, index) => ({ line: index + 1 }));
  const [shard] = new Packer().add(measuredBlock(items));
  if (shard === undefined) throw new Error("no shard");
  return shard;
}

function preparedOf(shard: Shard): Parameters<Shard["restore"]>[0] {
  const items = Array.from(shard.lines, (_, index) => index);
  return {
    keys: Buffer.from(items.map((item) => shard.keyJson(item)).join("")),
    keyEnds: endsOf(items.map((item) => Buffer.byteLength(shard.keyJson(item)))),
    bodies: Buffer.concat(items.map((item) => shard.body(item))),
    bodyEnds: endsOf(items.map((item) => shard.body(item).length)),
  };
}

function endsOf(lengths: readonly number[]): Uint32Array {
  let end = 0;
  return Uint32Array.from(lengths, (length) => {
    end += length;
    return end;
  });
}
