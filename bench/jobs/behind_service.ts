/**
 * The engine behind the service against the file run: the same lines, uploaded and submitted as one file, in turn.
 *
 *   npm run build
 *   npm run bench -- behind_service --provider "FAST_PROVIDER --latency 50" [--lines 40000] [--inflight 512] [--rounds 3]
 *
 * Items per second from the start of the command, and from the POST to the task's end, with starts and ends in them.
 * Wanted: the service reaches at least 0.8 of the file run.
 */
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, openAsBlob, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { freePort, serviceOn, startProvider, writeInput } from "../shared/main_job.ts";

const { values } = parseArgs({
  options: {
    provider: { type: "string" },
    lines: { type: "string", default: "40000" },
    inflight: { type: "string", default: "512" },
    rounds: { type: "string", default: "3" },
  },
});
if (values.provider === undefined) throw new Error('--provider "PROGRAM OPTIONS" is missing');
const MAIN = "dist/cli/main.js";
const lines = Number(values.lines);
const port = await freePort();
const env = {
  ...process.env,
  PERIGEE_PROVIDER_OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1`,
  PERIGEE_PROVIDER_OPENAI_KEY: "bench",
  PERIGEE_LIMIT_OPENAI_RPM: "90000000",
  PERIGEE_LIMIT_OPENAI_TPM: "900000000",
  PERIGEE_MAX_INFLIGHT: values.inflight,
};

async function fileRun(input: string, dir: string): Promise<number> {
  const startMs = performance.now();
  const args = [MAIN, "run", input, "--out", join(dir, "out.jsonl"), "--json"];
  const child = spawn(process.execPath, args, { stdio: "ignore", env });
  const code = await new Promise((resolve) => child.on("exit", resolve));
  if (code !== 0) throw new Error(`the run ended with ${code}`);
  return lines / ((performance.now() - startMs) / 1_000);
}

async function throughService(input: string, dir: string): Promise<number> {
  const service = await serviceOn(dir, env);
  try {
    const headers = { authorization: `Bearer ${service.key}` };
    const form = new FormData();
    form.append("file", await openAsBlob(input), "in.jsonl");
    const uploaded = await fetch(`${service.url}/v0/files/in.jsonl`, { method: "PUT", headers, body: form });
    const { file_id } = (await uploaded.json()) as { file_id: string };
    const startMs = performance.now();
    const posted = await fetch(`${service.url}/v0/infer/`, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json" },
      body: JSON.stringify([{ file_id, sla: 1_440 }]),
    });
    const { task_id } = (await posted.json()) as { task_id: string };
    for (;;) {
      const polled = await fetch(`${service.url}/v0/infer/task/${task_id}?limit=1`, { headers });
      const task = (await polled.json()) as { status: string; counts: { completed: number } };
      if (task.status !== "submitted") {
        if (task.counts.completed !== lines) throw new Error(JSON.stringify(task.counts));
        return lines / ((performance.now() - startMs) / 1_000);
      }
      await sleep(50);
    }
  } finally {
    await service.stop();
  }
}

const provider = await startProvider(values.provider, port);
const inputDir = mkdtempSync(join(tmpdir(), "perigee-bench-input-"));
try {
  execFileSync(process.execPath, [MAIN, "--version"]); // fails early without a build
  const input = join(inputDir, "in.jsonl");
  await writeInput(input, lines);
  for (let round = 0; round < Number(values.rounds); round += 1) {
    const rates: number[] = [];
    for (const measure of [fileRun, throughService]) {
      const dir = mkdtempSync(join(tmpdir(), "perigee-bench-"));
      await fetch(`http://127.0.0.1:${port}/reset`);
      rates.push(await measure(input, dir));
      rmSync(dir, { recursive: true, force: true });
    }
    const [run = Number.NaN, service = Number.NaN] = rates;
    console.log(
      `file run ${Math.round(run)}/s, service ${Math.round(service)}/s, ratio ${(service / run).toFixed(2)}`,
    );
  }
} finally {
  provider.kill();
  rmSync(inputDir, { recursive: true, force: true });
}
