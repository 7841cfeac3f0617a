/**
 * Fleets under faults: `npm run fleet:faults -- --seeds 1-200`, about half a minute a seed.
 *
 * Five seeds share a PostgreSQL and a set of workers (a group). Each seed draws a load and one to four faults from its number, and checks the
 * invariants after everything has healed (`test/faults/fleet_seeds`). Prints a line for each seed, and the faults and the problems of those that
 * broke an invariant. Ends with 1 if one did, and with 2 without PostgreSQL.
 *
 *   --seeds 1-200   which; a single one starts the fleet of its group
 *   --short         faults of at most 9 s, as in `npm test`
 *   --workers 2     how many, instead of 2 to 4 as a group draws: other faults are drawn then
 *   --trace         prints the faults of every seed
 */
import { loadavg } from "node:os";
import { parseArgs } from "node:util";
import { runGroup, SEEDS_A_GROUP } from "../test/faults/fleet_seeds/group_run.ts";
import type { SeedReport } from "../test/faults/fleet_seeds/seed_run.ts";
import { POSTGRES } from "../test/postgres_server.ts";

const RECOVERY_MS_MAX = 10_000;
const END_MS_MAX = 240_000;

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "1-200" },
    short: { type: "boolean", default: false },
    workers: { type: "string" },
    trace: { type: "boolean", default: false },
  },
});

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

function show(report: SeedReport): void {
  const {
    seed,
    tookMs,
    lines,
    posts,
    executions,
    sends,
    doubled,
    allowed,
    lapses,
    recoveryMs,
    trace,
    problems,
  } = report;
  const load = `${lines} lines, ${posts} posts, ${executions} executions, ${sends} sends`;
  const figures = `${doubled} of ${allowed} doubled, ${lapses} lapses, recovery ${(recoveryMs / 1_000).toFixed(1)} s, load ${loadavg()[0]?.toFixed(0)}`;
  say(
    `seed ${seed}: ${problems.length === 0 ? "ok" : "BROKEN"} in ${Math.round(tookMs / 1_000)} s; ${load}; ${figures}`,
  );
  if (values.trace || problems.length > 0) for (const line of trace) say(`  ${line}`);
  for (const problem of problems) say(`  BROKEN: ${problem}`);
}

if (!POSTGRES.isThere) {
  process.stderr.write(`no PostgreSQL: ${POSTGRES.install}\n`);
  process.exit(2);
}
const [first = 1, last = first] = values.seeds.split("-").map(Number);
const stopping = new AbortController();
for (const name of ["SIGINT", "SIGTERM"])
  process.once(name, () => stopping.abort(new Error(`ended by ${name}`)));
const workers = values.workers === undefined ? undefined : Number(values.workers);
const reports: SeedReport[] = [];
for (let seed = first; seed <= last; ) {
  const group = Math.ceil(seed / SEEDS_A_GROUP);
  const end = Math.min(last, group * SEEDS_A_GROUP);
  const seeds = Array.from({ length: end - seed + 1 }, (_, index) => seed + index);
  const terms = {
    group,
    seeds,
    isShort: values.short,
    workers,
    recoveryMsMax: RECOVERY_MS_MAX,
    endMsMax: END_MS_MAX,
    signal: stopping.signal,
  };
  reports.push(
    ...(await runGroup({
      ...terms,
      onReport: show,
      onNotice: say,
      ...(values.trace ? { onEvent: say } : {}),
    })),
  );
  seed = end + 1;
}
const broken = reports.filter(({ problems }) => problems.length > 0);
const longest = Math.max(...reports.map(({ recoveryMs }) => recoveryMs));
say(
  `${reports.length} seeds, ${broken.length} broken; the longest recovery took ${(longest / 1_000).toFixed(1)} s`,
);
process.exitCode = broken.length === 0 ? 0 : 1;
