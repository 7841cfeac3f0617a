import { describe, expect, it } from "vitest";
import { PerigeeError } from "../../src/errors.ts";
import { openWorld } from "./world.ts";

const ID = "00000000-0000-4000-8000-000000000000";
const item = { model: "echo:test", input: "hello", sla: 60 };

describe("POST /v0/infer/", () => {
  it("answers a task whose object has usage from submission and neither output nor output_tokens", async () => {
    const { call } = await openWorld();
    const { status, json } = await call("POST", "/v0/infer/", { body: [item] });
    expect(status).toBe(200);
    expect(json).toMatchObject({ status: "submitted", total_items: 1, has_more: false });
    expect(json.objects[0]).toEqual({
      object_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      status: "submitted",
      phase: "queued",
      usage: { input_tokens: 5, price_factor: 0.5 },
      error: null,
    });
    expect(json).not.toHaveProperty("output_url");
  });

  it("says when an open task is expected to end, and whether its sla is at risk, in every body of it", async () => {
    const { call, tasks } = await openWorld();
    const { json: made } = await call("POST", "/v0/infer/", { body: [item] });
    const { json: polled } = await call("GET", `/v0/infer/task/${made.task_id}`);
    const { json: list } = await call("GET", "/v0/infer/tasks");
    for (const body of [made, polled, list.tasks[0]]) {
      expect(Date.parse(body.eta) - Date.parse(body.created_at)).toBe(30_000);
      expect(body.sla_at_risk).toBe(true);
    }
    tasks.finish(made.task_id);
    const { json: over } = await call("GET", `/v0/infer/task/${made.task_id}`);
    expect(over).toMatchObject({ status: "completed", eta: null });
    expect(over).not.toHaveProperty("sla_at_risk");
  });

  it("answers items without sla completed, with output", async () => {
    const { call } = await openWorld();
    const { json } = await call("POST", "/v0/infer", { body: [{ model: "echo:test", input: "now" }] });
    expect(json.status).toBe("completed");
    expect(json.objects[0]).toMatchObject({
      status: "completed",
      usage: { input_tokens: 3, price_factor: 1, output_tokens: 2 },
      output: { type: "text", text: "now" },
      error: null,
    });
  });

  it("returns output_url instead of objects when a file of answers was requested", async () => {
    const { call, url } = await openWorld();
    const { json } = await call("POST", "/v0/infer/", {
      body: [item],
      headers: { "Output-Format": "jsonl" },
    });
    expect(json).not.toHaveProperty("objects");
    expect(json.output_url.startsWith(`${url}/v0/`)).toBe(true);
    const { json: polled } = await call("GET", `/v0/infer/task/${json.task_id}`);
    expect(polled.objects).toHaveLength(1);
    expect(polled.output_url).toBe(json.output_url);
  });

  it("refuses another output format", async () => {
    const { call } = await openWorld();
    const { status, json } = await call("POST", "/v0/infer/", {
      body: [item],
      headers: { "Output-Format": "csv" },
    });
    expect([status, json.error.param]).toEqual([422, "Output-Format"]);
  });

  it.each([
    ["an sla of 0", [{ ...item, sla: 0 }], "0.sla"],
    ["an sla as text", [{ ...item, sla: "60" }], "0.sla"],
    ["an sla of a fraction", [{ ...item, sla: 1.5 }], "0.sla"],
    ["an sla above 30 days", [item, { ...item, sla: 43_201 }], "1.sla"],
    ["a missing model", [{ input: "x" }], "0.model"],
    ["a model without provider", [{ model: "gpt", input: "x" }], "0.model"],
    ["a missing input", [item, { model: "echo:test" }], "1.input"],
    ["an input that is not a text", [{ model: "echo:test", input: 7 }], "0.input"],
    ["a file item with a model", [{ file_id: ID, model: "echo:test" }], "0.model"],
    ["an invalid item", [7], "0"],
    ["null", [null], "0"],
    ["an empty list", [], "body"],
    ["an object instead of a list", { items: [item] }, "body"],
    ["text", '"hello"', "body"],
  ])("refuses %s with 422 and the place", async (_name, body, param) => {
    const { call } = await openWorld();
    const { status, json } = await call("POST", "/v0/infer/", { body });
    expect([status, json.error.type, json.error.code, json.error.param]).toEqual([
      422,
      "invalid_request_error",
      "invalid_request",
      param,
    ]);
    expect(json.request_id).toMatch(/^req_/);
  });

  it.each([
    [{ ...item, sla: "60" }, "item 0: sla must be whole minutes from 1 to 43200"],
    [{ input: "x" }, 'item 0: model must be "<provider>:<name>"'],
    [{ model: "echo:test" }, "item 0: input must be text; or set contents, or messages"],
    [
      { ...item, model: "gpt-5-mini" },
      'item 0: model must be "<provider>:<name>"; did you mean "openai:gpt-5-mini"?',
    ],
    [
      { model: "echo:test", prompt: "x" },
      'item 0: "prompt" is not a known name; the question is input, contents or messages',
    ],
    ["text", "item 0: must be an object with model and input, contents or messages, or with file_id"],
  ])("says of %j what was expected", async (wrong, message) => {
    const { call } = await openWorld();
    const { json } = await call("POST", "/v0/infer/", { body: [wrong] });
    expect(json.error.message).toBe(message);
  });

  it("says which content type is expected of a body that has another one", async () => {
    const { call } = await openWorld();
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    const { status, json } = await call("POST", "/v0/infer/", { body: JSON.stringify([item]), headers });
    expect([status, json.error.code]).toEqual([415, "unsupported_media_type"]);
    expect(json.error.message).toContain("with the Content-Type application/json");
  });

  it("answers 400 to a body that is not JSON, without a word of it", async () => {
    const { call } = await openWorld();
    for (const body of ['[{"input":"secret-canary"', "[}", "\u0000", "nul"]) {
      const { status, text, json } = await call("POST", "/v0/infer/", { body });
      expect([status, json.error.code]).toEqual([400, "invalid_request"]);
      expect(text).not.toContain("canary");
    }
  });

  it("reads a long list as a stream, in order", async () => {
    const { call, tasks } = await openWorld();
    const items = Array.from({ length: 20_000 }, (_, index) => ({
      model: "echo:test",
      input: `${index} ${"x".repeat(80)} "\\\u00e9\ud83d\ude00`,
      sla: 5,
    }));
    const { status, json } = await call("POST", "/v0/infer/", { body: items });
    expect([status, json.total_items, json.objects.length, json.has_more]).toEqual([
      200,
      20_000,
      10_000,
      true,
    ]);
    expect(json.last_id).toBe(json.objects[9_999].object_id);
    expect(tasks.held.get(json.task_id)?.inputs).toEqual(items.map(({ input }) => input));
  });

  it("names the wrong item of a long list by its index, and keeps the connection", async () => {
    const { call, tasks } = await openWorld();
    const items: object[] = Array.from({ length: 30_000 }, () => ({ ...item, input: "x".repeat(60) }));
    items[12_345] = { ...item, price_factor: 0.1 };
    const { status, json } = await call("POST", "/v0/infer/", { body: items });
    expect([status, json.error.param]).toEqual([422, "12345.price_factor"]);
    expect(tasks.held.size).toBe(0);
    expect((await call("POST", "/v0/infer/", { body: [item] })).status).toBe(200);
  });

  it("refuses a long body that breaks off, or goes on behind its array, and tells where", async () => {
    const { call } = await openWorld();
    const long = JSON.stringify({ ...item, input: "x".repeat(2_000_000) });
    for (const body of [`[${long}`, `[${long}]]`, `[${long},]`]) {
      const { status, json } = await call("POST", "/v0/infer/", { body });
      expect([status, json.error.code]).toEqual([400, "invalid_request"]);
      expect([1, 2]).toContain(json.error.from_element);
    }
  });

  it("refuses an item of a long body that is nested too deeply, by its index", async () => {
    const { call } = await openWorld();
    const deep = `${"[".repeat(100)}${"]".repeat(100)}`;
    const body = `[${JSON.stringify({ ...item, input: "x".repeat(2_000_000) })},${deep}]`;
    const { status, json } = await call("POST", "/v0/infer/", { body });
    expect([status, json.error.code, json.error.param]).toEqual([400, "too_deep", "1"]);
  });

  it("tells what the tasks refuse, with its facts", async () => {
    const { call, tasks } = await openWorld();
    tasks.failure = new PerigeeError("sla_infeasible", "too much waits", {
      details: { earliestSlaMinutes: 90, retryAfterSeconds: 30 },
    });
    const { status, json, headers } = await call("POST", "/v0/infer/", { body: [item] });
    expect([status, json.error.code, json.error.earliest_sla_minutes]).toEqual([429, "sla_infeasible", 90]);
    expect(headers.get("retry-after")).toBe("30");
    tasks.failure = new PerigeeError("budget_exceeded", "no money left");
    expect((await call("POST", "/v0/infer/", { body: [item] })).status).toBe(402);
  });
});

describe("a task", () => {
  it("is read with both slash forms alike, in pages", async () => {
    const { call } = await openWorld();
    const { json: made } = await call("POST", "/v0/infer/", { body: Array.from({ length: 5 }, () => item) });
    const first = await call("GET", `/v0/infer/task/${made.task_id}/?limit=3`);
    expect((await call("GET", `/v0/infer/task/${made.task_id}?limit=3`)).text).toBe(first.text);
    expect([first.json.objects.length, first.json.has_more]).toEqual([3, true]);
    const { json: rest } = await call("GET", `/v0/infer/task/${made.task_id}?after=${first.json.last_id}`);
    expect([rest.objects.length, rest.has_more]).toEqual([2, false]);
    expect(rest.objects[1].object_id).toBe(made.objects[4].object_id);
  });

  it("answers 304 until something changes, and makes its body once for each version", async () => {
    const { call, tasks } = await openWorld();
    const { json: made } = await call("POST", "/v0/infer/", { body: [item] });
    const path = `/v0/infer/task/${made.task_id}`;
    const first = await call("GET", path);
    const etag = first.headers.get("etag") ?? "";
    const reads = tasks.objectReads;
    expect((await call("GET", path, { headers: { "if-none-match": etag } })).status).toBe(304);
    expect((await call("GET", path)).text).toBe(first.text);
    expect(tasks.objectReads).toBe(reads);
    tasks.finish(made.task_id);
    const done = await call("GET", path, { headers: { "if-none-match": etag } });
    expect([done.status, done.json.status, done.json.objects[0].output.text]).toEqual([
      200,
      "completed",
      "hello",
    ]);
  });

  it("is listed, newest first, only to its project", async () => {
    const { call } = await openWorld();
    const ids = [];
    for (let n = 0; n < 3; n += 1)
      ids.unshift((await call("POST", "/v0/infer/", { body: [item] })).json.task_id);
    const { json } = await call("GET", "/v0/infer/tasks?limit=2");
    expect([json.tasks.map((task: { task_id: string }) => task.task_id), json.has_more]).toEqual([
      ids.slice(0, 2),
      true,
    ]);
    const { json: rest } = await call("GET", `/v0/infer/tasks?after=${json.last_id}`);
    expect(rest.tasks).toHaveLength(1);
    expect((await call("GET", "/v0/infer/tasks", { key: "key-two" })).json.tasks).toEqual([]);
  });

  it("is cancelled, and erased once it is final", async () => {
    const { call } = await openWorld();
    const { json: made } = await call("POST", "/v0/infer/", { body: [item] });
    const path = `/v0/infer/task/${made.task_id}`;
    expect((await call("DELETE", path)).status).toBe(409);
    const cancelled = await call("POST", `${path}/cancel`);
    expect([cancelled.status, cancelled.json.counts.cancelled]).toEqual([200, 1]);
    expect((await call("DELETE", path)).json).toEqual({ task_id: made.task_id, deleted: true });
    expect((await call("GET", path)).status).toBe(404);
  });

  it("refuses a page of 0 or 1,001, and an unknown parameter", async () => {
    const { call } = await openWorld();
    const { json: made } = await call("POST", "/v0/infer/", { body: [item] });
    for (const [query, param] of [
      ["limit=0", "limit"],
      ["limit=10001", "limit"],
      ["limit=x", "limit"],
    ]) {
      const { status, json } = await call("GET", `/v0/infer/task/${made.task_id}?${query}`);
      expect([status, json.error.param]).toEqual([422, param]);
    }
    expect((await call("GET", "/v0/infer/tasks?order=asc")).status).toBe(422);
  });
});

describe("an object", () => {
  it("is read by its id, with both slash forms, and 304 while it is the same", async () => {
    const { call, tasks } = await openWorld();
    const { json: made } = await call("POST", "/v0/infer/", { body: [item] });
    const path = `/v0/infer/object/${made.objects[0].object_id}`;
    const first = await call("GET", path);
    expect(first.json).toEqual(made.objects[0]);
    expect((await call("GET", `${path}/`)).text).toBe(first.text);
    const headers = { "if-none-match": first.headers.get("etag") ?? "" };
    expect((await call("GET", path, { headers })).status).toBe(304);
    tasks.finish(made.task_id);
    expect((await call("GET", path, { headers })).json).toMatchObject({
      status: "completed",
      usage: { output_tokens: 2 },
      output: { type: "text", text: "hello" },
      error: null,
    });
  });
});

describe("POST /v0/infer/task/{id}/retry", () => {
  it("answers the task and how many items run again, with a body and without", async () => {
    const { call, tasks } = await openWorld();
    const { json: made } = await call("POST", "/v0/infer/", { body: [item] });
    for (const body of [undefined, {}, { codes: ["expired", "filtered"] }]) {
      const { status, json } = await call("POST", `/v0/infer/task/${made.task_id}/retry`, { body });
      expect([status, json.task_id, json.retried, json.objects.length]).toEqual([200, made.task_id, 0, 1]);
    }
    expect(tasks.retries).toEqual([undefined, undefined, ["expired", "filtered"]]);
    const { json } = await call("POST", `/v0/infer/task/${made.task_id}/retry`);
    expect(json.hint).toBe("no item ended in an error; 1 are not final yet");
    await call("POST", `/v0/infer/task/${made.task_id}/cancel`);
    const hintOf = async (body?: object): Promise<unknown> =>
      (await call("POST", `/v0/infer/task/${made.task_id}/retry`, { body })).json.hint;
    expect(await hintOf()).toBe('cancelled items run again only with the code "cancelled"');
    expect(await hintOf({ codes: ["expired", "filtered"] })).toBe(
      "no item that may run again ended with expired or filtered",
    );
  });

  it.each([
    [{ codes: [] }, "codes"],
    [{ codes: "expired" }, "codes"],
    [{ code: ["expired"] }, 'body: "code" is not a known name; did you mean "codes"?'],
    [
      { codes: ["expired", "filterd"] },
      'codes.1: "filterd" is not the code of an error; did you mean "filtered"?',
    ],
  ])("refuses %j", async (body, told) => {
    const { call, tasks } = await openWorld();
    const { json: made } = await call("POST", "/v0/infer/", { body: [item] });
    const { status, json } = await call("POST", `/v0/infer/task/${made.task_id}/retry`, { body });
    expect([status, json.error.code]).toEqual([422, "invalid_request"]);
    expect(json.error.message).toContain(told);
    expect(tasks.retries).toEqual([]);
  });
});
