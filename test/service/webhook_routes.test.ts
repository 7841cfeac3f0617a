/** Webhooks over HTTP. */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Webhook } from "standardwebhooks";
import { afterEach, beforeEach, expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { AllowList } from "../../src/egress/address.ts";
import { createEgress } from "../../src/egress/egress.ts";
import { openWorkLog } from "../../src/log/work_log.ts";
import { registerWebhookRoutes } from "../../src/service/webhooks/webhook_routes.ts";
import { openWebhooks, type Webhooks } from "../../src/service/webhooks/webhooks.ts";
import { createMemoryStore } from "../../src/store/memory.ts";
import { CountedDestinations } from "../jobs/counted_destinations.ts";
import { testVault } from "../satellites/test_vault.ts";
import { taskView } from "./webhook_world.ts";
import { openWorld, type World } from "./world.ts";

const URL = "https://hooks.example.org/in";

let webhooks: Webhooks;
let world: World;
const closers: (() => void)[] = [];

beforeEach(async () => {
  const store = createMemoryStore();
  webhooks = await openWebhooks({
    ...{ clock: systemClock, store, workLog: await openWorkLog({ store, clock: systemClock }) },
    vault: testVault,
    destinations: new CountedDestinations(),
    egress: createEgress({ clock: systemClock, allow: new AllowList(["127.0.0.1"]) }),
    tasks: {
      task: async (_project, id) => taskView(id),
    },
  });
  world = await openWorld({ register: ({ app }) => registerWebhookRoutes(app, { webhooks }) });
});

afterEach(async () => {
  await webhooks.close();
  for (const close of closers.splice(0)) close();
});

it("a webhook is made, shown, listed, changed and removed, and its secret is shown once", async () => {
  const made = await world.call("POST", "/v0/webhooks", { body: { url: URL, events: ["task.failed"] } });
  expect(made.status).toBe(200);
  const { secret, ...shown } = made.json;
  expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
  expect(shown).toMatchObject({
    url: URL,
    events: ["task.failed"],
    status: "enabled",
    disabled_reason: null,
  });
  const path = `/v0/webhooks/${shown.id}`;
  expect((await world.call("GET", path)).json).toEqual(shown);
  expect((await world.call("GET", "/v0/webhooks/")).json).toEqual({
    webhooks: [shown],
    has_more: false,
    last_id: shown.id,
  });
  const changed = await world.call("PATCH", path, { body: { status: "disabled", description: "mine" } });
  expect(changed.json).toEqual({
    ...shown,
    description: "mine",
    status: "disabled",
    disabled_reason: "manual",
  });
  expect((await world.call("PATCH", path, { body: { status: "enabled" } })).json.status).toBe("enabled");
  expect((await world.call("DELETE", path)).json).toEqual({ id: shown.id, deleted: true });
  expect((await world.call("GET", path)).status).toBe(404);
});

it("a webhook of another project is not there", async () => {
  const { json } = await world.call("POST", "/v0/webhooks", { body: { url: URL } });
  const unknown = await world.call("GET", "/v0/webhooks/none", { key: "key-two" });
  const calls = [
    ["GET", ""],
    ["PATCH", ""],
    ["DELETE", ""],
    ["POST", "/rotate"],
    ["POST", "/test"],
    ["GET", "/deliveries"],
  ] as const;
  for (const [method, path] of calls) {
    const body = method === "PATCH" ? { body: {} } : {};
    const answer = await world.call(method, `/v0/webhooks/${json.id}${path}`, { key: "key-two", ...body });
    expect([answer.status, answer.json.error]).toEqual([404, unknown.json.error]);
  }
  expect((await world.call("GET", "/v0/webhooks", { key: "key-two" })).json.webhooks).toEqual([]);
});

it("needs a key that may write", async () => {
  expect((await world.call("POST", "/v0/webhooks", { key: "", body: { url: URL } })).status).toBe(401);
  expect((await world.call("POST", "/v0/webhooks", { key: "key-reader", body: { url: URL } })).status).toBe(
    403,
  );
});

it("refuses what is not documented, and addresses that lead inwards, naming the field", async () => {
  for (const body of [
    {},
    { url: 1 },
    { url: URL, events: [] },
    { url: URL, events: ["x"] },
    { url: URL, secret: "x" },
  ])
    expect((await world.call("POST", "/v0/webhooks", { body })).status).toBe(422);
  for (const url of ["http://10.0.0.1/", "ftp://a.net/", "http://u:p@a.net/", "https://169.254.169.254/"]) {
    const { status, json } = await world.call("POST", "/v0/webhooks", { body: { url } });
    expect(status).toBe(422);
    expect(json.error).toMatchObject({ code: "blocked_destination", param: "url" });
  }
});

it("a real receiver is notified of a task, and can check the signature with the standard's own package", async () => {
  const seen: { headers: Record<string, string>; body: string }[] = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    seen.push({ headers: request.headers as Record<string, string>, body });
    response.writeHead(204).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closers.push(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
  const { json } = await world.call("POST", "/v0/webhooks", { body: { url } });
  const tried = await world.call("POST", `/v0/webhooks/${json.id}/test`);
  expect(tried.json).toMatchObject({
    type: "webhook.test",
    status: "delivered",
    attempts: 1,
    last_status: 204,
  });
  const rotated = await world.call("POST", `/v0/webhooks/${json.id}/rotate`);
  await webhooks.told({ kind: "completed", project: "one", taskId: "1-2" });
  await expect.poll(() => seen.length).toBe(2);
  for (const secret of [json.secret, rotated.json.secret]) {
    const [, told] = seen;
    expect(new Webhook(secret).verify(told?.body ?? "", told?.headers ?? {})).toMatchObject({
      type: "task.completed",
      data: { task_id: "1-2" },
    });
  }
  const path = `/v0/webhooks/${json.id}/deliveries`;
  await expect.poll(async () => (await world.call("GET", path)).json.deliveries[0]?.status).toBe("delivered");
  const first = await world.call("GET", `${path}?limit=1`);
  expect(first.json).toMatchObject({ has_more: true, deliveries: [{ type: "task.completed" }] });
  const second = await world.call("GET", `${path}?limit=1&after=${first.json.last_id}`);
  expect(second.json).toMatchObject({ has_more: false, deliveries: [{ type: "webhook.test" }] });
  expect((await world.call("GET", `${path}?after=none`)).status).toBe(404);
});
