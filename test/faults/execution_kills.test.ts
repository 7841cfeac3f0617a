/**
 * `perigee serve` killed again and again while executions are submitted, run and cancelled, calling a real receiver: none that was
 * acknowledged is lost, each comes to one end, and what may not be repeated is called once at most. Webhooks are delivered meanwhile: each
 * at least once, again only after a kill, under one id.
 * `PERIGEE_TEST_KILLS` sets how often (default 4).
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MAIN } from "../built.ts";
import { createKey, urlOf } from "./killed_service.ts";

const dir = mkdtempSync(join(tmpdir(), "perigee-execution-kills-"));
const data = join(dir, "data");
const kills = Number(process.env["PERIGEE_TEST_KILLS"] ?? 4);
const LIFE_MS = 1_200;
/** Deliveries to one host at once: as many may be in flight when the service is killed. */
const PER_HOST = 8;
const PATH = "/v1/satellites/perigee/call-webhook/";

interface ExecutionBody {
  readonly execution_id: string;
  readonly status: string;
  readonly output: unknown;
  readonly error: { readonly code: string } | null;
}

interface DeliveryBody {
  readonly message_id: string;
  readonly status: string;
  readonly attempts: number;
}

interface Submitted {
  readonly id: string;
  readonly number: number;
  readonly isRepeatable: boolean;
}

/** How often each number was called. */
const calls = new Map<number, number>();
/** How often each message arrived. */
const messages = new Map<string, number>();
let receiver: Server;
let key: string;
let nextNumber = 0;

beforeAll(async () => {
  receiver = createServer((request, response) => {
    const message = request.headers["webhook-id"];
    if (typeof message === "string") messages.set(message, (messages.get(message) ?? 0) + 1);
    const number = Number(request.url?.slice(1));
    calls.set(number, (calls.get(number) ?? 0) + 1);
    request.resume().on("end", () => setTimeout(() => response.end("ok"), (number * 37) % 120));
  });
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  key = await createKey(data, { isBeta: true });
});

afterAll(() => {
  receiver.closeAllConnections();
  receiver.close();
  rmSync(dir, { recursive: true, force: true });
});

async function start(): Promise<{ readonly child: ChildProcess; readonly url: string }> {
  const child = spawn(process.execPath, [MAIN, "serve", "--port", "0", "--data", data], {
    stdio: ["ignore", "pipe", "ignore"],
    env: { ...process.env, PERIGEE_EGRESS_ALLOW: "127.0.0.0/8" },
  });
  return { child, url: await urlOf(child) };
}

async function send<T>(url: string, method: string, body?: object): Promise<T> {
  const answer = await fetch(url, {
    method,
    headers: {
      authorization: url.includes("/v0/") ? `Bearer ${key}` : key,
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  if (answer.status !== 200) throw new Error(`status ${answer.status}: ${text}`);
  return JSON.parse(text) as T;
}

/** Submits until the process dies, and cancels some; notes what was acknowledged. */
async function submitUntilDead(url: string, acknowledged: Submitted[], isDead: () => boolean): Promise<void> {
  const { port } = receiver.address() as AddressInfo;
  while (!isDead()) {
    nextNumber += 1;
    const number = nextNumber;
    const isRepeatable = number % 2 === 0;
    const config = { url: `http://127.0.0.1:${port}/${number}`, method: isRepeatable ? "PUT" : "POST" };
    try {
      const { execution_id: id } = await send<ExecutionBody>(`${url}${PATH}`, "POST", {
        input: {},
        config,
        sla: "1h",
      });
      acknowledged.push({ id, number, isRepeatable });
      if (number % 10 === 0) await send(`${url}${PATH}${id}/cancel/`, "POST");
    } catch (error) {
      if (!isDead() && !(error instanceof TypeError)) throw error;
      return;
    }
    await sleep(10);
  }
}

/** Posts tasks; the webhook is notified of each once it has ended. */
async function postUntilDead(url: string, taskIds: string[], isDead: () => boolean): Promise<void> {
  while (!isDead()) {
    try {
      const { task_id: id } = await send<{ task_id: string }>(`${url}/v0/infer/`, "POST", [
        { model: "echo:m", input: "a" },
      ] as object);
      taskIds.push(id);
    } catch (error) {
      if (!isDead() && !(error instanceof TypeError)) throw error;
      return;
    }
    await sleep(40);
  }
}

/** Waits until every one has arrived. */
async function deliveredOf(url: string, webhookId: string, count: number): Promise<DeliveryBody[]> {
  const path = `${url}/v0/webhooks/${webhookId}/deliveries?limit=100`;
  for (;;) {
    const all: DeliveryBody[] = [];
    for (let after = ""; ; ) {
      const page = await send<{ deliveries: DeliveryBody[]; has_more: boolean; last_id: string }>(
        `${path}${after}`,
        "GET",
      );
      all.push(...page.deliveries);
      if (!page.has_more) break;
      after = `&after=${page.last_id}`;
    }
    if (all.length >= count && all.every(({ status }) => status === "delivered")) return all;
    await sleep(100);
  }
}

describe("a service that is killed while it executes", () => {
  it(
    "loses no acknowledged execution or delivery, and repeats only what may be repeated",
    async () => {
      const taskIds: string[] = [];
      let webhookId = "";
      const acknowledged: Submitted[] = [];
      const ended = new Map<string, ExecutionBody>();
      for (let kill = 0; kill < kills; kill += 1) {
        const { child, url } = await start();
        let isDead = false;
        const { port } = receiver.address() as AddressInfo;
        const webhook = { url: `http://127.0.0.1:${port}/30`, events: ["task.completed"] };
        if (kill === 0) webhookId = (await send<{ id: string }>(`${url}/v0/webhooks`, "POST", webhook)).id;
        const submitting = [1, 2, 3].map(() => submitUntilDead(url, acknowledged, () => isDead));
        const posting = Promise.all([...submitting, postUntilDead(url, taskIds, () => isDead)]);
        await sleep(LIFE_MS * (0.4 + 0.6 * ((kill * 7) % 10) * 0.1));
        for (const { id } of acknowledged.slice(-60)) {
          const body = await send<ExecutionBody>(`${url}${PATH}${id}/`, "GET");
          if (body.status !== "pending") ended.set(id, body);
        }
        isDead = true;
        child.kill("SIGKILL");
        await once(child, "exit");
        await posting;
      }
      expect(acknowledged.length).toBeGreaterThan(kills * 10);
      const { child, url } = await start();
      const statuses = new Map<string, number>();
      for (const { id, number, isRepeatable } of acknowledged) {
        let body = await send<ExecutionBody>(`${url}${PATH}${id}/`, "GET");
        for (; body.status === "pending"; body = await send(`${url}${PATH}${id}/`, "GET")) await sleep(50);
        if (ended.has(id)) expect(body).toEqual(ended.get(id));
        const times = calls.get(number) ?? 0;
        if (!isRepeatable) expect([id, times <= 1]).toEqual([id, true]);
        if (body.status === "completed") expect(times).toBeGreaterThanOrEqual(1);
        if (body.status === "failed") expect([isRepeatable, body.error?.code]).toEqual([false, "ambiguous"]);
        statuses.set(body.status, (statuses.get(body.status) ?? 0) + 1);
      }
      expect([...statuses.keys()].sort()).toEqual(expect.arrayContaining(["cancelled", "completed"]));
      expect(statuses.get("completed") ?? 0).toBeGreaterThan(acknowledged.length / 2);
      const deliveries = await deliveredOf(url, webhookId, taskIds.length);
      const delivered = deliveries.map(({ message_id: id }) => id);
      expect(new Set(delivered).size).toBe(delivered.length);
      expect(delivered).toEqual(
        expect.arrayContaining(taskIds.map((id) => `msg_${id.replaceAll("-", "")}_finished`)),
      );
      for (const id of delivered) expect(messages.get(id)).toBeGreaterThanOrEqual(1);
      const repeats = [...messages.values()].reduce((sum, times) => sum + times - 1, 0);
      expect(repeats).toBeLessThanOrEqual(kills * PER_HOST);
      child.kill("SIGTERM");
      expect((await once(child, "exit"))[0]).toBe(0);
    },
    60_000 + kills * 10_000,
  );
});
