/**
 * A whole batch by the official SDKs of Anthropic and Google, and by our wires, against one recording server on loopback: both send the
 * same requests, and both understand its answers.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { anthropicBatches } from "../../src/providers/batches/anthropic_batches.ts";
import type { BatchRequest, RemoteWire, UploadStep } from "../../src/providers/batches/batch_wire.ts";
import { geminiBatches } from "../../src/providers/batches/gemini_batches.ts";
import { deferredWireOf } from "../../src/providers/deferred/gemini_deferred.ts";
import type { WireAnswer } from "../../src/providers/index.ts";
import { linesOf, sentBody, settingsOf, TAG } from "../providers/batches/wires.ts";

interface Recorded {
  readonly line: string;
  readonly headers: IncomingHttpHeaders;
  /** Parsed if it is JSON. */
  readonly body: unknown;
}

interface Reply {
  readonly body: object | string;
  readonly headers?: Readonly<Record<string, string>>;
}

let server: Server;
let base: string;
let recorded: Recorded[] = [];
let reply: (line: string) => Reply = () => ({ body: {} });
const dir = mkdtempSync(join(tmpdir(), "perigee-batch-sdks-"));

beforeAll(async () => {
  server = createServer((incoming, outgoing) => {
    const chunks: Buffer[] = [];
    incoming.on("data", (chunk) => chunks.push(chunk));
    incoming.on("end", () => {
      const url = new URL(incoming.url ?? "/", "http://any");
      url.searchParams.sort();
      const line = `${incoming.method} ${url.pathname}${url.search}`;
      const body = parsed(Buffer.concat(chunks).toString());
      // Google's SDK deletes with an empty object, which says nothing.
      const isNothing = incoming.method === "DELETE" && JSON.stringify(body) === "{}";
      recorded.push({ line, headers: incoming.headers, body: isNothing ? "" : body });
      const { body: answer, headers } = reply(line);
      outgoing.writeHead(200, { "content-type": "application/json", ...headers });
      outgoing.end(typeof answer === "string" ? answer : JSON.stringify(answer));
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterEach(() => {
  recorded = [];
});

afterAll(() => {
  server.closeAllConnections();
  server.close();
  rmSync(dir, { recursive: true, force: true });
});

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Sends one of our requests, as whoever works on batches does. */
async function send(
  request: BatchRequest | undefined,
  lines: readonly Uint8Array[] = [],
): Promise<WireAnswer> {
  if (request === undefined) throw new Error("no request");
  const body = sentBody(request, lines);
  const response = await fetch(`${request.origin}${request.path}`, {
    method: request.method,
    headers: request.headers,
    ...(body === "" ? {} : { body }),
  });
  const bytes = new Uint8Array(await response.arrayBuffer());
  return { status: response.status, headers: Object.fromEntries(response.headers), body: bytes, wallMs: 0 };
}

function batchOf(wire: RemoteWire, answer: WireAnswer) {
  const result = wire.read(answer);
  if (!result.ok) throw new Error(result.message);
  return result.batch;
}

/** What was recorded since the last call. */
function taken(): Recorded[] {
  const all = recorded;
  recorded = [];
  return all;
}

/** The same requests in the same order: address, JSON body, and the headers that both must send. */
function expectSame(
  ours: readonly Recorded[],
  theirs: readonly Recorded[],
  headers: readonly string[],
): void {
  expect(ours.map(({ line }) => line)).toEqual(theirs.map(({ line }) => line));
  ours.forEach(({ line, body, headers: sent }, index) => {
    expect(body, line).toEqual(theirs[index]?.body);
    for (const name of headers) expect(sent[name], `${line} ${name}`).toBe(theirs[index]?.headers[name]);
  });
}

describe("Anthropic's SDK and our wire", () => {
  const message = (text: string): object => ({
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "claude-opus-5-5",
    content: [{ type: "text", text }],
    stop_reason: "end_turn",
    usage: { input_tokens: 5, output_tokens: 2, service_tier: "batch" },
  });
  const results = [
    { custom_id: `${TAG}-1`, result: { type: "succeeded", message: message("one") } },
    {
      custom_id: `${TAG}-0`,
      result: { type: "errored", error: { type: "error", error: { type: "api_error", message: "m" } } },
    },
  ];

  function batch(id: string, state: string): object {
    return {
      id,
      type: "message_batch",
      processing_status: state,
      request_counts: { processing: 0, succeeded: 1, errored: 1, canceled: 0, expired: 0 },
      created_at: "2026-11-20T10:00:00Z",
      expires_at: "2026-11-21T10:00:00Z",
      ended_at: null,
      archived_at: null,
      cancel_initiated_at: null,
      results_url: state === "ended" ? `${base}/v1/messages/batches/${id}/results` : null,
    };
  }

  function answerTo(line: string): Reply {
    if (line === "GET /v1/messages/batches?limit=100")
      return { body: { data: [batch("b2", "in_progress")], has_more: true, first_id: "b2", last_id: "b2" } };
    if (line.startsWith("GET /v1/messages/batches?"))
      return { body: { data: [batch("b1", "ended")], has_more: false, first_id: "b1", last_id: "b1" } };
    if (line.endsWith("/results"))
      return { body: results.map((each) => `${JSON.stringify(each)}\n`).join("") };
    if (line.startsWith("DELETE")) return { body: { id: "b1", type: "message_batch_deleted" } };
    if (line.endsWith("/cancel")) return { body: batch("b1", "canceling") };
    return { body: batch("b1", line.startsWith("GET") ? "ended" : "in_progress") };
  }

  it("send the same requests, and read the same of the answers", async () => {
    reply = answerTo;
    const params = {
      model: "claude-opus-5-5",
      max_tokens: 64,
      messages: [{ role: "user" as const, content: "Hi" }],
    };
    const client = new Anthropic({ apiKey: "k", baseURL: base, maxRetries: 0 });
    const batches = client.messages.batches;
    const created = await batches.create({
      requests: [0, 1].map((index) => ({ custom_id: `${TAG}-${index}`, params })),
    });
    const got = await batches.retrieve("b1");
    const listed: string[] = [];
    for await (const each of batches.list({ limit: 100 })) listed.push(each.id);
    await batches.cancel("b1");
    const shown: object[] = [];
    for await (const each of await batches.results("b1")) shown.push(each);
    await batches.delete("b1");
    const theirs = taken();

    const wire = anthropicBatches({ ...settingsOf("anthropic", base), key: "k", apiVersion: "2026-10-21" });
    const { lines, payload } = linesOf(wire, [JSON.stringify(params), JSON.stringify(params)]);
    const ourCreated = batchOf(wire, await send(wire.create(payload, undefined), lines));
    const ourGot = batchOf(wire, await send(wire.get("b1")));
    const ourListed: string[] = [];
    let next: BatchRequest | undefined = wire.list({ payload, sinceWallMs: 0 });
    while (next !== undefined) {
      const page = wire.readPage(await send(next), { payload, sinceWallMs: 0 });
      if (!page.ok) throw new Error(page.message);
      ourListed.push(...page.batches.map(({ id }) => id));
      next = page.next;
    }
    const cancelled = batchOf(wire, await send(wire.cancel("b1")));
    const again = batchOf(wire, await send(wire.get("b1"))); // the SDK gets the batch before its results
    const file = await send(again.results[0]?.request);
    await send(wire.remove(again)[0]);
    expectSame(taken(), theirs, ["authorization", "x-api-key", "anthropic-version"]);

    expect(ourCreated.id).toBe(created.id);
    expect(ourGot).toMatchObject({ rawState: got.processing_status, end: "completed" });
    expect(ourListed).toEqual(listed);
    expect(cancelled.isCancelling).toBe(true);
    const elements = Buffer.from(file.body).toString().trimEnd().split("\n");
    expect(elements.map((each) => JSON.parse(each))).toEqual(shown);
    expect(elements.map((each) => wire.result(Buffer.from(each)).is)).toEqual(["answered", "answered"]);
  });
});

describe("Google's SDK and our wire", () => {
  const contents = [{ role: "user", parts: [{ text: "Hi" }] }];
  const response = {
    candidates: [{ content: { role: "model", parts: [{ text: "one" }] }, finishReason: "STOP" }],
  };
  const result = { key: `${TAG}-0`, response };

  function operation(id: string, output?: object): object {
    const state = output === undefined ? "BATCH_STATE_RUNNING" : "BATCH_STATE_SUCCEEDED";
    const metadata = {
      state,
      displayName: TAG,
      createTime: "2026-11-20T10:00:00Z",
      batchStats: { requestCount: "2" },
    };
    return output === undefined
      ? { name: id, metadata }
      : { name: id, done: true, metadata: { ...metadata, output }, response: output };
  }

  function answerTo(line: string): Reply {
    if (line === "POST /upload/v1beta/files")
      return { body: {}, headers: { "x-goog-upload-url": `${base}/upload/v1beta/files?upload_id=u1` } };
    if (line.startsWith("POST /upload"))
      return { body: { file: { name: "files/f1" } }, headers: { "x-goog-upload-status": "final" } };
    if (line.includes(":download")) return { body: `${JSON.stringify(result)}\n` };
    if (line.startsWith("GET /v1beta/batches?"))
      return line.includes("pageToken")
        ? { body: { operations: [operation("batches/b1", { responsesFile: "files/r1" })] } }
        : { body: { operations: [operation("batches/b2")], nextPageToken: "t1" } };
    if (line === "GET /v1beta/batches/b1")
      return { body: operation("batches/b1", { responsesFile: "files/r1" }) };
    if (line === "GET /v1beta/batches/b3") {
      const inlinedResponses = { inlinedResponses: [{ metadata: { key: `${TAG}-0` }, response }] };
      return { body: operation("batches/b3", { inlinedResponses }) };
    }
    return { body: line.includes(":batchGenerateContent") ? operation("batches/b1") : {} };
  }

  const settings = () => ({ ...settingsOf("gemini", base), key: "k" });
  const sdk = () => new GoogleGenAI({ apiKey: "k", httpOptions: { baseUrl: base, apiVersion: "v1beta" } });

  it("upload the same file, make the same batch of it, and read the same of the answers", async () => {
    reply = answerTo;
    const wire = geminiBatches(settings(), {
      inlineBytesMax: 0,
      webhook: { uris: ["https://me.test/hook"] },
    });
    const model = "gemini-3.8-flash";
    const { lines, payload } = linesOf(
      wire,
      [JSON.stringify({ contents }), JSON.stringify({ contents })],
      model,
    );

    const ai = sdk();
    const content = new Blob(lines.map((line) => `${Buffer.from(line)}\n`));
    const uploaded = await ai.files.upload({
      file: content,
      config: { displayName: TAG, mimeType: "application/jsonl" },
    });
    const created = await ai.batches.create({
      model,
      src: uploaded.name ?? "",
      config: { displayName: TAG, webhookConfig: { uris: ["https://me.test/hook"] } },
    });
    const got = await ai.batches.get({ name: "batches/b1" });
    const listed: (string | undefined)[] = [];
    for await (const each of await ai.batches.list({ config: { pageSize: 100 } })) listed.push(each.name);
    await ai.batches.cancel({ name: "batches/b1" });
    await ai.batches.delete({ name: "batches/b1" });
    await ai.files.delete({ name: "files/r1" });
    const theirs = taken();
    const downloadPath = join(dir, "results.jsonl");
    await ai.files.download({ file: "files/r1", downloadPath });
    const [theirDownload] = taken();

    const first = wire.upload(payload);
    if (first === undefined) throw new Error("no upload");
    const second = nextOf(first.read(await send(first.request)));
    const file = second.read(await send(second.request, lines));
    if (!file.ok || !("file" in file)) throw new Error("no file");
    const ourCreated = batchOf(wire, await send(wire.create(payload, file.file), lines));
    const ourGot = batchOf(wire, await send(wire.get("batches/b1")));
    const ourListed: string[] = [];
    let next: BatchRequest | undefined = wire.list({ payload, sinceWallMs: 0 });
    while (next !== undefined) {
      const page = wire.readPage(await send(next), { payload, sinceWallMs: 0 });
      if (!page.ok) throw new Error(page.message);
      ourListed.push(...page.batches.map(({ id }) => id));
      next = page.next;
    }
    await send(wire.cancel("batches/b1"));
    for (const request of wire.remove(ourGot)) await send(request);
    const ours = taken();
    expectSame(ours, theirs, [
      "x-goog-api-key",
      "x-goog-upload-protocol",
      "x-goog-upload-command",
      "x-goog-upload-offset",
    ]);
    for (const name of ["x-goog-upload-header-content-length", "x-goog-upload-header-content-type"])
      expect(ours[0]?.headers[name], name).toBe(theirs[0]?.headers[name]);
    expect(file.file).toBe(uploaded.name);
    expect(ourCreated).toMatchObject({ id: created.name, tag: created.displayName });
    expect(ourGot).toMatchObject({ end: "completed", files: [got.dest?.fileName] });
    expect(got.state).toBe("JOB_STATE_SUCCEEDED");
    expect(ourListed).toEqual(listed);

    const download = await send(ourGot.results[0]?.request);
    const [ourDownload] = taken();
    expect(Buffer.from(download.body).toString()).toBe(readFileSync(downloadPath, "utf8"));
    // The SDK leaves out the prefix that Google's pages have.
    expect(ourDownload?.line.replace("/download/v1beta/", "/v1beta/")).toBe(theirDownload?.line);
    expect(wire.result(download.body.subarray(0, -1))).toMatchObject({
      is: "answered",
      id: `${TAG}-0`,
      status: 200,
    });
  });

  it("send the same small batch inline, and read the same of its results", async () => {
    reply = answerTo;
    const wire = geminiBatches(settings());
    const model = "gemini-3.8-flash";
    const { lines, payload } = linesOf(
      wire,
      [JSON.stringify({ contents }), JSON.stringify({ contents })],
      model,
    );
    const ai = sdk();
    await ai.batches.create({
      model,
      src: [0, 1].map((index) => ({ contents, metadata: { key: `${TAG}-${index}` } })),
      config: { displayName: TAG },
    });
    const got = await ai.batches.get({ name: "batches/b3" });
    const theirs = taken();
    expect(wire.upload(payload)).toBe(undefined);
    await send(wire.create(payload, undefined), lines);
    const answered = await send(wire.get("batches/b3"));
    expectSame(taken(), theirs, ["x-goog-api-key"]);

    const [source] = batchOf(wire, answered).results;
    let value: unknown = JSON.parse(Buffer.from(answered.body).toString());
    for (const name of source?.path ?? []) value = (value as Record<string, unknown>)[name];
    expect(value).toEqual([{ metadata: { key: `${TAG}-0` }, response }]);
    const [element] = value as object[];
    expect(wire.result(Buffer.from(JSON.stringify(element)))).toMatchObject({
      is: "answered",
      id: `${TAG}-0`,
    });
    expect(got.dest?.inlinedResponses).toMatchObject([{ metadata: { key: `${TAG}-0` } }]);
  });

  function nextOf(read: ReturnType<UploadStep["read"]>): UploadStep {
    if (!read.ok || !("next" in read)) throw new Error("no next step");
    return read.next;
  }
});

describe("Google's SDK and our wire of its deferred tier", () => {
  const interaction = (status: string, more: object = {}): object => ({
    ...{ id: "v1_Chd/=1", status, model: "gemini-3.8-flash", service_tier: "deferred" },
    ...{ created: "2026-11-20T10:00:00Z", updated: "2026-11-20T10:00:01Z", ...more },
  });
  const steps = [
    { type: "thought", signature: "c2ln" },
    { type: "model_output", content: [{ type: "text", text: "one " }] },
    { type: "model_output", content: [{ type: "text", text: "two" }] },
  ];

  it("send the same requests, and read the same of the answers", async () => {
    const usage = { total_input_tokens: 3, total_output_tokens: 2 };
    reply = (line) => {
      if (line.startsWith("DELETE")) return { body: {} };
      if (line.endsWith("/cancel")) return { body: interaction("cancelled") };
      const isAnswered = line.startsWith("GET");
      return { body: isAnswered ? interaction("completed", { steps, usage }) : interaction("queued") };
    };
    const { interactions } = new GoogleGenAI({
      ...{ apiKey: "k", httpOptions: { baseUrl: base, apiVersion: "v1beta" } },
    });
    const content = [{ type: "text" as const, text: "Hi" }];
    const created = await interactions.create({
      model: "gemini-3.8-flash",
      input: [{ type: "user_input", content }],
      generation_config: { max_output_tokens: 64 },
      service_tier: "deferred",
      ...{ background: true, store: true },
    });
    const got = await interactions.get("v1_Chd/=1");
    await interactions.cancel("v1_Chd/=1");
    await interactions.delete("v1_Chd/=1");
    const theirs = taken();

    const wire = deferredWireOf({ ...settingsOf("gemini", base), key: "k" });
    if (wire === undefined) throw new Error("no wire");
    const body = {
      contents: [{ role: "user", parts: [{ text: "Hi" }] }],
      generationConfig: { maxOutputTokens: 64 },
    };
    const described = { model: "gemini-3.8-flash", endpoint: "chat" } as const;
    const line = wire.line("any", Buffer.from(JSON.stringify(body)), described);
    const payload = { tag: TAG, ...described, items: 1, bytes: line.byteLength };
    const ours = batchOf(wire, await send(wire.create(payload, undefined), [line]));
    const answered = await send(wire.get(ours.id));
    await send(wire.cancel(ours.id));
    await send(wire.remove(ours)[0]);
    expectSame(taken(), theirs, ["x-goog-api-key", "accept"]);

    expect(ours).toMatchObject({ id: created.id, rawState: created.status, end: undefined });
    expect(batchOf(wire, answered)).toMatchObject({ end: "completed", rawState: got.status });
    const result = wire.result(answered.body);
    const read = result.is === "answered" ? JSON.parse(Buffer.from(result.body).toString()) : undefined;
    expect(read.candidates[0].content.parts).toEqual([{ text: got.output_text }]);
    expect(read.usageMetadata).toMatchObject({ promptTokenCount: got.usage?.total_input_tokens });
  });
});
