/**
 * `perigee serve` killed again and again while executions are submitted, run and cancelled, calling a real receiver: none that was
 * acknowledged is lost, each comes to one end, and what may not be repeated is called once at most.
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
const PATH = "/v1/satellites/perigee/call-webhook/";

interface ExecutionBody {
  readonly execution_id: string;
  readonly status: string;
  readonly output: unknown;
  readonly error: { readonly code: string } | null;
}

interface Submitted {
  readonly id: string;
  readonly number: number;
  readonly isRepeatable: boolean;
}

/** How often each number was called. */
const calls = new Map<number, number>();
let receiver: Server;
let key: string;
let nextNumber = 0;

beforeAll(async () => {
  receiver = createServer((request, response) => {
    const number = Number(request.url?.slice(1));
    calls.set(number, (calls.get(number) ?? 0) + 1);
    request.resume().on("end", () => setTimeout(() => response.end("ok"), (number * 37) % 120));
  });
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  key = createKey(data, ["--beta"]);
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
    headers: { authorization: key, ...(body === undefined ? {} : { "content-type": "application/json" }) },
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

describe("a service that is killed while it executes", () => {
  it(
    "loses no acknowledged execution, and repeats only what may be repeated",
    async () => {
      const acknowledged: Submitted[] = [];
      const ended = new Map<string, ExecutionBody>();
      for (let kill = 0; kill < kills; kill += 1) {
        const { child, url } = await start();
        let isDead = false;
        const posting = Promise.all([1, 2, 3].map(() => submitUntilDead(url, acknowledged, () => isDead)));
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
      child.kill("SIGTERM");
      expect((await once(child, "exit"))[0]).toBe(0);
    },
    60_000 + kills * 10_000,
  );
});
