import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ReaderEvent } from "../../src/jsonl/block.ts";
import { scanKeys } from "../../src/jsonl/keys.ts";
import { DUPLICATE_BOUNDS, type DuplicateAnswer, findDuplicate } from "../../src/shard/duplicates.ts";
import type { Measurer } from "../../src/shard/measurer.ts";

describe("findDuplicate", () => {
  it("answers as a set of all keys does, also when hashes collide and the table is too small", async () => {
    const keyOrBroken = fc.oneof(
      { weight: 9, arbitrary: fc.nat(120) },
      { weight: 1, arbitrary: fc.constant(-1) },
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(keyOrBroken, { maxLength: 120 }),
        fc.constantFrom(1, 2, 5, 64),
        fc.constantFrom(1, 3, 1_024),
        fc.constantFrom(128, 1024, 65_536),
        fc.integer({ min: 1, max: 30 }),
        async (keys, hashBits, repeatsMax, tableBytesMax, blockLines) => {
          const blocks = (): AsyncIterable<ReaderEvent> => blocksOf(keys, blockLines);
          const bounds = { ...DUPLICATE_BOUNDS, repeatsMax, tableBytesMax };
          expect(await findDuplicate(blocks, weakMeasurer(hashBits), bounds)).toEqual(naive(keys));
        },
      ),
      { numRuns: 300 },
    );
  });
});

function naive(keys: readonly number[]): DuplicateAnswer {
  const first = new Map<number, number>();
  for (const [index, key] of keys.entries()) {
    if (key === -1) continue;
    const firstLine = first.get(key);
    if (firstLine !== undefined)
      return { kind: "duplicate", key: `key ${key}`, firstLine, secondLine: index + 1 };
    first.set(key, index + 1);
  }
  return { kind: "unique", lines: keys.length };
}

/** A broken line begins like one with the key `key 1`, so that the fast pass takes it for one. */
async function* blocksOf(keys: readonly number[], blockLines: number): AsyncGenerator<ReaderEvent> {
  let offset = 0;
  for (let from = 0; from < keys.length; from += blockLines) {
    const some = keys.slice(from, from + blockLines);
    const lines = some.map((key) =>
      key === -1 ? '{"key":"key 1",\n' : `{"key":"key ${key}","request":{}}\n`,
    );
    const bytes = new Uint8Array(Buffer.from(lines.join("")));
    yield { kind: "block", block: { bytes, offset, firstLine: from + 1, lineCount: some.length } };
    offset += bytes.byteLength;
  }
}

/** A measurer whose hashes keep only their lowest bits. */
function weakMeasurer(bits: number): Measurer {
  return {
    concurrency: 3,
    measure: () => Promise.reject(new Error("not asked for")),
    scanKeys: async (block, options) => {
      if (bits === 64) return scanKeys(block, options);
      // A filter is of this measurer's hashes, whose high halves are all 0: it holds every key.
      const columns = scanKeys(block, { wantKeys: options?.wantKeys });
      const hashes = columns.hashes.map((word, index) => (index % 2 === 0 ? 0 : word & (2 ** bits - 1)));
      return { ...columns, hashes };
    },
    close: async () => undefined,
  };
}
