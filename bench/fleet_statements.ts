/**
 * What the statements of a fleet cost the database: processor time of the server for each, and how long a caller waits.
 *
 *   npm run build
 *   node --import tsx bench/fleet_statements.ts [times each, 500] [only those with this in their names]
 *
 * One session at a time, on a real PostgreSQL with fsync on. The processor time is that of all processes of the server, so it holds on a busy
 * machine; the waits do not. `test/fleet_simulation/costs.ts` has what it printed.
 */
import { systemClock } from "../src/clock.ts";
import { FleetDatabase } from "../src/fleet/fleet_database.ts";
import { ShardRows } from "../src/fleet/shards/shard_rows.ts";
import { PgLimitPool } from "../src/fleet/shared/pg_limit_pool.ts";
import { readFleet, WorkerRows } from "../src/fleet/worker_rows.ts";
import { PgClock } from "../src/store/postgres/pg_clock.ts";
import { PgPartition } from "../src/store/postgres/pg_partition.ts";
import { openPostgresStore } from "../src/store/postgres/postgres.ts";
import { PostgresServer } from "../test/postgres_server.ts";

const [count = "500", only = ""] = process.argv.slice(2);
const postgres = await PostgresServer.start();
const url = await postgres.freshUrl();
const database = await FleetDatabase.open(url, systemClock);
const { query } = database;

await fleetReads();
await draws();
await shards();
await commits();
database.close();
await postgres.remove();

/** Repeats a step, and prints what one took. */
async function cost(name: string, step: () => Promise<unknown>, warmUp = 20): Promise<void> {
  if (!name.includes(only)) return;
  for (let done = 0; done < warmUp; done += 1) await step();
  const times: number[] = [];
  const before = postgres.cpuSeconds();
  const own = process.cpuUsage();
  while (times.length < Number(count)) {
    const startMs = performance.now();
    await step();
    times.push(performance.now() - startMs);
  }
  const { user, system } = process.cpuUsage(own);
  const server = (postgres.cpuSeconds() - before) / times.length;
  times.sort((one, other) => one - other);
  console.log(
    `${name.padEnd(58)} server ${(server * 1e6).toFixed(0).padStart(6)} us, caller ${((user + system) / times.length).toFixed(0).padStart(6)} us, wait p50 ${times[times.length >> 1]?.toFixed(2)} ms`,
  );
}

async function fleetReads(): Promise<void> {
  await cost("an empty statement", () => query("SELECT 1"));
  await cost("version of keys", () => query("SELECT keys_version FROM perigee_fleet"));
  for (const count of [10, 30, 100, 300]) {
    await query("DELETE FROM perigee_workers");
    await query("DELETE FROM perigee_partitions");
    await query(
      `INSERT INTO perigee_workers (id, name, address, role, version, lease_until)
       SELECT 'worker-' || n || '/0123abcd', 'worker-' || n, 'http://10.0.0.' || n || ':8081', 'all', '0.1.0', clock_timestamp() + interval '1 hour'
       FROM generate_series(1, $1::integer) AS n`,
      count,
    );
    await query(
      `INSERT INTO perigee_partitions (part, in_fleet, owner, epoch, lease_until)
       SELECT n, true, 'worker-' || n || '/0123abcd', 1, clock_timestamp() + interval '1 hour' FROM generate_series(1, $1::integer) AS n`,
      count,
    );
    await query("ANALYZE perigee_workers");
    const entry = { id: "worker-1/0123abcd", name: "worker-1", address: "http://10.0.0.1:8081" };
    const rows = new WorkerRows(query, { ...entry, role: "all", version: "0.1.0" }, new PgClock(systemClock));
    await cost(`heartbeat, then the fleet of ${count} workers read`, () => rows.beat(false));
    await cost(`the fleet of ${count} workers read`, () => readFleet(query));
  }
  const partition = new PgPartition(1_000, "bench");
  await partition.take(query);
  await cost("lease of a partition renewed", async () => {
    await partition.renew(query);
    partition.committed();
  });
}

async function draws(): Promise<void> {
  for (const [holders, quotaCount] of [
    [1, 1],
    [30, 1],
    [100, 1],
    [300, 1],
    [1, 6],
    [30, 6],
    [100, 6],
  ] as const) {
    const pool = new PgLimitPool(url);
    const asks = Array.from({ length: holders }, (_, index) => ({
      holder: `${String(index).padStart(8, "0")}-1111-4111-8111-111111111111`,
      ...{ spent: 0, unspent: 0, returned: [], wanted: 10, least: 1, limit: 1e9 },
    }));
    let drawn = 0;
    const quotas = Array.from(
      { length: quotaCount },
      (_, index) => `account-${holders}-${quotaCount} ${index}`,
    );
    const draw = (): Promise<unknown> => {
      const ask = asks[drawn % holders];
      drawn += 1;
      const sequence = Math.ceil(drawn / holders);
      return ask === undefined
        ? Promise.resolve()
        : pool.draw({
            blocks: quotas.map((quota) => ({
              quota,
              ask: { ...ask, sequence, spent: sequence === 1 ? 0 : 10 },
            })),
            places: [],
            works: [],
            facts: [],
          });
    };
    await cost(`draw from ${quotaCount} quotas that ${holders} processes share`, draw, 2 * holders);
    const { rows } = await query(
      "SELECT length(state) AS bytes FROM perigee_limits WHERE quota = $1",
      quotas[0] ?? "",
    );
    console.log(`  its state: ${(rows as { bytes: number }[])[0]?.bytes} bytes`);
    pool.close();
  }
}

async function shards(): Promise<void> {
  await new PgPartition(2_000, "bench").take(query);
  const rows = await ShardRows.open(query, 2_000, "bench");
  await cost("look for a shard, none waits", () => rows.claim(2));
  await query(
    `INSERT INTO perigee_runs (id, name, options, input, unshared_lines) VALUES ('run', 'run', '{}', '', 0)`,
  );
  await query(
    `INSERT INTO perigee_shards (run, index, first_line, lines, pieces, latest_start_ms)
     SELECT 'run', n, 1, 5000, 1, n FROM generate_series(1, 100000) AS n`,
  );
  await query("ANALYZE perigee_shards");
  let index = 0;
  await cost("shard claimed, 100,000 wait", () => {
    index += 1;
    return rows.claim(1);
  });
  await cost("claimed shards read", async () => (await rows.claimed()).length);
  const counts = JSON.stringify({ items: 5_000, text: "x".repeat(700) });
  await cost("progress of a shard noted", () => rows.note({ run: "run", index: 1 }, counts));
  let ended = 1;
  await cost("shard ended", () => {
    ended = Math.min(ended + 1, index);
    return rows.end({ run: "run", index: ended }, { state: "done", output: "o", counts, spentNano: 1 });
  });
}

/** What the engine does for items of a file: a journal entry, and lines of an output, in one commit. */
async function commits(): Promise<void> {
  const store = await openPostgresStore({ url, part: 3_000, owner: "bench" });
  const task = { id: "00000000-0000-4000-8000-000000000001", name: "bench", createdWallMs: 1, body: "{}" };
  await store.putTask(task);
  await store.files.change([{ kind: "make", id: 1, path: "out", modifiedMs: 1 }]);
  let sequence = 0;
  let end = 0;
  for (const items of [1, 8, 64]) {
    await cost(`commit of the intents of ${items} items`, () =>
      store.append([{ taskId: task.id, wallMs: 1, records: new Uint8Array(40 * items) }]),
    );
    await cost(`commit of the answers of ${items} items, 500 bytes each`, async () => {
      sequence += 1;
      const bytes = new Uint8Array(500 * items);
      const added = {
        sequence,
        start: end,
        storedBytes: bytes.length,
        sums: new Uint8Array(4),
        object: undefined,
      };
      end += bytes.length;
      const written = { sizeBytes: end, modifiedMs: 1, cutTo: undefined, removed: [], added: [added], bytes };
      await Promise.all([
        store.files.change([{ kind: "write", id: 1, ...written }]),
        store.append([{ taskId: task.id, wallMs: 1, records: new Uint8Array(120 * items) }]),
      ]);
    });
  }
  let number = 0;
  let entry = 0;
  for (const posts of [1, 8, 64]) {
    await cost(`commit of ${posts} posts of one item, 600 bytes each`, () => {
      const numbers = Array.from({ length: posts }, (_, index) => number + index + 1);
      number += posts;
      entry += 1;
      const same = <T>(value: T): T[] => numbers.map(() => value);
      return store.commitLog({
        ...{ outputs: [], names: [], bodies: [], erased: [], removed: [], sequence: entry, cutTo: 0 },
        accepted: {
          ...{ numbers, ids: numbers.map(String), projects: same(1), kinds: same(1), parents: same("") },
          ...{ createdWallMs: same(1), bodies: same("{}"), requestSizes: same(600) },
          requests: new Uint8Array(600 * posts),
        },
        dropped: { tasks: [], items: [] },
        answers: {
          ...{ tasks: [], items: [], recordSizes: [], textSizes: [] },
          ...{ records: new Uint8Array(), texts: new Uint8Array() },
        },
        records: new Uint8Array(80 * posts),
      });
    });
  }
  await store.close();
}
