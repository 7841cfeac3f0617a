/**
 * A service that is killed while calls of the front are under way: the next process asks again only for those whose answers somebody
 * can still fetch.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { MAIN } from "../built.ts";
import { createKey, urlOf } from "./killed_service.ts";

let dir: string;
let children: ChildProcess[];
let provider: Server;
let isAnswering: boolean;
/** Requests by the first word of their prompt. */
let asked: Map<string, number>;

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "perigee-front-kills-"));
  [children, isAnswering, asked] = [[], false, new Map()];
  provider = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const body = JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>;
      const [{ content }] = body["messages"] as [{ content: string }];
      const word = content.split(" ", 1)[0] ?? "";
      asked.set(word, (asked.get(word) ?? 0) + 1);
      const choice = { index: 0, message: { role: "assistant", content: "yes" }, finish_reason: "stop" };
      const usage = { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 };
      if (isAnswering) {
        response.writeHead(200, { "content-type": "application/json" });
        response.end(JSON.stringify({ id: "c", model: "m", choices: [choice], usage }));
      } else if (body["stream"] === true) {
        response.writeHead(200, { "content-type": "text/event-stream" });
        const delta = { role: "assistant", content: "y" };
        response.write(`data: ${JSON.stringify({ id: "c", choices: [{ index: 0, delta }] })}\n\n`);
      }
    });
  });
  await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve));
});

afterEach(() => {
  for (const child of children) if (child.exitCode === null) child.kill("SIGKILL");
  provider.closeAllConnections();
  provider.close();
  rmSync(dir, { recursive: true, force: true });
});

async function serve(key: string) {
  const child = spawn(process.execPath, [MAIN, "serve", "--port", "0", "--data", dir], {
    stdio: ["ignore", "pipe", "ignore"],
    env: {
      ...process.env,
      PERIGEE_PROVIDER_OPENAI_BASE_URL: `http://127.0.0.1:${(provider.address() as AddressInfo).port}/v1`,
      PERIGEE_PROVIDER_OPENAI_KEY: "k",
      PERIGEE_MAX_INFLIGHT: "6",
    },
  });
  children.push(child);
  const url = await urlOf(child);
  const call = (path: string, init: RequestInit = {}): Promise<Response> =>
    fetch(url + path, {
      ...init,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...init.headers },
    });
  const ask = (content: string, more: object = {}, headers: Record<string, string> = {}): Promise<Response> =>
    call("/v1/chat/completions", {
      method: "POST",
      body: JSON.stringify({ model: "gpt-4o-mini", messages: [{ role: "user", content }], ...more }),
      headers,
    });
  return { child, call, ask };
}

interface ShownTask {
  readonly status: string;
  readonly objects: readonly {
    readonly status: string;
    readonly error: { readonly code: string; readonly ambiguous_attempts: number } | null;
    readonly cost: { readonly ambiguous_usd: number } | null;
  }[];
}

async function tasksOf(call: (path: string) => Promise<Response>): Promise<readonly ShownTask[]> {
  const list = (await (await call("/v0/infer/tasks")).json()) as { tasks: { task_id: string }[] };
  return Promise.all(
    list.tasks.map(
      async ({ task_id }) => (await (await call(`/v0/infer/task/${task_id}`)).json()) as ShownTask,
    ),
  );
}

it("asks again for calls with a key or an sla, and never for those whose clients have left with it", async () => {
  const key = await createKey(dir);
  const first = await serve(key);
  const left = (promise: Promise<Response>): Promise<unknown> =>
    promise.then((response) => response.text()).catch(() => undefined);
  const calls = [
    left(first.ask("plain")),
    left(first.ask("streamed", { stream: true })),
    left(first.ask(`large ${"x".repeat(1_200_000)}`)),
    left(first.ask("keyed", {}, { "idempotency-key": "one" })),
    left(first.ask("dated", {}, { "x-perigee-sla": "15m" })),
    left(
      first.call("/v0/infer/", {
        method: "POST",
        body: JSON.stringify([{ model: "openai:gpt-4o-mini", input: "posted" }]),
      }),
    ),
  ];
  await vi.waitFor(() => expect(asked.size).toBe(6), { timeout: 20_000, interval: 20 });
  calls.push(left(first.ask("waiting"))); // there are 6 places
  await vi.waitFor(async () => expect(await tasksOf(first.call)).toHaveLength(7), { timeout: 20_000 });
  first.child.kill("SIGKILL");
  await once(first.child, "exit");
  await Promise.all(calls);
  isAnswering = true;
  for (let start = 0; start < 2; start += 1) {
    const { child, call, ask } = await serve(key);
    const again = await ask("keyed", {}, { "idempotency-key": "one" });
    expect([again.status, again.headers.get("idempotent-replayed")]).toEqual([200, "true"]);
    await vi.waitFor(
      async () => {
        const tasks = await tasksOf(call);
        expect(tasks.map(({ status }) => status)).toEqual(tasks.map(() => "completed"));
        const ends = tasks.flatMap(({ objects }) =>
          objects.map(({ status, error }) => error?.code ?? status),
        );
        expect(ends.sort()).toEqual([...Array(4).fill("cancelled"), ...Array(3).fill("completed")]);
      },
      { timeout: 20_000, interval: 100 },
    );
    const doubts = (await tasksOf(call)).flatMap(({ objects }) =>
      objects.flatMap(({ error, cost }) =>
        error === null ? [] : [[error.ambiguous_attempts, (cost?.ambiguous_usd ?? 0) > 0]],
      ),
    );
    expect(doubts.sort()).toEqual([
      [0, false], // it waited
      [1, true],
      [1, true],
      [1, true],
    ]);
    child.kill("SIGKILL");
    await once(child, "exit");
  }
  expect(Object.fromEntries(asked)).toEqual({
    ...{ plain: 1, streamed: 1, large: 1 },
    ...{ keyed: 2, dated: 2, posted: 2 },
  });
}, 120_000);
