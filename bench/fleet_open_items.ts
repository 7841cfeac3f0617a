/**
 * Ten million open items in one database: how long a claim takes, and how long and how much memory a worker needs to adopt a partition with many
 * open posted items.
 *
 *   npm run build
 *   node --import tsx bench/fleet_open_items.ts [--tasks 1000] [--each 1000] [--shards 2000] [--lines 5000]
 *
 * 1. Two workers; tasks of `each` items are posted to one project, whose provider never answers: tasks x each open items in the log of one
 *    partition (1 M).
 * 2. The worker of that partition is killed. Until the other one answers for the project: its lease, and opening the partition. Wanted: 10 s.
 * 3. Both are killed. Shards x lines more items (10 M) wait as shards, which are a row for each 5,000 lines. One session claims. Wanted: 20 ms.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { parseArgs } from "node:util";
import { systemClock } from "../src/clock.ts";
import { FleetDatabase } from "../src/fleet/fleet_database.ts";
import { ShardRows } from "../src/fleet/shards/shard_rows.ts";
import { PgPartition } from "../src/store/postgres/pg_partition.ts";
import { connectPg } from "../src/store/postgres/pg_session.ts";
import { BenchFleet, type BenchWorker, providerEnv } from "./shared/fleet.ts";
import { usageOf } from "./shared/main_job.ts";

const { values } = parseArgs({
  options: {
    tasks: { type: "string", default: "1000" },
    each: { type: "string", default: "1000" },
    shards: { type: "string", default: "2000" },
    lines: { type: "string", default: "5000" },
  },
});
const CALLERS = 16;
const OWN_PART = 1_000_000;
const CLAIMS = 500;
const [tasks, each, shards] = [Number(values.tasks), Number(values.each), Number(values.shards)];

/** A provider that takes requests and never answers. */
const provider = createServer((request) => request.resume());
await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve));
const { port } = provider.address() as AddressInfo;
const fleet = await BenchFleet.open({ ...process.env, ...providerEnv(port) });
try {
  await fleet.start(2);
  await adoption();
  await claims();
} finally {
  provider.closeAllConnections();
  provider.close();
  await fleet.close();
}

async function adoption(): Promise<void> {
  const headers = { authorization: `Bearer ${fleet.key("bench")}`, "content-type": "application/json" };
  const [first] = fleet.workers as [BenchWorker]; // there are two
  const item = {
    model: "openai:gpt-test",
    input: "Name a river that flows through two countries.",
    sla: 1_440,
  };
  const body = JSON.stringify(Array(each).fill(item));
  const startMs = performance.now();
  let left = tasks;
  let task = "";
  const post = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      const posted = await fetch(`${first.url}/v0/infer/`, { method: "POST", headers, body });
      if (!posted.ok) throw new Error(`${posted.status} ${await posted.text()}`);
      task = ((await posted.json()) as { task_id: string }).task_id;
    }
  };
  await Promise.all(Array.from({ length: Math.min(CALLERS, tasks) }, post));
  const took = (performance.now() - startMs) / 1_000;
  console.log(
    `${tasks} x ${each} items posted in ${took.toFixed(1)} s; a worker took ${fleet.peakMib().toFixed(0)} MiB at most`,
  );
  const owner = await ownerOf("bench");
  const other = fleet.workers.find(({ pid }) => pid !== owner.pid) as BenchWorker; // there are two
  const idleKb = usageOf(other.pid).peakKb;
  process.kill(owner.pid, "SIGKILL");
  const killedMs = performance.now();
  for (;;) {
    const answer = await fetch(`${other.url}/v0/infer/task/${task}?limit=1`, { headers });
    const told = await answer.text();
    if (answer.ok) {
      const { counts } = JSON.parse(told) as { counts: { submitted: number } };
      if (counts.submitted !== each) throw new Error(told);
      break;
    }
    if (performance.now() - killedMs > 300_000) throw new Error(told);
  }
  const adopted = (performance.now() - killedMs) / 1_000;
  const peak = usageOf(other.pid).peakKb / 1_024;
  console.log(
    `adopted: the first answer came ${adopted.toFixed(1)} s after the kill (6 s of them for the lease); the worker took ${peak.toFixed(0)} MiB at most, ${(idleKb / 1_024).toFixed(0)} before`,
  );
}

/** The worker that owns the home of a project. */
async function ownerOf(project: string): Promise<BenchWorker> {
  const session = await connectPg(fleet.store);
  const { rows } = await session.query(
    "SELECT w.name FROM perigee_projects h JOIN perigee_partitions p ON p.part = h.part JOIN perigee_workers w ON w.id = p.owner WHERE h.project = $1",
    project,
  );
  session.end();
  const [{ name }] = rows as [{ readonly name: string }]; // as selected
  return fleet.workers[Number(name.replace("worker-", ""))] as BenchWorker; // as it was started
}

async function claims(): Promise<void> {
  for (const { pid } of fleet.workers) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It was killed before.
    }
  }
  const database = await FleetDatabase.open(fleet.store, systemClock);
  const { query } = database;
  await query(
    "INSERT INTO perigee_runs (id, name, options, input, unshared_lines) VALUES ('run', 'run', '{}', '', 0)",
  );
  await query(
    `INSERT INTO perigee_shards (run, index, first_line, lines, pieces, latest_start_ms)
     SELECT 'run', n, n * $2::bigint, $2::integer, 5, n FROM generate_series(1, $1::integer) AS n`,
    shards,
    Number(values.lines),
  );
  await new PgPartition(OWN_PART, "bench").take(query);
  const rows = await ShardRows.open(query, OWN_PART, "bench");
  const times: number[] = [];
  for (let claim = 0; claim < Math.min(CLAIMS, shards); claim += 1) {
    const startMs = performance.now();
    if ((await rows.claim(1)) !== 1) throw new Error("nothing was claimed");
    times.push(performance.now() - startMs);
  }
  times.sort((one, other) => one - other);
  const at = (share: number): string => `${times[Math.floor(times.length * share)]?.toFixed(1)} ms`;
  const items = (shards * Number(values.lines) + tasks * each) / 1e6;
  console.log(
    `${items.toFixed(1)} M open items (${tasks * each} posted, ${shards} shards): a claim takes p50 ${at(0.5)}, p99 ${at(0.99)}, most ${at(0.9999)}`,
  );
  database.close();
}
