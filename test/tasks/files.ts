/**
 * `Files` for tests: a disk and a store in memory that can crash, and small bounds.
 */
import { inlineScanner } from "../../src/shard/measurer.ts";
import { createFiles, type FilesOptions } from "../../src/tasks/files/file_store.ts";
import type { Files } from "../../src/tasks/files/files.ts";
import { type CrashableStore, createCrashableStore, FakeClock, MemoryDisk } from "../../src/testing/index.ts";

export class FileWorld {
  readonly clock = new FakeClock({ wallMs: 1_000 });
  readonly disk = new MemoryDisk();
  readonly store: CrashableStore = createCrashableStore({ random: () => 0 });

  async files(options: Partial<FilesOptions> = {}): Promise<Files> {
    return createFiles({
      store: options.store ?? (await this.store.open()),
      disk: this.disk,
      clock: this.clock,
      measurer: inlineScanner,
      dataDir: "/data",
      ...options,
    });
  }
}

/** A text as chunks of so many bytes. */
export async function* chunked(text: string | Uint8Array, chunkBytes = 7): AsyncGenerator<Uint8Array> {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += chunkBytes) yield bytes.subarray(at, at + chunkBytes);
}

export async function textOf(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  const all: Uint8Array[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return Buffer.concat(all).toString();
}

/** The lines of so many items. */
export function itemLines(count: number): string {
  return Array.from({ length: count }, (_, index) => `{"key":"k${index}","request":{}}\n`).join("");
}
