/**
 * The description against the service: every documented (path, method, status) is answered as documented, nothing
 * answers what is not documented, and nothing that is sent makes it fail.
 */
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { request } from "node:http";
import { connect } from "node:net";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PerigeeError } from "../../src/errors.ts";
import { type Conformance, callOpenai, known, refusedRange } from "./conformance_files.ts";
import { callFront } from "./conformance_front.ts";
import { callCatalogue, callClusters, callExecutions, callSecrets } from "./conformance_satellites.ts";
import { DescribedService } from "./described_service.ts";
import { isFleet } from "./serving.ts";
import { formOf, openWhole, type Whole, type WholeAnswer } from "./whole.ts";

const UNKNOWN = "00000000-0000-4000-8000-000000000000";
/** What a fleet does not answer at will: its tasks cannot be made to refuse, nor its files to be damaged. */
const ONLY_AT_WILL = / (402|410|429)$|retry 409$|^GET \/readyz 503$/;
const item = { model: "echo:test", input: "hello", sla: 60 };
const line = { key: "a", request: { model: "echo:test", contents: [{ parts: [{ text: "x" }] }] } };

let whole: Whole;
let described: DescribedService;

beforeAll(async () => {
  whole = await openWhole();
  described = await DescribedService.of(whole);
});
afterAll(() => whole.close());

const operations: DescribedService["operations"] = () => described.operations();
const check: Conformance["check"] = (...call) => described.check(...call);

/** A path whose parameters have no names, without a slash at its end. */
function placeOf(path: string): string {
  return path.replace(/\{\w+\}(\.jsonl)?/g, "{}").replace(/\/$/, "");
}

async function newTask(
  sla: number | undefined = 60,
  headers: Record<string, string> = {},
): Promise<{ task_id: string; objects: { object_id: string }[]; output_url: string }> {
  const body = [sla === undefined ? { model: "echo:test", input: "x" } : { ...item, sla }];
  const answer = await check("/v0/infer/", "POST", {}, { body, headers });
  expect(answer.status).toBe(200);
  return JSON.parse(answer.text);
}

async function finished(taskId: string): Promise<void> {
  for (;;) {
    const { text } = await whole.call("GET", `/v0/infer/task/${taskId}`);
    if ((JSON.parse(text) as { status: string }).status !== "submitted") return;
  }
}

async function newFile(lines: readonly object[] = [line]): Promise<string> {
  const { text } = await check(
    "/v0/files/{file_name}",
    "PUT",
    { file_name: "in.jsonl" },
    { body: formOf(lines) },
  );
  return (JSON.parse(text) as { file_id: string }).file_id;
}

/** Of a request whose body never comes. */
async function statusOf(
  method: string,
  path: string,
  headers: Record<string, string>,
): Promise<number | undefined> {
  const sent = request(whole.url + path, { method, headers: { authorization: "Bearer own", ...headers } });
  sent.flushHeaders();
  sent.on("error", () => undefined);
  const [response] = (await once(sent, "response")) as [{ statusCode?: number }];
  sent.destroy();
  return response.statusCode;
}

/** No provider of its model is configured: its task is held until the service ends. */
async function newFileAtWork(): Promise<string> {
  const file_id = await newFile([
    { key: "held", request: { model: "openai:gpt-4o-mini", contents: [{ parts: [{ text: "x" }] }] } },
  ]);
  await check("/v0/infer/", "POST", {}, { body: [{ file_id, sla: 60 }] });
  return file_id;
}

describe("the description", () => {
  it("is OpenAPI 3.1 with every registered route", async () => {
    expect(described.description.openapi).toBe("3.1.0");
    for (const [path, method] of operations()) {
      const answer = await whole.call(method, path.replace(/\{\w+\}/g, UNKNOWN), { key: "" });
      expect([path, method, answer.status]).not.toEqual([path, method, 405]);
    }
  });

  it("names the methods and paths of the reference page, each of them once", async () => {
    const page = readFileSync(new URL("../../docs/reference/http.md", import.meta.url), "utf8");
    const rows = [...page.matchAll(/^\| `([A-Z]+) (\/\S+)` \| (.+?) \|/gm)];
    const told = rows.map(([, method, path = ""]) => `${method} ${placeOf(path)}`);
    expect(told.toSorted()).toEqual(
      described
        .documented()
        .map(([path, method]) => `${method} ${placeOf(path)}`)
        .toSorted(),
    );
  });

  it("is shown as a page, whose policy runs no inline script and lets nothing in from elsewhere", async () => {
    const { text, headers } = await whole.call("GET", "/docs", { key: "" });
    expect(headers.get("content-security-policy")).toMatch(
      /^default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; /,
    );
    expect(headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(text).not.toMatch(/<script(?![^>]*src=)|\son\w+=|style=|https?:\/\/(?!www\.w3\.org)/);
    const named = [...text.matchAll(/(?:src|href)="(docs\/[^"]+)"/g)].map(([, path]) => `/${path}`);
    expect(named).toHaveLength(4);
    for (const path of named)
      expect([path, (await whole.call("GET", path, { key: "" })).status]).toEqual([path, 200]);
    const slash = await whole.call("GET", "/docs/", { key: "" });
    expect([slash.status, slash.headers.get("location")]).toEqual([308, "../docs"]);
  });
});

describe("every operation", () => {
  it("answers valid requests with its documented bodies", async () => {
    const task = await newTask(60, { "Output-Format": "jsonl" });
    const { objects } = await newTask(undefined);
    const file_id = await newFile();
    const withFile = await check("/v0/infer/", "POST", {}, { body: [{ file_id, sla: 5 }, item] });
    expect([withFile.status, JSON.parse(withFile.text).total_items]).toEqual([200, 2]);
    const id = task.task_id;
    const values = { id, file_id, name: `${id}.jsonl`, file_name: "in.jsonl" };
    await finished(id);
    const tag = (await check("/v0/infer/task/{id}", "GET", values)).headers.get("etag") ?? "";
    await check("/v0/infer/task/{id}", "GET", values, { headers: { "if-none-match": tag } });
    const object = { id: objects[0]?.object_id ?? "" };
    const objectTag = (await check("/v0/infer/object/{id}", "GET", object)).headers.get("etag") ?? "";
    await check("/v0/infer/object/{id}", "GET", object, { headers: { "if-none-match": objectTag } });
    expect((await check("/v0/infer/object/{id}/receipt", "GET", object)).status).toBe(200);
    await check("/v0/infer/tasks", "GET", {}, { query: "?limit=1" });
    const keyed = { headers: { "idempotency-key": "infer" } };
    await check("/v0/infer/", "POST", {}, { body: [item], ...keyed });
    expect((await check("/v0/infer/", "POST", {}, { body: [item, item], ...keyed })).status).toBe(409);
    await whole.refused(new PerigeeError("idempotency_in_progress", "not answered yet"), async () =>
      expect((await check("/v0/infer/", "POST", {}, { body: [item] })).status).toBe(409),
    );
    await check("/v0/infer/task/{id}/cancel", "POST", values);
    await check("/v0/infer/task/{id}/retry", "POST", values);
    expect((await check("/v0/infer/task/{id}/retry", "POST", values, { body: [item] })).status).toBe(422);
    const body = { codes: ["filtered"] };
    expect(
      JSON.parse((await check("/v0/infer/task/{id}/retry", "POST", values, { body })).text).retried,
    ).toBe(0);
    await check("/v0/infer/task/{id}", "DELETE", { id: await finishedTask() });
    for (const path of ["/v0/usage", "/healthz", "/readyz", "/v0/files/"]) await check(path, "GET", {});
    await check("/v0/margin", "GET", {}, { key: "operator" });
    await check("/v0/quote", "POST", {}, { body: [item] });
    await check("/v0/files/{file_id}", "GET", values);
    await check("/v0/files/{file_id}/content", "GET", values);
    await check("/v0/files/{file_id}/content", "GET", values, { headers: { range: "bytes=0-3" } });
    await check("/v0/files/output/{name}", "GET", values);
    await check("/v0/files/output/{name}", "GET", values, refusedRange);
    await check("/v0/files/{file_id}/content", "GET", values, refusedRange);
    await check("/v0/files/{file_id}/content", "GET", values, known);
    await check("/v0/files/{file_id}", "DELETE", { file_id: await newFileAtWork() });
    await check("/v0/files/output/{name}", "GET", values, { headers: { range: "bytes=0-3" } });
    await check("/v0/files/output/{name}", "GET", values, known);
    const { url } = JSON.parse((await check("/v0/files/output/{name}/link", "POST", values)).text) as {
      url: string;
    };
    const token = url.split("/").at(-1) as string;
    await check("/v0/files/link/{token}", "GET", { token });
    await check("/v0/files/link/{token}", "GET", { token }, refusedRange);
    await check("/v0/files/link/{token}", "GET", { token }, { headers: { range: "bytes=0-3" } });
    await check("/v0/files/link/{token}", "GET", { token }, known);
    await check("/v0/files/{file_id}", "DELETE", { file_id: await newFile() });
  });

  it("answers valid requests for webhooks with its documented bodies", async () => {
    const body = { url: "https://hooks.example.org/in" };
    const made = await check("/v0/webhooks", "POST", {}, { body: { ...body, events: ["task.failed"] } });
    expect(made.status).toBe(200);
    const { id } = JSON.parse(made.text) as { id: string };
    expect((await check("/v0/webhooks", "GET", {}, { query: `?after=${UNKNOWN}` })).status).toBe(404);
    await check("/v0/webhooks", "GET", {});
    await check("/v0/webhooks/{id}", "GET", { id });
    await check("/v0/webhooks/{id}", "PATCH", { id }, { body: { url: "http://127.0.0.1:1/" } });
    expect(
      (await check("/v0/webhooks/{id}", "PATCH", { id }, { body: { url: "http://10.0.0.1/" } })).status,
    ).toBe(422);
    expect((await check("/v0/webhooks/{id}", "PATCH", { id }, { body: [item] })).status).toBe(422);
    await check("/v0/webhooks/{id}/rotate", "POST", { id });
    await check("/v0/webhooks/{id}/test", "POST", { id });
    await check("/v0/webhooks/{id}/deliveries", "GET", { id });
    await check("/v0/webhooks/{id}", "DELETE", { id });
  });

  async function finishedTask(): Promise<string> {
    const { task_id } = await newTask(undefined);
    await finished(task_id);
    return task_id;
  }

  it("refuses a missing key, a missing scope, too many calls, unknown ids and invalid queries", async () => {
    for (const [path, method, operation] of operations()) {
      const isForm = operation.requestBody?.content["multipart/form-data"] !== undefined;
      const body = operation.requestBody === undefined ? {} : { body: isForm ? formOf([line]) : [item] };
      if (operation.security?.length === 1) {
        expect((await check(path, method, {}, { ...body, key: "" })).status).toBe(401);
        expect((await check(path, method, {}, { ...body, key: "powerless" })).status).toBe(403);
        if (!isFleet) expect((await check(path, method, {}, { ...body, key: "hurried" })).status).toBe(429);
      }
      const inPath = operation.parameters?.filter((parameter) => parameter.in === "path") ?? [];
      if (inPath.length > 0 && method !== "PUT") {
        for (const value of [UNKNOWN, "x", "x".repeat(700), "%00", "%2e%2e%2f", "%F0%9F%92%A9"]) {
          const values = Object.fromEntries(inPath.map(({ name }) => [name, value]));
          const { status } = await check(path, method, values, { ...body, key: "operator" });
          expect([path, value, status]).toEqual([path, value, 404]);
        }
      }
      expect(
        (await check(path, method, {}, { ...body, key: "operator", query: "?no-such-parameter=1" })).status,
      ).toBe(422);
    }
    expect((await check("/v0/infer/tasks", "GET", {}, { query: `?after=${UNKNOWN}` })).status).toBe(404);
    expect((await check("/v0/files/", "GET", {}, { query: `?after=${UNKNOWN}` })).status).toBe(404);
  });

  it("names the headers that change what a request does", () => {
    const named = operations().flatMap(([path, method, operation]) => {
      const names = (operation.parameters ?? []).flatMap(({ name, in: place }) =>
        place === "header" ? [name] : [],
      );
      return names.length === 0 ? [] : [`${method} ${path} ${names.join(" ")}`];
    });
    expect(named.sort()).toEqual([
      "POST /v0/infer/ Idempotency-Key Output-Format x-perigee-schema x-perigee-cache",
      "POST /v0/quote x-perigee-schema",
      "POST /v1/batches Idempotency-Key x-perigee-schema x-perigee-cache",
      "POST /v1/chat/completions Idempotency-Key x-perigee-sla x-perigee-cache",
      "POST /v1/clusters Idempotency-Key",
      "POST /v1/completions Idempotency-Key x-perigee-sla x-perigee-cache",
      "POST /v1/embeddings Idempotency-Key x-perigee-sla x-perigee-cache",
      "POST /v1/responses Idempotency-Key x-perigee-sla x-perigee-cache",
      "POST /v1/satellites/{project}/{satellite} Idempotency-Key",
    ]);
  });

  it("of OpenAI's interface answers valid requests and wrong ones with its documented bodies", async () => {
    await callOpenai(described);
    await callFront(described);
  });

  it("of satellites answers valid requests and wrong ones with its documented bodies", async () => {
    await callSecrets(described);
    await callExecutions(described);
    await callClusters(described);
    await callCatalogue(described);
  });

  it("refuses invalid bodies", async () => {
    for (const [path, method, operation] of operations()) {
      if (operation.requestBody === undefined) continue;
      const isForm = operation.requestBody.content["multipart/form-data"] !== undefined;
      await check(path, method, {}, { body: "[", headers: { "content-type": "text/plain" } });
      if (isForm) continue;
      await check(path, method, {}, { body: "[" });
      await check(path, method, {}, { body: `["${"x".repeat(11 * 1024 * 1024)}"]` });
      await check(path, method, {}, { body: [{ file_id: UNKNOWN, sla: 5 }] });
      const json = fc.sample(fc.jsonValue({ maxDepth: 4 }), 60);
      for (const body of json) await check(path, method, {}, { body: JSON.stringify(body) });
      const fields = fc.record(
        {
          model: fc.oneof(fc.string(), fc.constant("echo:x"), fc.integer()),
          input: fc.oneof(fc.string({ unit: "binary" }), fc.constant(null)),
          sla: fc.oneof(fc.integer(), fc.double(), fc.constant(60), fc.string()),
          file_id: fc.oneof(fc.uuid(), fc.string()),
        },
        { requiredKeys: [] },
      );
      for (const body of fc.sample(fc.array(fields, { maxLength: 3 }), 60))
        await check(path, method, {}, { body });
    }
  });

  it("refuses bodies where it reads none, but for empty ones", async () => {
    const { task_id: id } = await newTask(60);
    for (const [path, method, operation] of operations()) {
      if (operation.requestBody !== undefined || /^(GET|HEAD)$/.test(method)) continue;
      const refused = async (body: unknown, headers = {}): Promise<number> =>
        (await check(path, method, {}, { body, headers, key: "operator" })).status;
      expect([path, await refused({ reason: "late" })]).toEqual([path, 422]);
      expect([path, await refused([item])]).toEqual([path, 422]);
      expect([path, await refused("[")]).toEqual([path, 400]);
      expect([path, await refused("x", { "content-type": "text/plain" })]).toEqual([path, 415]);
      expect([path, await refused(`["${"x".repeat(11 * 1024 * 1024)}"]`)]).toEqual([path, 413]);
    }
    for (const body of ["{}", "null", ""])
      expect((await check("/v0/infer/task/{id}/cancel", "POST", { id }, { body })).status).toBe(200);
  });

  it("refuses bodies that are nested too deeply, wherever a body may come", async () => {
    const deep = `${'{"a":['.repeat(5_000)}${"]}".repeat(5_000)}`;
    for (const [path, method, operation] of operations()) {
      const isForm = operation.requestBody?.content["multipart/form-data"] !== undefined;
      if (isForm || /^(GET|HEAD)$/.test(method)) continue;
      for (const body of [deep, `[${deep}]`, `{"input":${deep}}`]) {
        const { status, text } = await check(path, method, {}, { body, key: "operator" });
        expect([path, status, (JSON.parse(text) as { error: { code: string } }).error.code]).toEqual([
          ...[path, 400, "too_deep"],
        ]);
      }
    }
  });

  it("tells what the tasks refuse", async () => {
    await whole.refused(new PerigeeError("budget_exceeded", "no money left"), async () =>
      expect((await check("/v0/infer/", "POST", {}, { body: [item] })).status).toBe(402),
    );
    const { task_id: id } = await newTask(60);
    for (const [code, status] of [
      ["budget_exceeded", 402],
      ["conflict", 409],
      ["file_damaged", 410],
    ] as const) {
      await whole.refused(new PerigeeError(code, "not run again"), async () =>
        expect((await check("/v0/infer/task/{id}/retry", "POST", { id })).status).toBe(status),
      );
    }
    const { task_id } = JSON.parse(
      (await whole.call("POST", "/v0/infer/", { body: Array(1_000).fill(item) })).text,
    );
    expect((await check("/v0/infer/task/{id}", "DELETE", { id: task_id })).status).toBe(409);
    const { text } = await check("/v0/infer/task/{id}", "GET", { id: task_id });
    const open = (JSON.parse(text) as { objects: { object_id: string }[] }).objects.at(-1);
    const receipt = await check("/v0/infer/object/{id}/receipt", "GET", { id: open?.object_id ?? "" });
    expect(receipt.status).toBe(409);
  });

  it.skipIf(isFleet)("says that the bytes of a file are not those that came", async () => {
    const file_id = await newFile();
    whole.damage(file_id);
    const body = [{ file_id }];
    const openaiId = `file-${file_id.replaceAll("-", "")}`;
    const found = [
      await check("/v0/infer/", "POST", {}, { body }),
      await check("/v0/quote", "POST", {}, { body }),
      await check("/v0/files/{file_id}/content", "GET", { file_id }),
      await check("/v1/files/{id}/content", "GET", { id: openaiId }),
    ];
    expect(found.map(({ status }) => status)).toEqual([410, 410, 410, 410]);
  });

  it("refuses invalid forms, and bodies that are too large before they arrive", async () => {
    const path = "/v0/files/{file_name}";
    const put = (
      body: unknown,
      name = "in.jsonl",
      headers: Record<string, string> = {},
    ): Promise<WholeAnswer> => check(path, "PUT", { file_name: name }, { body, headers });
    expect((await put("x", "in.jsonl", { "content-type": "text/plain" })).status).toBe(415);
    expect((await put("x", "in.jsonl", { "content-type": "multipart/form-data" })).status).toBe(400);
    expect((await put(formOf([line]), "%00")).status).toBe(400);
    expect((await put(formOf([line, line]))).status).toBe(422);
    const large = {
      "content-length": String(4 * 1024 ** 3),
      "content-type": "multipart/form-data; boundary=x",
    };
    expect(await statusOf("PUT", "/v0/files/in.jsonl", large)).toBe(413);
    described.seen.add(`PUT ${path} 413`);
    const json = { "content-length": String(2 * 1024 ** 3), "content-type": "application/json" };
    expect(await statusOf("POST", "/v0/infer/", json)).toBe(413);
    described.seen.add("POST /v0/infer/ 413");
  });

  it.skipIf(isFleet)("says that it is not ready while it closes", async () => {
    const socket = connect(Number(new URL(whole.url).port), "127.0.0.1");
    socket.write("GET /readyz HTTP/1.1\r\nhost: x\r\n");
    await new Promise((resolve) => setTimeout(resolve, 50));
    const closed = whole.service?.close();
    socket.write("\r\n");
    const [bytes] = (await once(socket, "data")) as [Buffer];
    expect(bytes.toString()).toMatch(/^HTTP\/1\.1 503 /);
    described.seen.add("GET /readyz 503");
    await closed;
  });

  it("was answered with every status that is documented for it", async () => {
    const missing = operations().flatMap(([path, method, { responses }]) =>
      Object.keys(responses)
        .map((status) => `${method} ${path} ${status}`)
        .filter((place) => !described.seen.has(place)),
    );
    expect(missing.filter((place) => !isFleet || !ONLY_AT_WILL.test(place))).toEqual([]);
  });
});
