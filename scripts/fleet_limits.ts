/**
 * One limit over processes that are killed, stopped and have wrong clocks: `npm run fleet:limits -- --runs 1-100`, 2.2 minutes a run. Prints a line for
 * each run. Ends with 1 if a window of 60 s had more than the limit, or if the windows after the start had less than 97 % of it on average, and with 2
 * without PostgreSQL.
 *
 *   --runs 1-100      which seeds
 *   --beside 1        so many runs at once, over one PostgreSQL
 *   --processes 8     that share a limit
 *   --per-minute 6000 requests
 *   --calm            without faults
 */
import { mkdtempSync, rmSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { compiledProgram } from "../test/compiled_program.ts";
import { type LimitReport, limitRun } from "../test/faults/fleet_limit_runs/limit_run.ts";
import { POSTGRES, PostgresServer } from "../test/postgres_server.ts";

const RUN_MS = 130_000;
const LEAST_USED = 0.97;

const { values } = parseArgs({
  options: {
    runs: { type: "string", default: "1-100" },
    beside: { type: "string", default: "1" },
    processes: { type: "string", default: "8" },
    "per-minute": { type: "string", default: "6000" },
    calm: { type: "boolean", default: false },
  },
});

if (!POSTGRES.isThere) {
  process.stderr.write(`no PostgreSQL: ${POSTGRES.install}\n`);
  process.exit(2);
}
const [first = 1, last = first] = values.runs.split("-").map(Number);
const folder = mkdtempSync(join(tmpdir(), "perigee-limits-"));
const source = fileURLToPath(new URL("../test/faults/fleet_limit_runs/limit_program.ts", import.meta.url));
const program = compiledProgram(source, folder);
const postgres = await PostgresServer.start();
const reports: LimitReport[] = [];
let next = first;

async function someRuns(): Promise<void> {
  while (next <= last) {
    const seed = next;
    next += 1;
    const url = await postgres.freshUrl();
    const terms = { url, program, processes: Number(values.processes), runMs: RUN_MS, isCalm: values.calm };
    const report = await limitRun(seed, { ...terms, perMinute: Number(values["per-minute"]) });
    reports.push(report);
    show(report);
  }
}

const isBroken = ({ fullest, used }: LimitReport): boolean => fullest > 1 || used < LEAST_USED;
const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

function show(report: LimitReport): void {
  const { seed, sent, fullest, emptiest, used, usedWithStart, doubled, lateMs, faults } = report;
  const uses = `${percent(used)} used (${percent(usedWithStart)} with their start)`;
  const windows = `windows of 60 s ${percent(emptiest)} to ${percent(fullest)}, ${uses}`;
  const word = isBroken(report) ? "BROKEN" : "ok";
  process.stdout.write(
    `run ${seed}: ${word}; ${sent} sent, ${windows}, ${doubled} doubled, noticed ${lateMs.toFixed(0)} ms late at most; ${faults}; load ${loadavg()[0]?.toFixed(0)}\n`,
  );
}

try {
  await Promise.all(Array.from({ length: Number(values.beside) }, someRuns));
} finally {
  await postgres.remove();
  rmSync(folder, { recursive: true, force: true });
}
const broken = reports.filter(isBroken).length;
const least = Math.min(...reports.map(({ used }) => used));
const fullest = Math.max(...reports.map((report) => report.fullest));
process.stdout.write(
  `${reports.length} runs, ${broken} broken; the fullest window ${percent(fullest)}, at least ${percent(least)} used\n`,
);
process.exitCode = broken > 0 ? 1 : 0;
