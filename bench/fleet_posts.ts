/**
 * Durable POSTs of one item through workers on PostgreSQL: one request a POST, one after another on each connection.
 *
 *   npm run build
 *   node --import tsx bench/fleet_posts.ts [--workers 1] [--connections 32] [--warm 10000] [--seconds 10] [--projects 1] [--round-trip 0]
 *
 * As `npm run bench -- service`: `POST /v0/infer/` with an sla, acknowledged when it is committed, while the items are answered (by the built-in
 * `echo`). With several workers, the connections are spread over them, and a worker passes on what is at home elsewhere. Wanted: 1,500 a second, and
 * at most 256 MiB for a worker. The generator (a process of its own) and PostgreSQL share the machine.
 */
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { connectPg } from "../src/store/postgres/pg_session.ts";
import { BenchFleet } from "./shared/fleet.ts";
import { load } from "./shared/load_connection.ts";

const SELF = fileURLToPath(import.meta.url);
/** What the generator sends when the seconds begin that count. */
const WARM = "warm";

interface Posting {
  readonly urls: readonly string[];
  readonly keys: readonly string[];
  readonly connections: number;
  /** Answered before the seconds that count: a worker that has just started compiles, and a slower one would compile longer. */
  readonly warmPosts: number;
  readonly seconds: number;
}

/** Since the start. */
interface Used {
  readonly commits: number;
  readonly workers: number;
  readonly server: number;
}

interface Posted {
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
  readonly statuses: Readonly<Record<string, number>>;
}

if (process.send !== undefined) process.once("message", (posting) => void generate(posting as Posting));
else await main();

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      workers: { type: "string", default: "1" },
      connections: { type: "string", default: "32" },
      warm: { type: "string", default: "10000" },
      seconds: { type: "string", default: "10" },
      projects: { type: "string", default: "1" },
      "round-trip": { type: "string", default: "0" }, // milliseconds to the database
    },
  });
  const fleet = await BenchFleet.open(process.env, Number(values["round-trip"]));
  try {
    await fleet.start(Number(values.workers));
    const posting: Posting = {
      urls: fleet.workers.map(({ url }) => url),
      keys: Array.from({ length: Number(values.projects) }, (_, index) => fleet.key(`project-${index}`)),
      connections: Number(values.connections),
      warmPosts: Math.max(1, Number(values.warm)),
      seconds: Number(values.seconds),
    };
    const session = await connectPg(fleet.store);
    const used = async (): Promise<Used> => {
      const { rows } = await session.query(
        "SELECT sum(commits)::bigint AS commits FROM perigee_partitions", // each commit of a partition counts itself
      );
      const [{ commits }] = rows as [{ readonly commits: number }]; // as selected
      return { commits, ...fleet.cpuSeconds() };
    };
    const child = fork(SELF, { execArgv: process.execArgv });
    let before = used();
    const { perSecond, p50, p99, statuses } = await new Promise<Posted>((resolve, reject) => {
      child.on("message", (message) => {
        if (message === WARM) before = used();
        else resolve(message as Posted); // as sent below
      });
      child.once("exit", (code) => reject(new Error(`the generator ended with ${code}`)));
      child.send(posting);
    });
    const [first, last] = [await before, await used()];
    session.end();
    const posts = perSecond * posting.seconds;
    const each = (count: number): string => (count / posts).toFixed(2);
    const spent = `workers ${each(1_000 * (last.workers - first.workers))}, PostgreSQL ${each(1_000 * (last.server - first.server))} ms; ${each(last.commits - first.commits)} commits`;
    console.log(
      `${values.workers} workers, ${values.connections} connections: ${perSecond.toFixed(0)} POSTs/s (p50 ${p50.toFixed(1)}, p99 ${p99.toFixed(1)} ms; ${JSON.stringify(statuses)}); a POST takes ${spent}; a worker took ${fleet.peakMib().toFixed(0)} MiB at most`,
    );
  } finally {
    await fleet.close();
  }
}

/** In the process of the load. */
async function generate({ urls, keys, connections, warmPosts, seconds }: Posting): Promise<void> {
  const item = { model: "echo:bench", input: "Name a river that flows through two countries.", sla: 1_440 };
  const body = JSON.stringify([item]);
  const statuses: Record<string, number> = {};
  const times: number[] = [];
  let left = warmPosts;
  let endMs = Number.POSITIVE_INFINITY;
  const onAnswer = (status: number, startMs: number, answeredMs: number): boolean => {
    left -= 1;
    if (left === 0) {
      process.send?.(WARM);
      endMs = answeredMs + seconds * 1_000;
    } else if (left < 0) {
      times.push(answeredMs - startMs);
      statuses[status] = (statuses[status] ?? 0) + 1;
    }
    return answeredMs < endMs;
  };
  const all = Array.from({ length: connections }, (_, index) => {
    const headers = {
      authorization: `Bearer ${keys[index % keys.length]}`,
      "content-type": "application/json",
    };
    const url = urls[index % urls.length] ?? "";
    return load({ url, method: "POST", path: "/v0/infer/", headers, body }, onAnswer);
  });
  await Promise.all(all);
  times.sort((one, other) => one - other);
  const at = (share: number): number => times[Math.floor(times.length * share)] ?? Number.NaN;
  process.send?.({
    perSecond: times.length / seconds,
    p50: at(0.5),
    p99: at(0.99),
    statuses,
  } satisfies Posted);
  process.disconnect();
}
