/**
 * Four workers on PostgreSQL against one process on SQLite: the same lines, from the start of the command to its end, in turn.
 *
 *   npm run build
 *   node --import tsx bench/fleet_speed.ts [--lines 100000] [--workers 4] [--inflight 512] [--latency 20] [--rounds 3] [--alone]
 *
 * All processes share the machine: the workers, PostgreSQL, the command, and a local provider. Prints lines a second, their ratio (wanted: at
 * least 0.4 on two cores), the processor time of each side, and the most memory that a worker took (wanted: at most 256 MiB).
 */
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { BenchFleet, MAIN } from "./shared/fleet.ts";
import { freePort, startProvider, usageOf, writeInput } from "./shared/main_job.ts";

const LOOK_MS = 50;

const { values } = parseArgs({
  options: {
    lines: { type: "string", default: "100000" },
    workers: { type: "string", default: "4" },
    inflight: { type: "string", default: "512" },
    latency: { type: "string", default: "20" },
    rounds: { type: "string", default: "3" },
    alone: { type: "boolean", default: false },
  },
});
const lines = Number(values.lines);
const dir = mkdtempSync(join(tmpdir(), "perigee-bench-input-"));
const input = join(dir, "in.jsonl");
await writeInput(input, lines);
const port = await freePort();
const env = {
  ...process.env,
  PERIGEE_PROVIDER_OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1`,
  PERIGEE_PROVIDER_OPENAI_KEY: "bench",
  PERIGEE_LIMIT_OPENAI_RPM: "90000000",
  PERIGEE_LIMIT_OPENAI_TPM: "900000000",
  PERIGEE_MAX_INFLIGHT: values.inflight,
};
const provider = await startProvider(
  `${process.execPath} --import tsx ${join(import.meta.dirname, "shared/local_provider.ts")} --latency ${values.latency}`,
  port,
);
try {
  for (let round = 0; round < Number(values.rounds); round += 1) {
    const one = values.alone ? { seconds: Number.NaN, cpu: Number.NaN } : await oneProcess(round);
    const { seconds, told } = await fleet(round);
    console.log(
      `one process ${rate(one.seconds)} (processor time ${one.cpu.toFixed(1)} s), ${values.workers} workers ${rate(seconds)}, ratio ${(one.seconds / seconds).toFixed(2)}; ${told}`,
    );
  }
} finally {
  provider.kill();
  rmSync(dir, { recursive: true, force: true });
}

function rate(seconds: number): string {
  return `${(lines / seconds).toFixed(0)} lines/s`;
}

async function oneProcess(round: number): Promise<Spent> {
  const data = join(dir, `data-${round}`);
  const spent = await command(["--data", data], join(dir, `one-${round}.jsonl`));
  rmSync(data, { recursive: true, force: true });
  return spent;
}

async function fleet(round: number): Promise<{ readonly seconds: number; readonly told: string }> {
  const fleet = await BenchFleet.open(env);
  try {
    await fleet.start(Number(values.workers));
    const before = fleet.cpuSeconds();
    const out = join(dir, `fleet-${round}.jsonl`);
    const { seconds, cpu } = await command(["--store", fleet.store, "--objects", fleet.objects], out);
    const after = fleet.cpuSeconds();
    const parts = [after.workers - before.workers, after.server - before.server, cpu];
    const [workers, server, client] = parts.map((part) => `${part.toFixed(1)} s`);
    const told = `processor time: workers ${workers}, PostgreSQL ${server}, command ${client}, in ${seconds.toFixed(1)} s`;
    return { seconds, told: `${told}; a worker took ${fleet.peakMib().toFixed(0)} MiB at most` };
  } finally {
    await fleet.close();
  }
}

interface Spent {
  readonly seconds: number;
  /** Seconds of processor time, but for the last 50 ms. */
  readonly cpu: number;
}

/** Runs the command to its end, and counts its lines. */
async function command(places: readonly string[], out: string): Promise<Spent> {
  const startMs = performance.now();
  const child = spawn(
    process.execPath,
    [MAIN, "run", input, "--out", out, "--no-config", "--json", ...places],
    {
      stdio: "ignore",
      env,
    },
  );
  let cpu = 0;
  const looking = setInterval(() => {
    if (child.exitCode === null) cpu = lookedAt(child.pid ?? 0) ?? cpu;
  }, LOOK_MS);
  const code = await new Promise((resolve) => child.on("exit", resolve));
  clearInterval(looking);
  const seconds = (performance.now() - startMs) / 1_000;
  if (code !== 0) throw new Error(`the run ended with ${code}`);
  const answered = readFileSync(out, "latin1").split("\n").length - 1;
  if (answered !== lines) throw new Error(`${answered} of ${lines} lines were answered`);
  rmSync(out);
  return { seconds, cpu };
}

/** Undefined when the process has just ended. */
function lookedAt(pid: number): number | undefined {
  try {
    return usageOf(pid).cpuUs / 1e6;
  } catch {
    return undefined;
  }
}
