/**
 * What people run such a job with today, in the same way as bench/jobs/engine.ts: each rival is a process of its own that
 * reads the same lines of 600 bytes, sends each to the same local provider and writes one line a key.
 *
 *   npm ci --prefix bench/rivals
 *   npm run bench -- rivals --provider "FAST_PROVIDER --latency 50" [--only undici,ai_sdk] [--lines 100000] [--inflight 512] [--rounds 1]
 *
 * `FAST_PROVIDER` is any OpenAI-compatible server program that takes `--port`. Prints one line of JSON per run: items per
 * second from start to exit, CPU microseconds an item over all threads, peak resident memory. A rival that would take
 * minutes gets fewer lines: `lines` says how many. BullMQ needs `redis-server` on the path; Redis counts apart.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { freePort, startProvider, usageOf, writeInput } from "../shared/main_job.ts";
import { checkOutput, type RivalOptions, runRival } from "../shared/rival.ts";

/** The file in bench/rivals; the most lines that it is given, so that each ends within a minute. */
const RIVALS: Readonly<Record<string, number>> = {
  undici: 100_000,
  openai_p_limit: 50_000,
  openai_p_map: 50_000,
  ai_sdk: 30_000,
  langchain: 30_000,
  bottleneck: 10_000,
  bullmq: 50_000,
};

const { values } = parseArgs({
  options: {
    provider: { type: "string" },
    only: { type: "string", default: Object.keys(RIVALS).join(",") },
    lines: { type: "string", default: "100000" },
    inflight: { type: "string", default: "512" },
    rounds: { type: "string", default: "1" },
  },
});

async function measure(name: string, port: number): Promise<Record<string, unknown>> {
  const lines = Math.min(Number(values.lines), RIVALS[name] ?? 0);
  const dir = mkdtempSync(join(tmpdir(), "perigee-bench-rival-"));
  const redis = name === "bullmq" ? await startRedis(dir) : undefined;
  try {
    const input = join(dir, "in.jsonl");
    await writeInput(input, lines);
    await fetch(`http://127.0.0.1:${port}/reset`);
    const options: RivalOptions = {
      input,
      output: join(dir, "out.jsonl"),
      baseUrl: `http://127.0.0.1:${port}/v1`,
      inFlight: Number(values.inflight),
      ...(redis === undefined ? {} : { redisPort: redis.port }),
    };
    const ran = await runRival(name, options);
    const stats = (await (await fetch(`http://127.0.0.1:${port}/stats`)).json()) as Record<string, number>;
    checkOutput(options.output, lines);
    return {
      rival: name,
      inFlight: options.inFlight,
      lines,
      itemsPerSecond: Math.round(lines / (ran.elapsedMs / 1_000)),
      cpuUsPerItem: perItem(ran.usage.cpuUs, lines),
      peakMb: Math.round(ran.usage.peakKb / 1_024),
      elapsedMs: Math.round(ran.elapsedMs),
      doubled: stats["dupOk"],
      peakAtProvider: stats["peak"],
      ...(redis === undefined ? {} : redisUsage(redis.process, lines)),
    };
  } finally {
    redis?.process.kill();
    rmSync(dir, { recursive: true, force: true });
  }
}

/** A Redis of its own, durable to a second as BullMQ's guide asks for. */
async function startRedis(dir: string): Promise<{ readonly process: ChildProcess; readonly port: number }> {
  const port = await freePort();
  const flags = ["--port", String(port), "--dir", dir, "--save", "", "--appendonly", "yes"];
  const redis = spawn("redis-server", flags, { stdio: "ignore" });
  await new Promise<void>((resolve, reject) => redis.on("spawn", resolve).on("error", reject));
  await sleep(500);
  return { process: redis, port };
}

function redisUsage(redis: ChildProcess, lines: number): Record<string, number> {
  const { cpuUs, peakKb } = usageOf(redis.pid ?? 0);
  return {
    redisCpuUsPerItem: perItem(cpuUs, lines),
    redisPeakMb: Math.round(peakKb / 1_024),
  };
}

function perItem(cpuUs: number, lines: number): number {
  return Math.round((cpuUs / lines) * 10) / 10;
}

const port = await freePort();
const provider = await startProvider(values.provider, port);
try {
  for (let round = 0; round < Number(values.rounds); round += 1) {
    for (const name of values.only.split(",")) console.log(JSON.stringify(await measure(name, port)));
  }
} finally {
  provider.kill();
}
