/**
 * Claims of shards a second, singly and by eights, by four sessions at once on a real PostgreSQL.
 *
 *   node --import tsx bench/shard_claims.ts [waiting] [seconds]
 */
import { systemClock } from "../src/clock.ts";
import { FleetDatabase } from "../src/fleet/fleet_database.ts";
import { ShardRows } from "../src/fleet/shards/shard_rows.ts";
import { PgPartition } from "../src/store/postgres/pg_partition.ts";
import { PostgresServer } from "../test/postgres_server.ts";

const SESSIONS = 4;
const [waiting = "100000", seconds = "5"] = process.argv.slice(2);
const postgres = await PostgresServer.start();
const url = await postgres.freshUrl();
const databases = await Promise.all(
  Array.from({ length: SESSIONS }, () => FleetDatabase.open(url, systemClock)),
);
const [{ query }] = databases as [FleetDatabase]; // there are four
const workers = await Promise.all(
  databases.map(async (database, index) => {
    await new PgPartition(index + 1, "bench").take(database.query);
    return ShardRows.open(database.query, index + 1, "bench");
  }),
);
for (const each of [1, 8]) {
  await query("TRUNCATE perigee_shards");
  await query(
    `INSERT INTO perigee_shards (run, index, first_line, lines, pieces, latest_start_ms)
     SELECT 'run-' || n % 10, n, 1, 1000, 1, n % 1000 FROM generate_series(1, $1::integer) AS n`,
    Number(waiting),
  );
  await query("ANALYZE perigee_shards");
  const startedMs = performance.now();
  const times: number[] = [];
  let claimed = 0;
  await Promise.all(
    workers.map(async (rows) => {
      while (performance.now() - startedMs < Number(seconds) * 1_000) {
        const beforeMs = performance.now();
        const count = await rows.claim(each);
        if (count === 0) return;
        times.push(performance.now() - beforeMs);
        claimed += count;
      }
    }),
  );
  const tookMs = performance.now() - startedMs;
  times.sort((one, other) => one - other);
  const at = (share: number): string => `${times[Math.floor(times.length * share)]?.toFixed(1)} ms`;
  console.log(
    `${waiting} waiting, by ${each}: ${Math.round((claimed * 1_000) / tookMs)} shards/s (p50 ${at(0.5)}, p99 ${at(0.99)} a claim)`,
  );
}
for (const database of databases) database.close();
await postgres.remove();
