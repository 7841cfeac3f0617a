/**
 * What a durable step costs: `npm run build && npx tsx bench/store.ts [folder]`
 *
 * 1. The disk alone: write 16 KB and fdatasync.
 * 2. `append` of one entry of 16 KB, one after another, and 8 at a time: latency, and CPU of the main thread.
 * 3. 256 records as one blob against 256 rows, in one transaction each (docs/decisions/0004-journal.md).
 * 4. Reading a journal back.
 * 5. How long the event loop stands still during commits: in a thread, and on the main thread
 *    (docs/decisions/0007-sqlite-thread.md).
 * 6. `change` of one record with 500 bytes of payload by 64 callers, alone and with 64 others who read records
 *    meanwhile, as an HTTP service that is polled does: rates, and CPU of the whole process.
 */
import { closeSync, fdatasyncSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { crc32 } from "node:zlib";
import { openSqliteStore } from "../src/store/sqlite.ts";
import { loadSqlite } from "../src/store/sqlite_database.ts";

const folder = mkdtempSync(join(process.argv[2] ?? tmpdir(), "perigee-bench-"));
const records = new Uint8Array(16_384).fill(7);
const COMMITS = 1_000;

try {
  benchDisk();
  await benchAppend(1);
  await benchAppend(8);
  await benchRows();
  await benchLoop();
  await benchRecords(0);
  await benchRecords(64);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function benchDisk(): void {
  const file = openSync(join(folder, "raw"), "w");
  const latencies = Array.from({ length: COMMITS }, () =>
    timed(() => {
      writeSync(file, records);
      fdatasyncSync(file);
    }),
  );
  closeSync(file);
  report("disk alone: write 16 KB, fdatasync", latencies);
}

async function benchAppend(width: number): Promise<void> {
  const store = await openSqliteStore({ dataDir: join(folder, `append-${width}`) });
  for (let index = 0; index < COMMITS / 2; index += 1)
    await store.append([{ taskId: "a", wallMs: 0, records }]);
  const latencies: number[] = [];
  const began = performance.now();
  const beganCpuMs = mainThreadCpuMs();
  const loop = async (): Promise<void> => {
    for (let index = 0; index < COMMITS / width; index += 1) {
      const start = performance.now();
      await store.append([{ taskId: "a", wallMs: index, records }]);
      latencies.push(performance.now() - start);
    }
  };
  await Promise.all(Array.from({ length: width }, loop));
  const cpuUs = ((mainThreadCpuMs() - beganCpuMs) * 1_000) / COMMITS;
  report(`append of 16 KB, ${width} at a time`, latencies, performance.now() - began);
  console.log(`  main thread: ${cpuUs.toFixed(1)} us of CPU per append`);

  const startRead = performance.now();
  let bytes = 0;
  for await (const entry of store.journal("a")) bytes += entry.records.byteLength;
  const seconds = (performance.now() - startRead) / 1_000;
  console.log(`  journal read back, checked: ${(bytes / 1e6 / seconds).toFixed(0)} MB/s`);
  await store.close();
}

async function benchRows(): Promise<void> {
  const open = await loadSqlite();
  const database = open(join(folder, "rows.sqlite"));
  database.exec(`PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
    CREATE TABLE rows (task_id TEXT, item INTEGER, attempt INTEGER, kind INTEGER, crc INTEGER, record BLOB);
    CREATE UNIQUE INDEX by_item ON rows (task_id, item, attempt, kind);
    CREATE TABLE blobs (task_id TEXT, sequence INTEGER, crc INTEGER, records BLOB, UNIQUE (task_id, sequence));`);
  const row = database.prepare("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)");
  const blob = database.prepare("INSERT INTO blobs VALUES (?, ?, ?, ?)");
  const taskId = "0f8fad5b-d9cb-469f-a165-70867728950e";
  const asRows: number[] = [];
  const asBlob: number[] = [];
  const cpu = { rows: 0, blob: 0 };
  for (let commit = 0; commit < 300; commit += 1) {
    let before = mainThreadCpuMs();
    asRows.push(
      timed(() => {
        database.exec("BEGIN IMMEDIATE");
        for (let index = 0; index < 256; index += 1) {
          const record = records.subarray(index * 64, index * 64 + 64);
          row.run(taskId, (commit * 256 + index) * 7_919, 1, 1, crc32(record), record);
        }
        database.exec("COMMIT");
      }),
    );
    cpu.rows += mainThreadCpuMs() - before;
    before = mainThreadCpuMs();
    asBlob.push(
      timed(() => {
        database.exec("BEGIN IMMEDIATE");
        blob.run(taskId, commit, crc32(records), records);
        database.exec("COMMIT");
      }),
    );
    cpu.blob += mainThreadCpuMs() - before;
  }
  database.close();
  report("256 records as 256 rows", asRows);
  console.log(`  ${((cpu.rows * 1_000) / 300).toFixed(0)} us of CPU per commit`);
  report("256 records as one blob of 16 KB", asBlob);
  console.log(`  ${((cpu.blob * 1_000) / 300).toFixed(0)} us of CPU per commit`);
}

async function benchLoop(): Promise<void> {
  const store = await openSqliteStore({ dataDir: join(folder, "loop") });
  await stall("event loop delay, commits in a thread", () =>
    store.append([{ taskId: "a", wallMs: 0, records }]),
  );
  await store.close();
  const database = (await loadSqlite())(join(folder, "loop.sqlite"));
  database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE blobs (records BLOB)");
  const insert = database.prepare("INSERT INTO blobs VALUES (?)");
  await stall("event loop delay, commits on the main thread", async () => {
    insert.run(records);
    await new Promise((resolve) => setImmediate(resolve));
  });
  database.close();
}

async function benchRecords(readers: number): Promise<void> {
  const store = await openSqliteStore({ dataDir: join(folder, `records-${readers}`) });
  const payload = new Uint8Array(500).fill(65);
  const body = JSON.stringify({ status: "submitted", note: "x".repeat(150) });
  const put = (id: string): Promise<void> =>
    store.change([
      {
        kind: "put",
        record: {
          collection: "object",
          id,
          project: "p",
          parent: `of ${id}`,
          createdWallMs: 0,
          body,
          payload,
        },
      },
    ]);
  await put("polled");
  const done = { puts: 0, reads: 0 };
  const until = performance.now() + 4_000;
  const write = async (): Promise<void> => {
    for (; performance.now() < until; done.puts += 1) await put(crypto.randomUUID());
  };
  const read = async (): Promise<void> => {
    for (; performance.now() < until; done.reads += 1) await store.record("p", "object", "polled");
  };
  const cpu = process.cpuUsage();
  await Promise.all(
    Array.from({ length: 64 }, (_, index) => [write(), index < readers ? read() : undefined]).flat(),
  );
  const { user, system } = process.cpuUsage(cpu);
  console.log(
    `records, 64 callers that put 500 bytes and ${readers} that read: ${done.puts / 4} puts/s, ${done.reads / 4} reads/s, ` +
      `${((user + system) / (done.puts + done.reads)).toFixed(1)} us of CPU per call`,
  );
  await store.close();
}

async function stall(name: string, commit: () => Promise<void>): Promise<void> {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const until = performance.now() + 2_000;
  let commits = 0;
  for (; performance.now() < until; commits += 1) await commit();
  delay.disable();
  const ms = (ns: number): string => (ns / 1e6).toFixed(2);
  console.log(
    `${name}: p50 ${ms(delay.percentile(50))} p99 ${ms(delay.percentile(99))} max ${ms(delay.max)} ms, ${commits / 2} commits/s`,
  );
}

function timed(work: () => void): number {
  const start = performance.now();
  work();
  return performance.now() - start;
}

/** Time that the kernel has run this process's main thread, on Linux; elsewhere that of the whole process. */
function mainThreadCpuMs(): number {
  try {
    return Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, "utf8").split(" ")[0]) / 1e6;
  } catch {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1_000;
  }
}

function report(name: string, latenciesMs: readonly number[], tookMs?: number): void {
  const sorted = latenciesMs.toSorted((a, b) => a - b);
  const at = (share: number): string => (sorted[Math.floor(sorted.length * share)] ?? 0).toFixed(2);
  const total = tookMs ?? latenciesMs.reduce((sum, latency) => sum + latency, 0);
  const rate = (latenciesMs.length / total) * 1_000;
  console.log(`${name}: p50 ${at(0.5)} p99 ${at(0.99)} ms, ${rate.toFixed(0)}/s`);
}
