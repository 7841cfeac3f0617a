/**
 * The output of a run on the disk of a partition: lines of 500 bytes, synced each 64 KiB or as given, then read again from the start.
 *
 *   node --import tsx bench/partition_files.ts folder|rows|shared|bucket [lines] [bytes a sync]     (after `npm run build`)
 *
 * `folder`: this machine's disk; the others PostgreSQL with objects as rows, in a shared folder, in a bucket of a server in Node.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { type Disk, systemDisk } from "../src/disk.ts";
import { openObjects } from "../src/store/objects/open_objects.ts";
import { openPartitionDisk } from "../src/store/objects/partition_disk.ts";
import { openPostgresStore } from "../src/store/postgres/postgres.ts";
import { PostgresServer } from "../test/postgres_server.ts";
import { startS3 } from "../test/satellites/builtin/s3_server.ts";

const LINE_BYTES = 500;
const READ_BYTES = 256 << 10;

const [place = "folder", count = "1000000", each = "65536"] = process.argv.slice(2);
const SYNC_BYTES = Number(each);
const folder = mkdtempSync(join(tmpdir(), "perigee-files-"));
const { disk, close } = await opened();
const total = Number(count) * LINE_BYTES;
const bytes = Buffer.alloc(SYNC_BYTES, `${"x".repeat(LINE_BYTES - 1)}\n`);
let memory = 0;
const note = (): void => {
  memory = Math.max(memory, process.memoryUsage.rss());
};

const file = await disk.open(join(folder, "out"), "write");
const began = performance.now();
const waits: number[] = [];
for (let at = 0; at < total; at += SYNC_BYTES) {
  const before = performance.now();
  await file.write(bytes.subarray(0, Math.min(SYNC_BYTES, total - at)), at);
  await file.sync();
  waits.push(performance.now() - before);
  note();
}
await file.close();
const written = performance.now();
const reading = await disk.open(join(folder, "out"), "read");
const into = new Uint8Array(READ_BYTES);
for (let at = 0; at < total; at += READ_BYTES) {
  await reading.read(into, at);
  note();
}
const read = performance.now();
await reading.close();
await close();
rmSync(folder, { recursive: true, force: true });
waits.sort((one, other) => one - other);
const perSecond = (ms: number): string => `${(total / 1e6 / (ms / 1e3)).toFixed(1)} MB/s`;
console.log(
  `${place}: ${count} lines written at ${perSecond(written - began)} (sync p50 ${waits[waits.length >> 1]?.toFixed(2)} ms, p99 ${waits[Math.floor(waits.length * 0.99)]?.toFixed(1)} ms), read at ${perSecond(read - written)}, memory ${(memory / (1 << 20)).toFixed(0)} MiB`,
);

async function opened(): Promise<{ readonly disk: Disk; readonly close: () => Promise<void> }> {
  if (place === "folder") return { disk: systemDisk, close: async () => undefined };
  const postgres = await PostgresServer.start();
  const url = await postgres.freshUrl();
  const s3 = place === "bucket" ? await startS3() : undefined;
  const objects = await openObjects({
    url:
      place === "rows"
        ? url
        : place === "shared"
          ? pathToFileURL(join(folder, "objects")).href
          : "s3://one/bench",
    env: { AWS_ENDPOINT_URL: s3?.endpoint, AWS_ACCESS_KEY_ID: "S3RVER", AWS_SECRET_ACCESS_KEY: "S3RVER" },
  });
  const store = await openPostgresStore({ url });
  const disk = await openPartitionDisk({ store, objects, root: folder });
  return {
    disk,
    close: async () => {
      await disk.close();
      await store.close();
      await objects.close();
      await s3?.close();
      await postgres.remove();
    },
  };
}
