/**
 * Executions on SQLite, with satellites that do next to nothing: how many a second are accepted durably and run, in process and
 * over HTTP; what a slow destination costs another; what a million old ones cost a start.
 *
 *   npm run bench -- executions [seconds] [old]
 *
 * Targets on two cores: 1,000 accepted a second, durably; 200 a second to a slow host without delaying another's.
 */
import { type ChildProcess, fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { systemClock } from "../../src/clock.ts";
import type { JobFacts } from "../../src/jobs/job.ts";
import { JobLog } from "../../src/jobs/job_log.ts";
import { WORK_KINDS } from "../../src/log/work_kinds.ts";
import { openWorkLog, type WorkLog } from "../../src/log/work_log.ts";
import { openExecutions } from "../../src/satellites/executions/executions.ts";
import type { Executions } from "../../src/satellites/sdk/execution.ts";
import type { Satellite } from "../../src/satellites/sdk/satellite.ts";
import { z } from "../../src/schema.ts";
import { createPerigeeService } from "../../src/service/index.ts";
import { openKeyStore } from "../../src/store/keys/key_store.ts";
import { openSqliteStore } from "../../src/store/sqlite.ts";
import type { Store } from "../../src/store/store.ts";
import { load } from "../shared/load_connection.ts";

const SELF = fileURLToPath(import.meta.url);
const satellite = { namespace: "perigee", name: "echo" };
const CALLER = { project: "bench", keyId: undefined, isBeta: true };
const SUBMITTERS = 64;
const CONNECTIONS = 32;
const request = { input: { prompt: "Name a river.", host: "" }, config: {}, sla: "1h" };

type Task = "serve" | { readonly url: string; readonly key: string; readonly seconds: number };

const echo = {
  name: "echo",
  description: "Answers at once, or after `ms`.",
  input: z.strictObject({ prompt: z.string(), host: z.string().optional(), ms: z.number().optional() }),
  config: z.strictObject({}),
  isRepeatable: true,
  destination: ({ input }: { input: { host?: string } }) => input.host || undefined,
  run: async (call: { input: { prompt: string; ms?: number }; clock: typeof systemClock }) => {
    if (call.input.ms !== undefined) await call.clock.sleep(call.input.ms);
    return { response: call.input.prompt };
  },
} as unknown as Satellite;

if (process.send !== undefined) process.once("message", (task) => void child(task as Task));
else await main(Number(process.argv[2] ?? 10), Number(process.argv[3] ?? 1_000_000));

async function main(seconds: number, old: number): Promise<void> {
  await inProcess(seconds);
  await overHttp(seconds);
  await besideSlow(seconds);
  if (old > 0) await startWith(old);
}

interface Opened {
  readonly store: Store;
  readonly workLog: WorkLog;
}

async function withStore(work: (opened: Opened) => Promise<void>): Promise<void> {
  const dataDir = mkdtempSync(join(tmpdir(), "perigee-bench-"));
  const store = await openSqliteStore({ dataDir });
  const workLog = await openWorkLog({ store, clock: systemClock });
  await work({ store, workLog });
  await workLog.close();
  await store.close();
  rmSync(dataDir, { recursive: true, force: true });
}

function open(opened: Opened): Promise<Executions> {
  const resolved = { kind: "vendor" as const, satellite: echo, fixedConfig: {} };
  return openExecutions({
    clock: systemClock,
    ...opened,
    resolver: { resolve: async (_caller, reference) => ({ ...resolved, reference }) },
    secrets: { reveal: async () => undefined },
    http: {} as never,
    files: {} as never,
    tasks: {} as never,
    onFault: (error) => console.error(error),
  });
}

async function inProcess(seconds: number): Promise<void> {
  await withStore(async (opened) => {
    const executions = await open(opened);
    let finished = 0;
    executions.onFinished(() => {
      finished += 1;
    });
    const times: number[] = [];
    const endMs = performance.now() + seconds * 1_000;
    const cpu = process.cpuUsage();
    const submitter = async (): Promise<void> => {
      while (performance.now() < endMs) {
        const startMs = performance.now();
        await executions.submit(CALLER, { satellite, ...request });
        times.push(performance.now() - startMs);
      }
    };
    await Promise.all(Array.from({ length: SUBMITTERS }, submitter));
    const used = process.cpuUsage(cpu);
    const us = Math.round((used.user + used.system) / times.length);
    console.log(
      `in process: ${rate(times.length, seconds)} accepted/s (${spread(times)}), ${rate(finished, seconds)} completed/s meanwhile, ${us} us of CPU each`,
    );
    const drainMs = performance.now();
    while (finished < times.length) await systemClock.sleep(10);
    console.log(`  the rest was done ${Math.round(performance.now() - drainMs)} ms later`);
    await executions.close();
  });
}

async function overHttp(seconds: number): Promise<void> {
  const server = fork(SELF, { execArgv: process.execArgv });
  const { url, key } = await told<{ url: string; key: string }>(server, "serve");
  const generator = fork(SELF, { execArgv: process.execArgv });
  const { times, statuses } = await told<{ times: number[]; statuses: Record<string, number> }>(generator, {
    url,
    key,
    seconds,
  });
  console.log(
    `over HTTP: ${rate(times.length, seconds)} accepted/s (${spread(times)}), ${JSON.stringify(statuses)}`,
  );
  server.kill("SIGTERM");
}

/** 200 a second to a host that takes a second for each, of which it serves 16; 20 a second to one that answers at once. */
async function besideSlow(seconds: number): Promise<void> {
  await withStore(async (opened) => {
    const executions = await open(opened);
    const begun = new Map<string, number>();
    const times: number[] = [];
    executions.onFinished(({ id }) => {
      const startMs = begun.get(id);
      if (startMs !== undefined) times.push(performance.now() - startMs);
    });
    const submit = async (host: string, ms: number): Promise<void> => {
      const id = randomUUID();
      if (ms === 0) begun.set(id, performance.now());
      const input = { ...request.input, host, ...(ms === 0 ? {} : { ms }) };
      await executions.submit(CALLER, { ...request, satellite, input, id });
    };
    for (const slowPerTick of [0, 10]) {
      times.length = 0;
      for (let tick = 0; tick < seconds * 20; tick += 1) {
        for (let one = 0; one < slowPerTick; one += 1) void submit("slow.test", 1_000);
        void submit("fast.test", 0);
        await systemClock.sleep(50);
      }
      await systemClock.sleep(500);
      console.log(
        `20/s to a fast host, ${slowPerTick * 20}/s to a slow one: ${spread(times)} from submission to end, of ${times.length}`,
      );
    }
    await executions.close();
  });
}

async function startWith(old: number): Promise<void> {
  await withStore(async (opened) => {
    const jobs = new JobLog<JobFacts>(opened.workLog, WORK_KINDS.execution, () => "bench/perigee/echo");
    const facts = {
      project: "bench",
      satellite,
      sla: "1h",
      createdWallMs: systemClock.wallMs(),
      deadlineWallMs: systemClock.wallMs() + 3_600_000,
      keyId: "key",
      isBeta: true,
      member: undefined,
      destination: undefined,
    };
    const output = { response: "x".repeat(200) };
    const end = {
      status: "completed" as const,
      output,
      error: null,
      wallMs: facts.createdWallMs,
      attempts: 1,
    };
    for (let made = 0; made < old; made += 1_000)
      await Promise.all(
        Array.from({ length: 1_000 }, () => jobs.acceptEnded({ ...facts, id: randomUUID() }, end)),
      );
    const startMs = performance.now();
    const executions = await open(opened);
    const openedMs = performance.now() - startMs;
    const listMs = performance.now();
    await executions.list("bench", { limit: 100 });
    console.log(
      `a start with ${old} old executions: ${openedMs.toFixed(1)} ms; a page of 100: ${(performance.now() - listMs).toFixed(1)} ms`,
    );
    await executions.close();
  });
}

async function child(task: Task): Promise<void> {
  if (task === "serve") {
    const dataDir = mkdtempSync(join(tmpdir(), "perigee-bench-"));
    const keys = await openKeyStore({ dataDir, clock: systemClock });
    const scopes = ["satellites:run", "satellites:read"];
    const { key } = keys.create({ project: "bench", name: "bench", scopes, isBeta: true });
    const satellites = { trusted: [{ project: "bench", satellites: [echo] }] };
    const service = await createPerigeeService({ dataDir, satellites });
    process.send?.({ url: await service.listen({ port: 0 }), key });
    process.once("SIGTERM", () => {
      void service.close().then(() => {
        keys.close();
        rmSync(dataDir, { recursive: true, force: true });
        process.exit(0);
      });
    });
    return;
  }
  const { url, key, seconds } = task;
  const times: number[] = [];
  const statuses: Record<string, number> = {};
  const warmMs = performance.now() + 1_000;
  const endMs = warmMs + seconds * 1_000;
  const sent = {
    url,
    method: "POST",
    path: "/v1/satellites/bench/echo/",
    headers: { authorization: key, "content-type": "application/json" },
    body: JSON.stringify(request),
  };
  const onAnswer = (status: number, startMs: number, doneMs: number): boolean => {
    if (startMs >= warmMs) {
      times.push(doneMs - startMs);
      statuses[status] = (statuses[status] ?? 0) + 1;
    }
    return doneMs < endMs;
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, () => load(sent, onAnswer)));
  process.send?.({ times, statuses }, () => process.disconnect()); // not before: what is not yet out would be lost
}

function told<T>(process: ChildProcess, task: Task): Promise<T> {
  return new Promise((resolve) => {
    process.once("message", (message) => resolve(message as T));
    process.send(task);
  });
}

function rate(count: number, seconds: number): number {
  return Math.round(count / seconds);
}

function spread(times: number[]): string {
  times.sort((a, b) => a - b);
  const at = (share: number): string => (times[Math.floor(times.length * share)] ?? Number.NaN).toFixed(1);
  return `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms`;
}
