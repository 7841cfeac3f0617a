/**
 * The whole main job as a process of its own, beside undici in a bare loop: lines of 600 bytes against a local provider.
 *
 *   npm run bench -- engine [--provider "PROGRAM --latency 50"] [--lines 100000] [--inflight 512,2048] [--rounds 3] [--alone]
 *
 * `PROGRAM` is any OpenAI-compatible server that takes `--port`; without one, `bench/shared/local_provider.ts`. Prints one line of
 * JSON for each run: items per second, CPU microseconds per item over all threads, peak resident memory, first request, event
 * loop delay, and how long the same command takes once all is done; then the table. `--alone` leaves undici out.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { median, type Row, report } from "../shared/harness.ts";
import { freePort, startProvider, usageOf, writeInput } from "../shared/main_job.ts";
import { checkOutput, runRival } from "../shared/rival.ts";

const { values } = parseArgs({
  options: {
    provider: { type: "string" },
    lines: { type: "string", default: "100000" },
    inflight: { type: "string", default: "512,2048" },
    rounds: { type: "string", default: "3" },
    profile: { type: "string" },
    alone: { type: "boolean" },
  },
});

async function runOnce(
  input: string,
  inFlight: number,
  port: number,
): Promise<Ran & Readonly<Record<string, unknown>>> {
  const dir = mkdtempSync(join(tmpdir(), "perigee-bench-"));
  const profile = values.profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${values.profile}`];
  const flags = ["--require", join(import.meta.dirname, "../shared/loop_delay.cjs"), ...profile];
  const delayFile = join(dir, "delay.json");
  await fetch(`http://127.0.0.1:${port}/reset`);
  const started = performance.now();
  const child = spawn(
    process.execPath,
    [...flags, "dist/cli/main.js", "run", input, "--out", join(dir, "out.jsonl"), "--json"],
    {
      stdio: ["ignore", "pipe", "inherit"],
      env: {
        ...process.env,
        PERIGEE_PROVIDER_OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1`,
        PERIGEE_PROVIDER_OPENAI_KEY: "bench",
        PERIGEE_LIMIT_OPENAI_RPM: "90000000",
        PERIGEE_LIMIT_OPENAI_TPM: "900000000",
        PERIGEE_MAX_INFLIGHT: String(inFlight),
        LOOP_DELAY_FILE: delayFile,
      },
    },
  );
  let out = "";
  child.stdout.on("data", (chunk: Buffer) => {
    out += chunk.toString();
  });
  let usage = { cpuUs: 0, peakKb: 0 };
  let firstMs = 0;
  const exited = new Promise<number | null>((resolve) => child.on("exit", resolve));
  let isOver = false;
  exited.then(() => {
    isOver = true;
  });
  while (!isOver) {
    if (existsSync(`/proc/${child.pid}/stat`)) {
      try {
        usage = usageOf(child.pid ?? 0);
      } catch {
        // it ended between the two looks
      }
    }
    if (firstMs === 0) {
      const stats = (await (await fetch(`http://127.0.0.1:${port}/stats`)).json()) as { req: number };
      if (stats.req > 0) firstMs = performance.now() - started;
    }
    await sleep(firstMs === 0 ? 5 : 25);
  }
  const elapsedMs = performance.now() - started;
  const summary = JSON.parse(out.trim().split("\n").at(-1) ?? "{}") as {
    items: number;
    counts: { completed: number };
  };
  const stats = (await (await fetch(`http://127.0.0.1:${port}/stats`)).json()) as Record<string, number>;
  const delay = JSON.parse(readFileSync(delayFile, "utf8")) as {
    readonly p99Ms: number;
    readonly maxMs: number;
  };
  const againMs = await runAgain(input, join(dir, "out.jsonl"));
  rmSync(dir, { recursive: true, force: true });
  const items = summary.counts.completed;
  return {
    inFlight,
    items,
    exit: await exited,
    itemsPerSecond: Math.round(items / (elapsedMs / 1_000)),
    sendingPerSecond: Math.round(stats["okps"] ?? 0),
    cpuUsPerItem: Math.round((usage.cpuUs / items) * 10) / 10,
    peakMb: Math.round(usage.peakKb / 1_024),
    firstRequestMs: Math.round(firstMs),
    elapsedMs: Math.round(elapsedMs),
    loopDelayP99Ms: delay.p99Ms,
    loopDelayMaxMs: delay.maxMs,
    againMs,
    doubled: stats["dupOk"],
    peakAtProvider: stats["peak"],
  };
}

/** The same command after its end: how long it takes to know that. */
async function runAgain(input: string, out: string): Promise<number> {
  const started = performance.now();
  const child = spawn(process.execPath, ["dist/cli/main.js", "run", input, "--out", out], {
    stdio: "ignore",
  });
  await new Promise((resolve) => child.on("exit", resolve));
  return Math.round(performance.now() - started);
}

/** undici in a bare loop over the same lines: what the wire takes, without limits, retries or state. */
async function bareLoop(input: string, inFlight: number, port: number): Promise<Ran> {
  const folder = mkdtempSync(join(tmpdir(), "perigee-bench-"));
  await fetch(`http://127.0.0.1:${port}/reset`);
  const output = join(folder, "out.jsonl");
  const lines = Number(values.lines);
  const { elapsedMs, usage } = await runRival("undici", {
    input,
    output,
    baseUrl: `http://127.0.0.1:${port}/v1`,
    inFlight,
  });
  checkOutput(output, lines);
  rmSync(folder, { recursive: true, force: true });
  return {
    itemsPerSecond: lines / (elapsedMs / 1_000),
    cpuUsPerItem: usage.cpuUs / lines,
    peakMb: usage.peakKb / 1_024,
  };
}

type Ran = Readonly<Record<"itemsPerSecond" | "cpuUsPerItem" | "peakMb", number>>;

function rowsOf(inFlight: number, own: readonly Ran[], bare: readonly Ran[]): readonly Row[] {
  const units = { itemsPerSecond: "items/s", cpuUsPerItem: "CPU us/item", peakMb: "MB at most" } as const;
  return Object.entries(units).map(([name, unit]) => ({
    name: `engine: ${inFlight} in flight`,
    median: median(own.map((ran) => ran[name as keyof Ran])),
    unit,
    beside: { name: "undici alone", median: median(bare.map((ran) => ran[name as keyof Ran])) },
  }));
}

const port = await freePort();
const provider = await startProvider(values.provider, port);
const dir = mkdtempSync(join(tmpdir(), "perigee-bench-input-"));
try {
  const input = join(dir, "in.jsonl");
  await writeInput(input, Number(values.lines));
  for (const inFlight of values.inflight.split(",").map(Number)) {
    const own: Ran[] = [];
    const bare: Ran[] = [];
    for (let round = 0; round < Number(values.rounds); round += 1) {
      const ran = await runOnce(input, inFlight, port);
      console.log(JSON.stringify(ran));
      own.push(ran);
      if (values.alone !== true) bare.push(await bareLoop(input, inFlight, port));
    }
    if (bare.length > 0) report(rowsOf(inFlight, own, bare));
  }
} finally {
  provider.kill();
  rmSync(dir, { recursive: true, force: true });
}
