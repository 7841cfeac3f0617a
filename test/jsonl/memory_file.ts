import type { DiskFile } from "../../src/disk.ts";
import type { ReaderEvent } from "../../src/jsonl/block.ts";
import { type ReadOptions, readBlocks } from "../../src/jsonl/read.ts";

/** A file whose bytes are computed: nothing is stored. Writing to it is a mistake of the test. */
export function computedFile(
  sizeBytes: number,
  fill: (into: Uint8Array, position: number) => void,
): DiskFile {
  const refuse = (): Promise<never> => Promise.reject(new Error("read only"));
  return {
    async read(into, position) {
      const got = Math.max(0, Math.min(into.byteLength, sizeBytes - position));
      if (got > 0) fill(into.subarray(0, got), position);
      return got;
    },
    sizeBytes: async () => sizeBytes,
    close: async () => undefined,
    write: refuse,
    sync: refuse,
    truncate: refuse,
  };
}

export function fileOf(content: string | Uint8Array): DiskFile {
  const bytes = Buffer.from(content as Uint8Array);
  return computedFile(bytes.length, (into, position) =>
    into.set(bytes.subarray(position, position + into.length)),
  );
}

export async function eventsOf(
  content: string | Uint8Array,
  options: ReadOptions = {},
): Promise<ReaderEvent[]> {
  return collect(readBlocks(fileOf(content), options));
}

export async function collect<T>(source: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const one of source) all.push(one);
  return all;
}
