/**
 * The real service for a test: `perigee serve` as it was built, on a free port and in a folder of its own; keys as an
 * operator makes them; requests over the network. Beside it a provider whose answers wait until they are released.
 *
 * With `TEST_SERVICE=fleet` it is three workers behind a balancer (test/faults/balanced_fleet.ts).
 */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, request as httpRequest, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, vi } from "vitest";
import { SCOPES } from "../../src/service/http/caller.ts";
import { MAIN } from "../built.ts";
import { commandIn } from "../cli/command.ts";
import { BalancedFleet } from "../faults/balanced_fleet.ts";

export const UUID: unknown = expect.stringMatching(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
export const COUNT: unknown = expect.toSatisfy(
  (value: unknown) => Number.isSafeInteger(value) && Number(value) >= 0,
);
export const FACTOR: unknown = expect.toSatisfy(
  (value: unknown) => typeof value === "number" && value >= 0.3 && value <= 1,
);

export interface IssuedKey {
  readonly id: string;
  readonly key: string;
  readonly project: string;
  readonly scopes: readonly string[];
}

/** The fields that tests read by name; whether they are there is what the tests find out. */
export interface Body {
  readonly status: string;
  readonly task_id: string;
  readonly total_items: number;
  readonly output_url: string;
  readonly file_id: string;
  readonly objects: readonly {
    readonly object_id: string;
    readonly usage: { readonly price_factor: number; readonly input_tokens: number };
  }[];
  readonly error: {
    readonly message: string;
    readonly code: string;
    readonly earliest_sla_minutes?: number;
  };
}

/** An answer as it came; `body` is read where it is said to be JSON. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly body: Body;
}

export type Call = (
  method: string,
  path: string,
  options?: { readonly headers?: Record<string, string>; readonly body?: string | Uint8Array | FormData },
) => Promise<Answer>;

export interface Service {
  readonly url: string;
  readonly createKey: (project: string) => Promise<IssuedKey>;
  readonly revokeKey: (id: string) => Promise<void>;
  /** Requests with this Authorization header; without any when it is undefined. */
  readonly caller: (authorization?: string) => Call;
  readonly stop: () => Promise<void>;
}

/** Whether `startService` starts a fleet. */
export const isFleet: boolean = process.env["TEST_SERVICE"] === "fleet";

/** Starts the service and returns once its first line says where it answers. */
export async function startService(settings: Record<string, string> = {}): Promise<Service> {
  if (isFleet) return startFleet(settings);
  const dir = mkdtempSync(join(tmpdir(), "perigee-test-"));
  const data = join(dir, "data");
  const env = { PATH: process.env["PATH"] ?? "", NO_COLOR: "1", ...settings };
  const child = spawn(process.execPath, [MAIN, "serve", "--port", "0", "--data", data], { cwd: dir, env });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  const closed = new Promise<void>((resolve) => child.on("close", () => resolve()));
  const first = await Promise.race([
    new Promise<string>((resolve) => createInterface({ input: child.stdout }).once("line", resolve)),
    closed.then(() => Promise.reject(new Error(`perigee serve ended: ${stderr}`))),
  ]);
  const { url } = JSON.parse(first) as { url: string };
  const keys = (...args: string[]) => commandIn(dir, ["keys", ...args, "--data", data], { env });
  return {
    url,
    createKey: async (project) =>
      JSON.parse((await keys("create", "--project", project, "--json")).stdout) as IssuedKey,
    revokeKey: async (id) => {
      await keys("revoke", id);
    },
    caller: (authorization) => callerOf(url, authorization),
    stop: async () => {
      child.kill("SIGTERM");
      await closed;
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

async function startFleet(env: Record<string, string>): Promise<Service> {
  const fleet = await BalancedFleet.open({ env });
  const scopes = SCOPES.filter((scope) => scope !== "admin");
  return {
    url: fleet.url,
    createKey: async (project) => {
      const made = await fleet.key({ project, name: "default", scopes, isBeta: false });
      return { ...made, project, scopes };
    },
    revokeKey: (id) => fleet.revoke(id),
    caller: (authorization) => callerOf(fleet.url, authorization),
    stop: () => fleet.close(),
  };
}

/** Requests to a service at this address with this Authorization header. */
export function callerOf(url: string, authorization: string | undefined): Call {
  const own: Record<string, string> = authorization === undefined ? {} : { authorization };
  return async (method, path, options = {}) => {
    const answer = await fetch(new URL(path, url), {
      method,
      headers: { ...own, ...options.headers },
      body: options.body ?? null,
      redirect: "manual",
    });
    const text = await answer.text();
    const isJson = /^application\/json(;|$)/.test(answer.headers.get("content-type") ?? "");
    const body = (isJson ? JSON.parse(text) : undefined) as Body;
    return { status: answer.status, headers: answer.headers, text, body };
  };
}

/** One request whose path goes out letter by letter, and whose body may be refused before it was sent whole. */
export function sendExactly(
  service: Service,
  request: { method: string; path: string; headers: Record<string, string>; body?: string | Buffer },
): Promise<{ status: number; headers: IncomingHttpHeaders; text: string }> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(service.url);
    const { method, path, headers } = request;
    const sent = httpRequest({ host: hostname, port, method, path, headers, agent: false }, (answer) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (part: string) => {
        text += part;
      });
      answer.on("end", () => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text }));
      answer.on("error", reject);
    });
    sent.on("error", reject); // after an answer came this changes nothing
    sent.end(request.body);
  });
}

/** POST of request items. */
export function submit(call: Call, items: unknown, headers: Record<string, string> = {}): Promise<Answer> {
  return call("POST", "/v0/infer/", {
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(items),
  });
}

/** PUT of a file in the one field of a multipart form. */
export function upload(call: Call, name: string, content: string): Promise<Answer> {
  const form = new FormData();
  form.set("file", new Blob([content], { type: "application/jsonl" }), "local-name.jsonl");
  return call("PUT", `/v0/files/${name}`, { body: form });
}

/** JSON lines of values. */
export function lines(...values: readonly unknown[]): string {
  return values.map((value) => `${JSON.stringify(value)}\n`).join("");
}

/** A line in the interface's own layout (2.5). */
export function line(key: string, text: string, model = "echo:small"): unknown {
  return {
    key,
    request: { model, contents: [{ parts: [{ text }] }], generation_config: { temperature: 0.5 } },
  };
}

/** Asks for a task until it is completed. */
export function completedTask(call: Call, id: string): Promise<Answer> {
  return vi.waitFor(
    async () => {
      const answer = await call("GET", `/v0/infer/task/${id}`);
      expect(answer).toMatchObject({ status: 200, body: { status: "completed" } });
      return answer;
    },
    { timeout: 60_000, interval: 50 },
  );
}

export interface HeldProvider {
  /** Variables that make it known to the service as `held`. */
  readonly env: Record<string, string>;
  /** Requests that wait for an answer. */
  readonly waiting: () => number;
  /** Answers those that wait. */
  readonly release: () => void;
  readonly stop: () => Promise<void>;
}

/** A provider in OpenAI's protocol that answers nothing until it is released. */
export async function startHeldProvider(): Promise<HeldProvider> {
  let waiting: (() => void)[] = [];
  const server = createServer((request, response) => {
    request.resume().on("end", () => {
      waiting.push(() => {
        response.setHeader("content-type", "application/json");
        response.end(JSON.stringify(COMPLETION));
      });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    env: {
      PERIGEE_PROVIDER_HELD_BASE_URL: `http://127.0.0.1:${port}/v1`,
      PERIGEE_PROVIDER_HELD_KEY: "held-key",
    },
    waiting: () => waiting.length,
    release: () => {
      for (const answer of waiting) answer();
      waiting = [];
    },
    stop: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const COMPLETION = {
  id: "chatcmpl-1",
  object: "chat.completion",
  created: 1,
  model: "model",
  choices: [{ index: 0, message: { role: "assistant", content: "released" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 5, completion_tokens: 3, total_tokens: 8 },
};
