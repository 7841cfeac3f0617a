/** Clients that break off in a body, or expect what no server of this service does: their fault, which is not logged as the service's. */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { createPerigeeService } from "../../src/service/index.ts";

const SCOPES = new Set([
  "infer:read",
  "infer:write",
  "files:read",
  "files:write",
  "satellites:write",
] as const);
const CHUNK = 'f;\r\n[{"model": "a:b\r\n';

async function served(providers = {}) {
  const dataDir = mkdtempSync(join(tmpdir(), "perigee-broken-"));
  const faults: unknown[] = [];
  const service = await createPerigeeService({
    ...{ dataDir, env: {}, threads: 1, providers, onFault: (error) => faults.push(error) },
    verifier: {
      verify: (key) =>
        key === "Bearer unknown" ? undefined : { keyId: "k1", project: "red", scopes: SCOPES, isBeta: false },
    },
  });
  onTestFinished(async () => {
    await service.close();
    rmSync(dataDir, { recursive: true, force: true });
  });
  const port = Number(new URL(await service.listen({ port: 0 })).port);
  /** Resolves with what was answered until the connection is closed; the client resets it where it `leaves`. */
  const send = async (head: readonly string[], body: string, leaves = false): Promise<string> => {
    const socket = connect(port, "127.0.0.1");
    let text = "";
    socket.on("data", (chunk) => {
      text += String(chunk);
    });
    socket.on("error", () => undefined);
    await once(socket, "connect");
    const closed = once(socket, "close");
    const key = head.some((line) => line.startsWith("authorization:")) ? [] : ["authorization: Bearer k"];
    socket.write([...head, "host: x", ...key, "", body].join("\r\n"), () => {
      if (leaves) setImmediate(() => socket.resetAndDestroy());
    });
    await closed;
    return text;
  };
  return { send, faults, port, service };
}

const CODED = "transfer-encoding: chunked";
const FORM = 'content-type: multipart/form-data; boundary="b"';
const JSON_BODY = "content-type: application/json";
const PART = '47\r\n--b\r\ncontent-disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n{}\n';

it.each([
  ["a list of items", "POST /v0/infer/ HTTP/1.1", JSON_BODY, CHUNK],
  ["a chat", "POST /v1/chat/completions HTTP/1.1", JSON_BODY, CHUNK],
  ["a webhook", "POST /v0/webhooks HTTP/1.1", JSON_BODY, CHUNK],
  ["an upload", "PUT /v0/files/a.jsonl HTTP/1.1", FORM, PART],
  ["a file", "POST /v1/files HTTP/1.1", FORM, PART],
])(
  "%s whose chunks are not chunks, or whose client leaves, is not a fault",
  async (_name, line, type, chunk) => {
    const { send, faults } = await served();
    await send([line, type, CODED], `${chunk}not a chunk\r\n`);
    await send([line, type, CODED], chunk, true);
    await send([line, type, "content-length: 5000"], chunk, true);
    expect(await send(["GET /healthz HTTP/1.1", "connection: close"], "")).toContain("200 OK");
    expect(faults).toEqual([]);
  },
);

it("an expectation other than 100-continue is refused in the form of all errors, before the body is read", async () => {
  const { send, faults } = await served();
  const refused = await send(["POST /v0/infer/ HTTP/1.1", JSON_BODY, "expect: foo", "content-length: 9"], "");
  expect(refused).toMatch(/^HTTP\/1\.1 417 /);
  expect(JSON.parse(refused.slice(refused.indexOf("{")))).toEqual({
    error: {
      ...{ code: "expectation_failed", type: "invalid_request_error", param: null },
      message: expect.stringContaining("100-continue"),
    },
    request_id: "unread",
  });
  const met = ["POST /v0/infer/ HTTP/1.1", JSON_BODY, "expect: 100-continue", "connection: close"];
  expect(await send([...met, "content-length: 2"], "[]")).toMatch(
    /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 /,
  );
  expect(faults).toEqual([]);
});

it.each([
  ["a key that is unknown", ["authorization: Bearer unknown", "content-length: 2"], 401],
  ["a body that is too large", ["content-length: 999999999999"], 413],
] as const)(
  "%s is refused without asking for the body, and the connection is closed",
  async (_name, lines, status) => {
    const { send } = await served();
    const head = ["POST /v0/infer/ HTTP/1.1", JSON_BODY, "expect: 100-continue", ...lines];
    const refused = await send(head, "");
    expect(refused).toMatch(new RegExp(`^HTTP/1\\.1 ${status} [^]*\r\nconnection: close\r\n`, "i"));
  },
);

it("the host and the key are read after 1,200 other headers", async () => {
  const { send } = await served();
  const many = Array.from({ length: 1_200 }, (_, index) => `x${index}: 1`);
  const listed = await send(["GET /v0/files/ HTTP/1.1", ...many, "connection: close"], "");
  expect(listed).toMatch(/^HTTP\/1\.1 200 /);
});

it.each(["POST /v1/chat/completions HTTP/1.1", "POST /v0/infer/ HTTP/1.1"])(
  "%s whose client leaves while the provider is asked is no fault of the service",
  async (line) => {
    const provider = createServer();
    onTestFinished(() => {
      provider.close();
      provider.closeAllConnections();
    });
    provider.listen(0, "127.0.0.1");
    await once(provider, "listening");
    const baseUrl = `http://127.0.0.1:${(provider.address() as AddressInfo).port}/v1`;
    const { faults, port, service } = await served({ local: { baseUrl, needsKey: false } });
    const item = { model: "local:small", input: "one", messages: [{ role: "user", content: "one" }] };
    const body = line.includes("chat")
      ? { model: item.model, messages: item.messages }
      : [{ model: item.model, input: item.input }];
    const text = JSON.stringify(body);
    const socket = connect(port, "127.0.0.1");
    const asked = once(provider, "request") as Promise<[IncomingMessage, ServerResponse]>;
    const head = [line, JSON_BODY, `content-length: ${text.length}`, "host: x", "authorization: Bearer k"];
    socket.write([...head, "", text].join("\r\n"));
    const [, response] = await asked;
    socket.resetAndDestroy();
    await once(socket, "close");
    const message = { role: "assistant", content: "late" };
    const choices = [{ index: 0, message, finish_reason: "stop" }];
    response.end(JSON.stringify({ id: "1", object: "chat.completion", model: "small", choices }));
    await service.close();
    expect(faults).toEqual([]);
  },
);
