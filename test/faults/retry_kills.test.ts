/**
 * `perigee serve` killed five times while it runs failed items again: one line for each item at every moment, and each that
 * had been answered is asked for no more.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, it } from "vitest";
import { MAIN } from "../built.ts";
import { KilledRuns, linesUpTo, until } from "./killed_run.ts";
import { createKey, urlOf } from "./killed_service.ts";

const IN_FLIGHT = 8;

let provider: KilledRuns;
let service: { readonly child: ChildProcess; readonly url: string };
let key: string;

beforeEach(async () => {
  provider = new KilledRuns();
  await provider.listen();
  key = await createKey(provider.path("data"));
  service = await start();
});
afterEach(() => {
  service.child.kill("SIGKILL");
  provider.close();
});

async function start(): Promise<typeof service> {
  const words = ["serve", "--port", "0", "--data", provider.path("data"), "--log-level", "error"];
  const child = spawn(process.execPath, [MAIN, ...words], {
    stdio: ["ignore", "pipe", "ignore"],
    env: {
      PATH: process.env["PATH"],
      PERIGEE_PROVIDER_LOCAL_BASE_URL: provider.address,
      PERIGEE_MAX_INFLIGHT: String(IN_FLIGHT),
    },
  });
  return { child, url: await urlOf(child) };
}

async function call(path: string, body?: object): Promise<string> {
  const response = await fetch(service.url + path, {
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
  });
  const text = await response.text();
  expect([path, response.status, response.ok ? "" : text]).toEqual([path, 200, ""]);
  return text;
}

interface TaskBody {
  readonly status: string;
  readonly task_id: string;
  readonly total_items: number;
  readonly retried?: number;
  readonly counts: Readonly<Record<string, number>>;
}

const taskOf = async (id: string): Promise<TaskBody> =>
  JSON.parse(await call(`/v0/infer/task/${id}?limit=1`));

async function linesOf(
  id: string,
): Promise<{ readonly key: string; readonly output: { text: string } | null }[]> {
  const text = await call(`/v0/files/output/${id}.jsonl`);
  return text.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line)]));
}

async function completed(id: string): Promise<TaskBody> {
  for (let look = 0; look < 600; look += 1) {
    const task = await taskOf(id);
    if (task.status === "completed") return task;
    await sleep(50);
  }
  throw new Error("the task is not completed");
}

const isRefused = (line: number): boolean => line % 2 === 0;
const items = (lines: readonly number[], sla: number) =>
  lines.map((line) => ({ model: "local:m1", input: `[[${line}]] hello`, sla }));

it("a retry of a small task and of one with lots of its own goes on through five kills", async () => {
  provider.treat = (_, line) => ({ afterMs: 2, status: isRefused(line) ? 400 : 200 });
  const all = linesUpTo(120);
  const small = JSON.parse(await call("/v0/infer/", items(all.slice(0, 20), 60))) as TaskBody;
  const own = [...items(all.slice(20, 70), 60), ...items(all.slice(70), 120)];
  const large = JSON.parse(await call("/v0/infer/", own)) as TaskBody;
  const ids = [small.task_id, large.task_id];
  const keys: string[][] = [];
  for (const id of ids) {
    expect((await completed(id)).counts["failed"]).toBe((await taskOf(id)).total_items / 2);
    keys.push((await linesOf(id)).map((line) => line.key).sort());
  }
  const before = provider.asked.length;
  provider.treat = () => ({ afterMs: 1_000 }); // so that some are open at every kill
  for (const id of ids) {
    const asked = { codes: ["invalid_request"] };
    const task = JSON.parse(await call(`/v0/infer/task/${id}/retry`, asked)) as TaskBody;
    expect(task.retried).toBe(task.total_items / 2);
    expect(JSON.parse(await call(`/v0/infer/task/${id}/retry`, asked)).retried).toBe(0); // they are at work
  }
  for (let kill = 0; kill < 5; kill += 1) {
    const count = provider.asked.length;
    await until(() => provider.asked.length >= count + 5);
    const closed = once(service.child, "close");
    service.child.kill("SIGKILL");
    await closed;
    service = await start();
    for (const [index, id] of ids.entries()) {
      const { counts, total_items } = await taskOf(id);
      expect(Object.values(counts).reduce((sum, each) => sum + each, 0)).toBe(total_items);
      const now = (await linesOf(id)).map((line) => line.key);
      expect(new Set(now).size).toBe(now.length);
      expect(now.every((one) => keys[index]?.includes(one))).toBe(true);
    }
  }
  provider.treat = () => ({ afterMs: 5 });
  for (const [index, id] of ids.entries()) {
    expect((await completed(id)).counts).toMatchObject({ failed: 0, submitted: 0 });
    const lines = await linesOf(id);
    expect(lines.map((line) => line.key).sort()).toEqual(keys[index]);
    expect(lines.every(({ output }) => output?.text.startsWith("answer") === true)).toBe(true);
  }
  const since = provider.asked.slice(before);
  expect(since.every(isRefused)).toBe(true);
  expect(since.length).toBeLessThanOrEqual(all.length / 2 + 5 * IN_FLIGHT);
}, 180_000);
