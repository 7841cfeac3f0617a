/**
 * Webhooks through executions: 200 a second to a slow host, beside 50 a second to a quick one, which the slow one must not delay; a run
 * without it is there to compare with. A host that takes 60 ms for each answer keeps up with 16 at once, one that takes a second
 * does not, and what waits for it grows.
 *
 *   npm run bench -- webhook_destinations [seconds]
 *
 * Everything in one process but the receivers; the store is SQLite on the disk.
 */
import { type ChildProcess, fork } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { systemClock } from "../../src/clock.ts";
import { AllowList } from "../../src/egress/address.ts";
import { createEgress } from "../../src/egress/egress.ts";
import { openWorkLog } from "../../src/log/work_log.ts";
import { callWebhook } from "../../src/satellites/builtin/call_webhook/call_webhook.ts";
import { openExecutions } from "../../src/satellites/executions/executions.ts";
import type { Executions } from "../../src/satellites/sdk/execution.ts";
import { createGuardedHttp } from "../../src/satellites/sdk/guarded_http.ts";
import type { Satellite } from "../../src/satellites/sdk/satellite.ts";
import { openSqliteStore } from "../../src/store/sqlite.ts";
import type { Files } from "../../src/tasks/files/files.ts";
import type { Tasks } from "../../src/tasks/shapes/tasks.ts";

const SLOW_MS: readonly number[] = [60, 1_000];
const SLOW_PER_SECOND = 200;
const QUICK_PER_SECOND = 50;
const CALLER = { project: "bench", keyId: undefined, isBeta: true };
const WEBHOOK = { namespace: "perigee", name: "call-webhook" };

if (process.send !== undefined) receive(Number(process.argv[2]));
else await main(Number(process.argv[2] ?? 10));

/** A receiver that answers after `delayMs`; tells its port. */
function receive(delayMs: number): void {
  const server = createServer((request, response) => {
    request.resume();
    setTimeout(() => response.end(), delayMs);
  });
  server.listen(0, "127.0.0.1", () => process.send?.((server.address() as AddressInfo).port));
}

async function main(seconds: number): Promise<void> {
  const receivers = [0, ...SLOW_MS].map(startReceiver);
  try {
    const [quick = "", ...slow] = await Promise.all(receivers.map(({ url }) => url));
    await measure("quick host alone", seconds, { quick });
    for (const [index, url] of slow.entries())
      await measure(`quick host beside one of ${SLOW_MS[index]} ms`, seconds, { quick, slow: url });
  } finally {
    for (const { child } of receivers) child.kill();
  }
}

function startReceiver(delayMs: number): { readonly child: ChildProcess; readonly url: Promise<string> } {
  const child = fork(fileURLToPath(import.meta.url), [String(delayMs)], { execArgv: ["--import", "tsx"] });
  const url = new Promise<string>((resolve) =>
    child.once("message", (port) => resolve(`http://127.0.0.1:${String(port)}/hook`)),
  );
  return { child, url };
}

async function measure(
  name: string,
  seconds: number,
  { quick, slow }: { readonly quick: string; readonly slow?: string },
): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), "perigee-bench-"));
  const store = await openSqliteStore({ dataDir: dir });
  const executions = await open(store);
  const began = new Map<string, number>();
  const tookMs: number[] = [];
  let slowDone = 0;
  const stop = executions.onFinished(({ id }) => {
    const beganMs = began.get(id);
    if (beganMs === undefined) slowDone += 1;
    else tookMs.push(performance.now() - beganMs);
  });
  const submit = async (url: string, isTimed: boolean): Promise<void> => {
    const id = crypto.randomUUID();
    if (isTimed) began.set(id, performance.now());
    await executions.submit(CALLER, { id, satellite: WEBHOOK, input: { n: 1 }, config: { url }, sla: "1h" });
  };
  const paces = [pace(QUICK_PER_SECOND, seconds, () => submit(quick, true))];
  if (slow !== undefined) paces.push(pace(SLOW_PER_SECOND, seconds, () => submit(slow, false)));
  await Promise.all(paces);
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  stop();
  tookMs.sort((left, right) => left - right);
  const at = (share: number): string => (tookMs[Math.floor((tookMs.length - 1) * share)] ?? 0).toFixed(1);
  const { queued, running } = executions.counts();
  console.log(
    `${name}: ${tookMs.length} of ${began.size} done, from submission to end p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, max ${at(1)} ms` +
      (slow === undefined ? "" : `; of the slow host ${slowDone} done, ${running} running, ${queued} queued`),
  );
  await executions.close();
  await store.close();
  rmSync(dir, { recursive: true, force: true });
}

async function pace(perSecond: number, seconds: number, call: () => Promise<void>): Promise<void> {
  const calls: Promise<void>[] = [];
  const startMs = performance.now();
  for (let n = 0; n < perSecond * seconds; n++) {
    const waitMs = startMs + (n * 1_000) / perSecond - performance.now();
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
    calls.push(call());
  }
  await Promise.all(calls);
}

async function open(store: Awaited<ReturnType<typeof openSqliteStore>>): Promise<Executions> {
  const satellite = callWebhook() as unknown as Satellite; // as the catalogue gives it
  return openExecutions({
    clock: systemClock,
    ...{ store, workLog: await openWorkLog({ store, clock: systemClock }) },
    resolver: {
      resolve: async (_caller, reference) => ({ reference, kind: "vendor", satellite, fixedConfig: {} }),
    },
    secrets: { reveal: async () => undefined },
    http: createGuardedHttp(createEgress({ clock: systemClock, allow: new AllowList(["127.0.0.1"]) })),
    files: {} as Files, // only webhooks with a file of the project read it
    tasks: {} as Tasks,
  });
}
