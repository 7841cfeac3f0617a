/**
 * The service over loopback: POST of one item (with an sla, acknowledged when synced), polls of a task of 1,000 objects,
 * 100,000 items in one POST. The load generator (`load_connection.ts`, in a process of its own) shares the machine.
 *
 *   npm run bench -- service [seconds]
 *
 * Targets on two cores: 5,000 POSTs/s with p99 under 20 ms, 2,000 polls/s, 100,000 items in 3 s.
 */
import { type ChildProcess, execFileSync, fork, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { report } from "../shared/harness.ts";
import { load as loadConnection } from "../shared/load_connection.ts";

const MAIN = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const SELF = fileURLToPath(import.meta.url);
const CONNECTIONS = 32;
const WANTED_P99_MS = 20;

interface Load {
  readonly url: string;
  readonly key: string;
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly body?: string;
  readonly etag?: string;
  readonly seconds: number;
}

if (process.send !== undefined) process.once("message", (load) => void generate(load as Load));
else await main(Number(process.argv[2] ?? 10));

async function main(seconds: number): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), "perigee-bench-"));
  const args = ["keys", "create", "--project", "bench", "--data", dir, "--json"];
  const { key } = JSON.parse(execFileSync(process.execPath, [MAIN, ...args], { encoding: "utf8" })) as {
    key: string;
  };
  const profile =
    process.env["PROFILE"] === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${process.env["PROFILE"]}`];
  const child = spawn(process.execPath, [...profile, MAIN, "serve", "--port", "0", "--data", dir], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  try {
    const url = await addressOf(child);
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const item = { model: "echo:bench", input: "Name a river that flows through two countries.", sla: 1_440 };
    await measure(
      "service: POST of one item",
      {
        url,
        key,
        method: "POST",
        path: "/v0/infer/",
        body: JSON.stringify([item]),
        seconds,
      },
      5_000,
    );

    const thousand = await fetch(`${url}/v0/infer/`, {
      method: "POST",
      headers,
      body: JSON.stringify(Array(1_000).fill(item)),
    });
    const { task_id } = (await thousand.json()) as { task_id: string };
    const path = `/v0/infer/task/${task_id}`;
    let polled: Response;
    for (;;) {
      polled = await fetch(url + path, { headers });
      if (((await polled.json()) as { status: string }).status === "completed") break;
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
    await measure("service: poll of 1,000 objects", { url, key, method: "GET", path, seconds }, 2_000);
    const etag = polled.headers.get("etag") ?? "";
    await measure("service: the same, not modified", { url, key, method: "GET", path, etag, seconds }, 2_000);

    const many = JSON.stringify(
      Array.from({ length: 100_000 }, (_, n) => ({ ...item, input: `${item.input} ${n}` })),
    );
    const startMs = performance.now();
    const posted = await fetch(`${url}/v0/infer/`, { method: "POST", headers, body: many });
    await posted.text();
    if (!posted.ok) throw new Error(`${posted.status}`);
    const name = `service: POST of 100,000 items (${(many.length / 1e6).toFixed(1)} MB)`;
    report([
      {
        name,
        median: (performance.now() - startMs) / 1_000,
        unit: "s",
        beside: { name: "wanted", median: 3 },
      },
    ]);
  } finally {
    child.kill("SIGTERM");
    await new Promise((resolve) => child.once("exit", resolve));
    rmSync(dir, { recursive: true, force: true });
  }
}

async function measure(name: string, load: Load, wantedPerSecond: number): Promise<void> {
  const generator = fork(SELF, { execArgv: process.execArgv });
  const result = await new Promise<{
    perSecond: number;
    p50: number;
    p99: number;
    statuses: Record<string, number>;
  }>((resolve) => {
    generator.once("message", (message) => resolve(message as never));
    generator.send(load);
  });
  const { perSecond, p50, p99, statuses } = result;
  console.log(`${name}: ${JSON.stringify(statuses)}`);
  report([
    { name, median: perSecond, unit: "calls/s", beside: { name: "wanted", median: wantedPerSecond } },
    { name, median: p50, unit: "ms, half of them" },
    { name, median: p99, unit: "ms, 99 %", beside: { name: "wanted", median: WANTED_P99_MS } },
  ]);
}

function addressOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`perigee serve ended with ${code}`)));
    child.stdout?.once("data", (chunk: Buffer) =>
      resolve((JSON.parse(chunk.toString()) as { url: string }).url),
    );
  });
}

/** In the process of the load: one request after the other on each connection. */
async function generate({ url, key, method, path, body, etag, seconds }: Load): Promise<void> {
  const headers = {
    authorization: `Bearer ${key}`,
    ...(body === undefined ? {} : { "content-type": "application/json" }),
    ...(etag === undefined ? {} : { "if-none-match": etag }),
  };
  const statuses: Record<string, number> = {};
  const times: number[] = [];
  const warmMs = performance.now() + 1_000;
  const endMs = warmMs + seconds * 1_000;
  const onAnswer = (status: number, startMs: number, answeredMs: number): boolean => {
    if (startMs >= warmMs) {
      times.push(answeredMs - startMs);
      statuses[status] = (statuses[status] ?? 0) + 1;
    }
    return answeredMs < endMs;
  };
  const request = { url, method, path, headers, body };
  await Promise.all(Array.from({ length: CONNECTIONS }, () => loadConnection(request, onAnswer)));
  times.sort((a, b) => a - b);
  const at = (share: number): number => times[Math.floor(times.length * share)] ?? Number.NaN;
  process.send?.({ perSecond: times.length / seconds, p50: at(0.5), p99: at(0.99), statuses });
  process.disconnect();
}
