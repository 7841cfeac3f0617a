/** What the service refuses, and in which words: keys (5), errors (7), and the ids of others. */
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import {
  type Answer,
  type Call,
  completedTask,
  type IssuedKey,
  line,
  lines,
  type Service,
  sendExactly,
  startService,
  submit,
  upload,
} from "./serving.ts";

const JSON_TYPE = { "content-type": "application/json" };
const NOW = { model: "echo:small", input: "hello" };
const UNKNOWN = "00000000-0000-4000-8000-000000000000";

let service: Service;
let issued: IssuedKey;
let call: Call;

beforeAll(async () => {
  service = await startService();
  issued = await service.createKey("acme");
  call = service.caller(`Bearer ${issued.key}`);
});
afterAll(() => service.stop());

/** An answer without what differs from request to request: its id, and the id that was asked for. */
function impersonal(answer: Answer, id = ""): unknown {
  const requestId = (JSON.parse(answer.text) as { request_id: string }).request_id;
  const headers = [...answer.headers].filter(([name, value]) => name !== "date" && value !== requestId);
  const text = answer.text.replaceAll(requestId, "REQUEST");
  return {
    status: answer.status,
    text: id === "" ? text : text.replaceAll(id, "ID"),
    headers: headers.filter(([name]) => !name.includes("ratelimit")),
  };
}

/** OpenAI's envelope with a request_id. */
function expectEnvelope(answer: Pick<Answer, "status" | "text">, status: number | readonly number[]): void {
  expect(answer.status, answer.text.slice(0, 300)).toBeOneOf([status].flat());
  const body = JSON.parse(answer.text) as { error: { param: unknown } };
  expect(body).toMatchObject({
    error: { message: expect.any(String), type: expect.any(String), code: expect.any(String) },
    request_id: expect.any(String),
  });
  expect(body.error).toHaveProperty("param");
  expect(body.error.param === null || typeof body.error.param === "string").toBe(true);
}

describe("5 authentication", () => {
  it("issues keys with id, key, project and scopes", () => {
    expect(issued).toMatchObject({
      id: expect.any(String),
      key: expect.stringMatching(/^pgk_live_[0-9A-Za-z]{28}$/),
      project: "acme",
      scopes: expect.arrayContaining(["infer:write", "infer:read", "files:write", "files:read"]),
    });
  });

  it("takes Bearer and the key", async () => {
    expect(await submit(call, [NOW])).toMatchObject({ status: 200 });
  });

  it("answers every wrong Authorization with one and the same 401, which never has the key", async () => {
    const { key } = issued;
    const wrong = [
      undefined,
      key,
      `Basic ${key}`,
      `Basic ${Buffer.from(`${key}:`).toString("base64")}`,
      "Bearer",
      `Bearer ${key}x`,
      `Bearer ${key.slice(0, -1)}`,
      `Bearer pgk_live_${"0".repeat(28)}`,
      `Bearer ${key} ${key}`,
      `Token ${key}`,
    ];
    const answers: Answer[] = [];
    for (const authorization of wrong) answers.push(await submit(service.caller(authorization), [NOW]));
    for (const answer of answers) {
      expectEnvelope(answer, 401);
      expect(impersonal(answer)).toEqual(impersonal(answers[0] as Answer));
      expect(answer.text).not.toContain(key.slice(0, -1));
    }
  });

  it("is required by every endpoint", async () => {
    const stranger = service.caller();
    for (const [method, path] of [
      ["POST", "/v0/infer/"],
      ["GET", `/v0/infer/task/${UNKNOWN}`],
      ["GET", `/v0/infer/task/${UNKNOWN}/`],
      ["GET", `/v0/infer/object/${UNKNOWN}`],
      ["GET", `/v0/infer/object/${UNKNOWN}/`],
    ] as const) {
      const body = method === "POST" ? JSON.stringify([NOW]) : undefined;
      expectEnvelope(
        await stranger(method, path, body === undefined ? {} : { headers: JSON_TYPE, body }),
        401,
      );
    }
    expectEnvelope(await upload(stranger, "in.jsonl", lines(line("a", "x"))), 401);
  });

  it("is not taken from the query", async () => {
    const path = `/v0/infer/task/${UNKNOWN}?key=${issued.key}&api_key=${issued.key}`;
    const answer = await service.caller()("GET", path);
    expectEnvelope(answer, 401);
    expect(answer.text).not.toContain(issued.key);
  });

  it("ends for a key when it is revoked", async () => {
    const { id, key } = await service.createKey("acme");
    const revoked = service.caller(`Bearer ${key}`);
    expect((await revoked("GET", `/v0/infer/task/${UNKNOWN}`)).status).toBe(404);
    await service.revokeKey(id);
    await vi.waitFor(async () => expectEnvelope(await revoked("GET", `/v0/infer/task/${UNKNOWN}`), 401), {
      timeout: 3000,
      interval: 100,
    });
  });

  it("is not needed to ask whether the service is alive and ready", async () => {
    expect(await service.caller()("GET", "/healthz")).toMatchObject({ status: 200 });
    expect(await service.caller()("GET", "/readyz")).toMatchObject({ status: 200 });
  });
});

describe("ids of others", () => {
  let stranger: Call;
  let task: Answer;
  let file: Answer;

  beforeAll(async () => {
    stranger = service.caller(`Bearer ${(await service.createKey("other")).key}`);
    file = await upload(call, "in.jsonl", lines(line("a", "x")));
    task = await submit(call, [NOW]);
    await completedTask(call, task.body.task_id);
  });

  it.each(["", "/"])("a task of another project is unknown, with the path's end '%s'", async (slash) => {
    const theirs = await stranger("GET", `/v0/infer/task/${task.body.task_id}${slash}`);
    const unknown = await stranger("GET", `/v0/infer/task/${UNKNOWN}${slash}`);
    expectEnvelope(theirs, 404);
    expect(impersonal(theirs, task.body.task_id)).toEqual(impersonal(unknown, UNKNOWN));
  });

  it.each(["", "/"])("an object of another project is unknown, with the path's end '%s'", async (slash) => {
    const id = task.body.objects[0]?.object_id ?? "";
    const theirs = await stranger("GET", `/v0/infer/object/${id}${slash}`);
    const unknown = await stranger("GET", `/v0/infer/object/${UNKNOWN}${slash}`);
    expectEnvelope(theirs, 404);
    expect(impersonal(theirs, id)).toEqual(impersonal(unknown, UNKNOWN));
  });

  it("a file of another project is unknown in a submission", async () => {
    const theirs = await submit(stranger, [{ file_id: file.body.file_id, sla: 60 }]);
    const unknown = await submit(stranger, [{ file_id: UNKNOWN, sla: 60 }]);
    expectEnvelope(theirs, 404);
    expect(impersonal(theirs, file.body.file_id)).toEqual(impersonal(unknown, UNKNOWN));
  });

  it("ids of one kind are unknown among those of another", async () => {
    const { task_id } = task.body;
    expectEnvelope(await call("GET", `/v0/infer/object/${task_id}`), 404);
    expectEnvelope(await call("GET", `/v0/infer/task/${task.body.objects[0]?.object_id}`), 404);
    expectEnvelope(await submit(call, [{ file_id: task_id, sla: 60 }]), 404);
  });

  it("an invalid id is unknown", async () => {
    expectEnvelope(await call("GET", "/v0/infer/task/nothing"), 404);
    expectEnvelope(await call("GET", "/v0/infer/object/nothing/"), 404);
  });
});

describe("400 and 422: bodies", () => {
  it.each(["[", '[{"model":"echo:small","input":"x"}', "\u0000", "[{}]x"])("no JSON: %j", async (body) => {
    expectEnvelope(await call("POST", "/v0/infer/", { headers: JSON_TYPE, body }), 400);
  });

  it.each([
    ["an empty array", []],
    ["an object in place of the array", NOW],
    ["a text", "hello"],
    ["null", null],
    ["an element that is null", [null]],
    ["an element that is an array", [[NOW]]],
    ["an element without anything", [{}]],
    ["no input", [{ model: "echo:small" }]],
    ["no model", [{ input: "hello" }]],
    ["only an sla", [{ sla: 60 }]],
    ["a model that is a number", [{ ...NOW, model: 5 }]],
    ["a model without a provider", [{ ...NOW, model: "small" }]],
    ["an input that is an array", [{ ...NOW, input: ["hello"] }]],
    ["an input that is null", [{ ...NOW, input: null }]],
    ["two questions", [{ ...NOW, messages: [{ role: "user", content: "a" }] }]],
    ["tools without messages", [{ ...NOW, tools: [] }]],
    ["messages that are a text", [{ model: "echo:small", messages: "hello" }]],
    ["a misspelt setting", [{ ...NOW, temprature: 1 }]],
    ["a file and a model", [{ ...NOW, file_id: UNKNOWN }]],
    ["a file_id that is a number", [{ file_id: 7 }]],
    ["a good item and a faulty one", [NOW, { model: "echo:small" }]],
  ])("%s", async (_name, body) => {
    expectEnvelope(await submit(call, body), 422);
  });

  it.each(["status", "price_factor", "tenant", "project", "base_url", "priority", "__proto__"])(
    "the unknown field %s, inline and with a file",
    async (field) => {
      const inline = `[{"model":"echo:small","input":"x","${field}":1}]`;
      const file = `[{"file_id":"${UNKNOWN}","${field}":1}]`;
      for (const body of [inline, file]) {
        expectEnvelope(await call("POST", "/v0/infer/", { headers: JSON_TYPE, body }), 422);
      }
    },
  );

  it("a provider's file id is never taken", async () => {
    expectEnvelope(await submit(call, [{ file_id: "file-abc123", sla: 60 }]), [404, 422]);
  });

  it("names the field at fault in param", async () => {
    const answer = await submit(call, [NOW, { ...NOW, sla: 0 }]);
    expect(answer.body.error).toMatchObject({ param: expect.stringMatching(/1.*sla/) });
  });

  it("never repeats the input", async () => {
    const answer = await submit(call, [{ model: "small", input: "a canary's song" }]);
    expect(answer.text).not.toContain("canary");
  });
});

describe("404, 405, 413 and 415", () => {
  it("404 is what an unknown path is answered with", async () => {
    for (const path of ["/v0", "/v0/nothing", "/v2/infer/", "/v0/infer/task"]) {
      expectEnvelope(await call("GET", path), 404);
    }
  });

  it("405 names the methods that are allowed", async () => {
    for (const [method, path, allowed] of [
      ["PUT", "/v0/infer/", "POST"],
      ["PATCH", "/v0/infer", "POST"],
      ["PUT", `/v0/infer/task/${UNKNOWN}`, "GET"],
      ["POST", `/v0/infer/object/${UNKNOWN}/`, "GET"],
      ["POST", "/v0/files/in.jsonl", "PUT"],
    ] as const) {
      const answer = await call(method, path, { headers: JSON_TYPE, body: "[]" });
      expectEnvelope(answer, 405);
      expect(answer.headers.get("allow")).toContain(allowed);
    }
  });

  it("415 is what a body of another type is answered with", async () => {
    const body = JSON.stringify([NOW]);
    for (const type of [
      "text/plain",
      "application/x-www-form-urlencoded",
      "multipart/form-data; boundary=b",
    ]) {
      expectEnvelope(await call("POST", "/v0/infer/", { headers: { "content-type": type }, body }), 415);
    }
  });

  it.each(["gzip", "br", "zstd", "deflate"])(
    "415 is what a body in %s is answered with",
    async (encoding) => {
      const headers = { ...JSON_TYPE, "content-encoding": encoding };
      const body = gzipSync(JSON.stringify([NOW]));
      expectEnvelope(await call("POST", "/v0/infer/", { headers, body }), 415);
    },
  );

  it("415 is what a compressed upload is answered with", async () => {
    const form = new FormData();
    form.set("file", new Blob([lines(line("a", "x"))]), "x");
    const headers = { "content-encoding": "gzip" };
    expectEnvelope(await call("PUT", "/v0/files/in.jsonl", { headers, body: form }), 415);
  });

  it("a body of gigabytes is answered with 413 before it arrives", async () => {
    const headers = {
      ...JSON_TYPE,
      authorization: `Bearer ${issued.key}`,
      "content-length": String(4 * 2 ** 30),
    };
    const sent = sendExactly(service, { method: "POST", path: "/v0/infer/", headers, body: "[" });
    expectEnvelope(await sent, 413);
  });
});
