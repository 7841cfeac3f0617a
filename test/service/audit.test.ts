/** What requests leave in the audit log. */
import { expect, it } from "vitest";
import type { AuditEvent } from "../../src/store/audit/audit_line.ts";
import { formOf, openWhole } from "./whole.ts";

const noted: AuditEvent[] = [];
const whole = await openWhole({ audit: { note: (event) => noted.push(event) } });

/** The answer, and what it left. */
async function traced(method: string, path: string, body?: unknown, key = "own") {
  noted.length = 0;
  const { status, text } = await whole.call(method, path, { key, body });
  return { status, json: text.startsWith("{") ? JSON.parse(text) : undefined, events: [...noted] };
}

const who = { project: "own", keyId: expect.any(String) };

it("tells the audit log who made, read, cancelled and erased what, and nothing of texts", async () => {
  const file = await traced(
    "PUT",
    "/v0/files/in.jsonl",
    formOf([{ key: "a", request: { model: "echo:x", contents: [] } }]),
  );
  expect(file.events).toEqual([{ kind: "file.uploaded", ...who, fileId: file.json.file_id }]);
  const ofFile = `/v0/files/${file.json.file_id}`;
  expect((await traced("GET", ofFile)).events).toEqual([]);
  expect((await traced("GET", `${ofFile}/content`)).events).toEqual([
    { kind: "file.downloaded", ...who, fileId: file.json.file_id },
  ]);
  const task = await traced("POST", "/v0/infer/", [{ model: "echo:x", input: "a secret" }]);
  const taskId = task.json.task_id;
  expect(task.events).toEqual([{ kind: "task.created", ...who, taskId }]);
  expect(JSON.stringify(task.events)).not.toContain("secret");
  expect((await traced("GET", `/v0/files/output/${taskId}.jsonl`)).events).toEqual([
    { kind: "task.downloaded", ...who, taskId },
  ]);
  const link = await traced("POST", `/v0/files/output/${taskId}.jsonl/link`);
  const { pathname } = new URL(link.json.url);
  expect((await traced("GET", pathname, undefined, "none")).events).toEqual([
    { kind: "task.downloaded", project: "own", keyId: undefined, taskId },
  ]);
  expect((await traced("POST", `/v0/infer/task/${taskId}/cancel`)).events).toEqual([
    { kind: "task.cancelled", ...who, taskId },
  ]);
  expect((await traced("POST", `/v0/infer/task/${taskId}/retry`)).events).toEqual([
    { kind: "task.retried", ...who, taskId },
  ]);
  expect((await traced("DELETE", `/v0/infer/task/${taskId}`)).events).toEqual([
    { kind: "task.deleted", ...who, taskId },
  ]);
  expect((await traced("DELETE", ofFile)).events).toEqual([
    { kind: "file.deleted", ...who, fileId: file.json.file_id },
  ]);
});

it("tells who made, changed and removed webhooks, without their secrets and addresses", async () => {
  const made = await traced("POST", "/v0/webhooks", { url: "https://hooks.example.org/in" });
  const webhookId = made.json.id;
  const path = `/v0/webhooks/${webhookId}`;
  const all = [...made.events];
  for (const [method, where, body] of [
    ["PATCH", "", { description: "mine" }],
    ["POST", "/rotate", undefined],
    ["GET", "", undefined],
    ["DELETE", "", undefined],
  ] as const)
    all.push(...(await traced(method, path + where, body)).events);
  const kinds = ["webhook.created", "webhook.changed", "webhook.rotated", "webhook.deleted"];
  expect(all).toEqual(kinds.map((kind) => ({ kind, ...who, webhookId })));
});

it("notes a POST that is repeated with its Idempotency-Key once", async () => {
  noted.length = 0;
  const call = { key: "own", headers: { "idempotency-key": "audited" } };
  const body = [{ model: "echo:x", input: "x", sla: 60 }];
  for (let count = 0; count < 3; count += 1) await whole.call("POST", "/v0/infer/", { ...call, body });
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(noted.map(({ kind }) => kind)).toEqual(["task.created"]);
});

it("notes a request without a valid key, and none that was refused for another reason", async () => {
  expect(await traced("GET", "/v0/infer/tasks", undefined, "wrong")).toMatchObject({
    status: 401,
    events: [{ kind: "login.failed" }],
  });
  expect(await traced("DELETE", "/v0/infer/task/none", undefined, "powerless")).toMatchObject({
    status: 403,
    events: [],
  });
  expect(await traced("DELETE", "/v0/infer/task/none")).toMatchObject({ status: 404, events: [] });
  expect(await traced("POST", "/v0/infer/", [{ model: "x" }])).toMatchObject({ status: 422, events: [] });
});
