/**
 * Large uploads on a real disk: memory stays flat, and nobody else may read the bytes.
 */
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { systemDisk } from "../../src/disk.ts";
import { inlineScanner } from "../../src/shard/measurer.ts";
import { createFiles } from "../../src/tasks/files/file_store.ts";
import { createMemoryStore } from "../../src/testing/index.ts";

const MIB = 1024 * 1024;
const dataDir = mkdtempSync(join(tmpdir(), "perigee-files-"));
afterAll(() => rmSync(dataDir, { recursive: true, force: true }));

/** Different keys in lines of 512 bytes, 64 KiB at a time. */
async function* lines(bytes: number): AsyncGenerator<Uint8Array> {
  for (let line = 0; line * 512 < bytes; ) {
    const chunk = Buffer.alloc(65_536, 0x78);
    for (let at = 0; at < chunk.length; at += 512, line += 1) {
      chunk.write(`{"key":"${String(line).padStart(9, "0")}","text":"`, at);
      chunk.write('"}\n', at + 509);
    }
    yield chunk;
  }
}

it("takes 256 MiB in flat memory, in a file that its owner alone may read", async () => {
  const store = createMemoryStore();
  const files = await createFiles({
    store,
    disk: systemDisk,
    clock: systemClock,
    measurer: inlineScanner,
    dataDir,
  });
  const before = process.memoryUsage.rss();
  let peak = before;
  const watched = async function* (): AsyncGenerator<Uint8Array> {
    for await (const chunk of lines(256 * MIB)) {
      peak = Math.max(peak, process.memoryUsage.rss());
      yield chunk;
    }
    const watch = setInterval(() => {
      peak = Math.max(peak, process.memoryUsage.rss());
    }, 5);
    watch.unref();
  };
  const view = await files.put("p", { name: "large", purpose: "batch", chunks: watched() });
  peak = Math.max(peak, process.memoryUsage.rss());
  expect(view).toMatchObject({ bytes: 256 * MIB, items: 512 * 1_024 });
  expect((peak - before) / MIB).toBeLessThan(128);
  const index = await files.index("p", view.id);
  expect(index.lines).toHaveLength(525);
  expect(index.offsets[524]).toBe(524_000 * 512);
  expect(statSync(index.path).mode & 0o777).toBe(0o600);
  expect(statSync(join(dataDir, "files")).mode & 0o777).toBe(0o700);
}, 60_000);
