/**
 * `perigee run` on one machine, of this commit against an earlier one, in turn: whether the default became slower.
 *
 *   git worktree add ../before COMMIT && ln -s "$PWD/node_modules" ../before/node_modules && (cd ../before && npm run build)
 *   npm run build
 *   node --import tsx bench/default_run.ts --before ../before [--lines 20000] [--rounds 9] [--latency 5]
 *
 * The same lines, a local provider, SQLite. Prints for each pair the ratios (now to before) of processor time and of the time from start to
 * end, then their medians. Wanted: at most 1.03. Processor time also holds on a busy machine.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { freePort, startProvider, writeInput } from "./shared/main_job.ts";

const { values } = parseArgs({
  options: {
    before: { type: "string" },
    lines: { type: "string", default: "20000" },
    rounds: { type: "string", default: "9" },
    latency: { type: "string", default: "5" },
  },
});
if (values.before === undefined) throw new Error("--before FOLDER is missing");
const dir = mkdtempSync(join(tmpdir(), "perigee-bench-input-"));
const input = join(dir, "in.jsonl");
await writeInput(input, Number(values.lines));
const port = await freePort();
const env = {
  ...process.env,
  PERIGEE_PROVIDER_OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1`,
  PERIGEE_PROVIDER_OPENAI_KEY: "bench",
  PERIGEE_LIMIT_OPENAI_RPM: "90000000",
  PERIGEE_LIMIT_OPENAI_TPM: "900000000",
  PERIGEE_MAX_INFLIGHT: "512",
};

interface Spent {
  readonly seconds: number;
  readonly cpu: number;
}

const local = join(import.meta.dirname, "shared/local_provider.ts");
const provider: ChildProcess = await startProvider(
  `${process.execPath} --import tsx ${local} --latency ${values.latency}`,
  port,
);
try {
  const commands = [resolve("dist/cli/main.js"), join(resolve(values.before), "dist/cli/main.js")];
  for (const main of commands) await run(main); // warm disks and caches
  const ratios: Spent[] = [];
  for (let round = 0; round < Number(values.rounds); round += 1) {
    const order = round % 2 === 0 ? commands : commands.toReversed();
    const spent = new Map<string, Spent>();
    for (const main of order) spent.set(main, await run(main));
    const [now, before] = commands.map((main) => spent.get(main)) as [Spent, Spent]; // both were run
    const ratio = { seconds: now.seconds / before.seconds, cpu: now.cpu / before.cpu };
    ratios.push(ratio);
    console.log(
      `now ${now.cpu.toFixed(2)} s of processors, ${now.seconds.toFixed(2)} s; before ${before.cpu.toFixed(2)}, ${before.seconds.toFixed(2)}; ratios ${ratio.cpu.toFixed(3)}, ${ratio.seconds.toFixed(3)}`,
    );
  }
  const median = (of: (one: Spent) => number): string =>
    (ratios.map(of).toSorted((one, other) => one - other)[ratios.length >> 1] ?? Number.NaN).toFixed(3);
  console.log(
    `medians of ${ratios.length} pairs: processor time ${median(({ cpu }) => cpu)}, time ${median(({ seconds }) => seconds)}`,
  );
} finally {
  provider.kill();
  rmSync(dir, { recursive: true, force: true });
}

/** The processor time is that of this process's children that have ended: what the run adds to it. */
async function run(main: string): Promise<Spent> {
  await fetch(`http://127.0.0.1:${port}/reset`);
  const out = join(dir, "out.jsonl");
  const data = join(dir, "data");
  const before = endedCpu();
  const startMs = performance.now();
  const args = [main, "run", input, "--out", out, "--data", data, "--no-config", "--json"];
  const child = spawn(process.execPath, args, { stdio: "ignore", env });
  const code = await new Promise((done) => child.on("exit", done));
  const seconds = (performance.now() - startMs) / 1_000;
  if (code !== 0) throw new Error(`${main} ended with ${code}`);
  rmSync(out);
  rmSync(data, { recursive: true, force: true });
  return { seconds, cpu: endedCpu() - before };
}

/** Seconds of processor time of all children that have ended (proc(5): cutime and cstime, in ticks of 10 ms). */
function endedCpu(): number {
  const stat = readFileSync("/proc/self/stat", "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[13]) + Number(fields[14])) / 100;
}
