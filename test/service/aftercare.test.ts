/** The whole service tells a real receiver of real tasks, also after it was ended before it could. */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Webhook } from "standardwebhooks";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createPerigeeService, type PerigeeServiceOptions } from "../../src/service/index.ts";
import { fakeVerifier } from "./world.ts";

const headers = { authorization: "Bearer key-one", "content-type": "application/json" };

let dataDir: string;
let receiver: Server;
let url: string;
let isWilling: boolean;
const got: { headers: Record<string, string>; body: string }[] = [];
const closers: (() => unknown)[] = [];

beforeEach(async () => {
  dataDir = mkdtempSync(join(tmpdir(), "perigee-aftercare-"));
  isWilling = true;
  got.length = 0;
  receiver = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    got.push({ headers: request.headers as Record<string, string>, body });
    response.writeHead(isWilling ? 204 : 503).end();
  });
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`;
});

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
  receiver.close();
  receiver.closeAllConnections();
  rmSync(dataDir, { recursive: true, force: true });
});

async function open(given: Partial<PerigeeServiceOptions> = {}) {
  const env = { PERIGEE_EGRESS_ALLOW: "127.0.0.1/32" };
  const service = await createPerigeeService({ dataDir, env, verifier: fakeVerifier, ...given });
  closers.push(() => service.close());
  const base = await service.listen({ port: 0 });
  const send = async (method: string, path: string, body?: unknown) => {
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const own = body === undefined ? { authorization: headers.authorization } : headers;
    const response = await fetch(base + path, { method, headers: own, ...sent });
    return { status: response.status, json: (await response.json()) as Record<string, never> };
  };
  return { service, send };
}

it("a task's end reaches a receiver that the operator allows, once, and its signature is right", async () => {
  const { send } = await open();
  const { json: hook } = await send("POST", "/v0/webhooks", { url });
  const { json: task } = await send("POST", "/v0/infer/", [{ model: "echo:test", input: "canary" }]);
  await expect.poll(() => got.length, { timeout: 5_000 }).toBe(1);
  const [told] = got;
  expect(new Webhook(hook["secret"] ?? "").verify(told?.body ?? "", told?.headers ?? {})).toMatchObject({
    type: "task.completed",
    data: { task_id: task["task_id"], status: "completed", counts: { completed: 1 } },
  });
  expect(told?.body).not.toContain("canary");
});

it("a receiver on this machine is refused unless the operator allows it", async () => {
  const { send } = await open({ env: {} });
  const made = await send("POST", "/v0/webhooks", { url });
  expect([made.status, made.json["error"]]).toMatchObject([422, { code: "blocked_destination" }]);
});

it("what a receiver would not take before a restart reaches it after, under the same id", async () => {
  isWilling = false;
  const first = await open();
  await first.send("POST", "/v0/webhooks", { url });
  await first.send("POST", "/v0/infer/", [{ model: "echo:test", input: "x" }]);
  await expect.poll(() => got.length, { timeout: 5_000 }).toBe(1);
  await first.service.close();
  isWilling = true;
  await open();
  await expect.poll(() => got.length, { timeout: 10_000 }).toBe(2);
  expect(got[1]?.headers["webhook-id"]).toBe(got[0]?.headers["webhook-id"]);
}, 20_000);

it("a month's cap of the configuration refuses what it leaves no money for", async () => {
  const prices = { "echo:*": { inputUsdPerMillion: 1_000, outputUsdPerMillion: 1_000 } };
  const { send } = await open({ projects: { one: { maxCostUsd: 0.001 } }, prices });
  const { status, json } = await send("POST", "/v0/infer/", [
    { model: "echo:test", input: "x ".repeat(5_000) },
  ]);
  expect([status, json["error"]]).toMatchObject([402, { code: "budget_exceeded", cap_usd: 0.001 }]);
});

it("invalid days and networks are refused at the start", async () => {
  await expect(open({ retentionDays: 0 })).rejects.toMatchObject({ code: "invalid_config" });
  await expect(open({ egressAllow: ["127.0.0.1/99"] })).rejects.toMatchObject({ code: "invalid_config" });
});
