/**
 * Measuring and packing: a line as columns and a request body, items as shards, keys that must differ.
 *
 * Bounds: 12 us of CPU to measure a line, 0.3 us to pack it, 0.1 us to see its key.
 */
import type { Block } from "../../src/jsonl/block.ts";
import type { MeasuredBlock } from "../../src/shard/measured.ts";
import { Packer } from "../../src/shard/pack.ts";
import { createInlineMeasurer } from "../../src/shard/pool.ts";
import { SeenKeys } from "../../src/shard/streaming_keys.ts";
import type { PartBench } from "../shared/harness.ts";
import { linesOf } from "../shared/lines.ts";

const BLOCKS = 16;
const LINES = 256;
const KEYS = 200_000;

export async function open(): Promise<PartBench> {
  const measurer = createInlineMeasurer({
    providers: [{ name: "openai", protocol: "openai", baseUrl: "https://api.openai.com/v1" }],
    lineBytesMax: 10 << 20,
    depthMax: 64,
    keyBytesMax: 512,
  });
  const bytes = linesOf("interface", LINES);
  const block = (): Block => ({ bytes: new Uint8Array(bytes), offset: 0, firstLine: 1, lineCount: LINES });
  const measure = (): Promise<MeasuredBlock> => measurer.measure(block(), { wantBodies: true });
  const measured = await Promise.all(Array.from({ length: BLOCKS }, measure));
  const bodies = measured.map(({ keys, bodies: prepared }) => [keys, prepared].flatMap((each) => each ?? []));
  return {
    parts: [
      {
        name: "pack: measure a line, its body too",
        of: "line",
        calls: LINES,
        run: measure,
        beside: { name: "JSON.parse of the block", run: () => parsed(bytes) },
      },
      {
        name: "pack: into shards",
        of: "line",
        calls: LINES * BLOCKS,
        run: () => {
          const packer = new Packer();
          for (const each of measured) packer.add(each);
          return packer.flush();
        },
        beside: { name: "a copy of keys and bodies", run: () => bodies.map((each) => Buffer.concat(each)) },
      },
      {
        name: "pack: a key among 200,000",
        of: "key",
        calls: KEYS,
        run: () => {
          const seen = new SeenKeys(KEYS);
          for (let key = 0; key < KEYS; key += 1) seen.add(...hashes(key));
        },
        beside: {
          name: "Set of numbers",
          run: () => {
            const seen = new Set<number>();
            for (let key = 0; key < KEYS; key += 1) seen.add(hashes(key)[0]);
            return seen.size;
          },
        },
      },
    ],
    close: () => measurer.close(),
  };
}

function parsed(bytes: Buffer): number {
  return bytes
    .toString()
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as unknown).length;
}

function hashes(key: number): [number, number] {
  return [Math.imul(key, 0x9e3779b1) >>> 0, Math.imul(key + 7, 0x85ebca6b) >>> 0];
}
