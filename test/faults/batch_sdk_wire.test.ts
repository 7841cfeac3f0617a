/** What OpenAI's official SDK puts on the wire for a whole batch, recorded on loopback, against what the batch wire would send. */
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import OpenAI, { toFile } from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { BatchPayload, BatchRequest, BatchWire } from "../../src/providers/batches/batch_wire.ts";
import { batchWireOf } from "../../src/providers/batches/batch_wires.ts";
import { bytesOf } from "../providers/batches/wire_answers.ts";

interface RecordedRequest {
  readonly method: string | undefined;
  readonly path: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

const PAYLOAD: BatchPayload = { tag: "01HZTAG000", model: "gpt-x", endpoint: "chat", items: 2, bytes: 0 };
const BODY = { model: "gpt-x", messages: [{ role: "user", content: "Wie viele Ößel?" }] };

let server: Server;
let base: string;
let recorded: RecordedRequest | undefined;
let reply: unknown = {};

beforeAll(async () => {
  server = createServer((incoming, outgoing) => {
    const chunks: Buffer[] = [];
    incoming.on("data", (chunk) => chunks.push(chunk));
    incoming.on("end", () => {
      const { method, url: path, headers } = incoming;
      recorded = { method, path, headers, body: Buffer.concat(chunks) };
      outgoing.writeHead(200, { "content-type": "application/json" });
      outgoing.end(JSON.stringify(reply));
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
});

afterAll(() => {
  server.closeAllConnections();
  server.close();
});

function sdk(): OpenAI {
  return new OpenAI({ apiKey: "k", baseURL: base, maxRetries: 0 });
}

function ours(): BatchWire {
  const wire = batchWireOf({ name: "openai", protocol: "openai", baseUrl: base, key: "k" });
  if (wire === undefined) throw new Error("no wire");
  return wire;
}

/** The parts of a multipart body, sorted by their names; of a file also its name, type and text. */
async function partsOf(headers: Record<string, string>, body: Uint8Array<ArrayBuffer>): Promise<unknown> {
  const parts = [...(await new Response(body, { headers }).formData())];
  const read = parts.map(async ([name, value]) =>
    typeof value === "string" ? [name, value] : [name, value.name, value.type, await value.text()],
  );
  return (await Promise.all(read)).sort();
}

/** A body in a form in which order and boundaries do not count. */
async function contentOf(type: string | undefined, body: Buffer): Promise<unknown> {
  if (body.length === 0) return undefined;
  if (type === undefined || !type.startsWith("multipart/")) return JSON.parse(body.toString());
  return partsOf({ "content-type": type }, new Uint8Array(body));
}

async function expectSame(
  request: BatchRequest | undefined,
  lines: readonly Uint8Array[] = [],
): Promise<void> {
  if (request === undefined || recorded === undefined) throw new Error("nothing to compare");
  const { method, path, headers } = recorded;
  expect([request.method, request.path]).toEqual([method, path]);
  const plain = (type: string | undefined): string | undefined => type?.replace(/boundary=.*/, "boundary");
  expect(plain(request.headers["content-type"])).toBe(plain(headers["content-type"]));
  for (const name of ["accept", "authorization"]) expect(request.headers[name], name).toBe(headers[name]);
  const sent = await contentOf(request.headers["content-type"], bytesOf(request, lines));
  expect(sent).toEqual(await contentOf(headers["content-type"], recorded.body));
  const more = Object.keys(headers).filter(
    (name) => !name.startsWith("x-stainless-") && !TRANSPORT.has(name),
  );
  expect(Object.keys(request.headers).sort()).toEqual([...more].sort());
}

/** What the client sends for itself, or the dispatcher adds to ours. */
const TRANSPORT: ReadonlySet<string> = new Set([
  "host",
  "connection",
  "content-length",
  "accept-encoding",
  "accept-language",
  "sec-fetch-mode",
]);

describe("the batch wire sends what OpenAI's SDK sends", () => {
  it("to upload the lines, find them again and delete them", async () => {
    const wire = ours();
    const lines = ["t-0", "t-1"].map((id) => wire.line(id, Buffer.from(JSON.stringify(BODY)), PAYLOAD));
    const text = ["t-0", "t-1"]
      .map((custom_id) =>
        JSON.stringify({ custom_id, method: "POST", url: "/v1/chat/completions", body: BODY }),
      )
      .join("\n");
    reply = { id: "file-1", filename: "perigee-01HZTAG000.jsonl", status: "processed" };
    await sdk().files.create({
      file: await toFile(Buffer.from(`${text}\n`), "perigee-01HZTAG000.jsonl", { type: "application/jsonl" }),
      purpose: "batch",
      expires_after: { anchor: "created_at", seconds: 172_800 },
    });
    await expectSame(wire.upload(PAYLOAD)?.request, lines);
    reply = { data: [], has_more: false };
    await sdk().files.list({ purpose: "batch", limit: 1_000, order: "desc" });
    await expectSame(wire.findFile?.(PAYLOAD).request);
    await sdk().files.delete("file-1");
    await expectSame(wire.remove({ id: "batch_1", files: ["file-1"] })[0]);
  });

  it("to create a batch, poll it, cancel it, and page the list", async () => {
    const wire = ours();
    reply = { id: "batch_1", status: "validating" };
    await sdk().batches.create({
      input_file_id: "file-1",
      endpoint: "/v1/chat/completions",
      completion_window: "24h",
      metadata: { perigee_submission: "01HZTAG000" },
      output_expires_after: { anchor: "created_at", seconds: 2_592_000 },
    });
    await expectSame(wire.create(PAYLOAD, "file-1"));
    await sdk().batches.retrieve("batch_1");
    await expectSame(wire.get("batch_1"));
    await sdk().batches.cancel("batch_1");
    await expectSame(wire.cancel("batch_1"));
    const data = [
      { id: "batch_2", created_at: 2_000 },
      { id: "batch_1", created_at: 1_000 },
    ];
    reply = { data, has_more: true };
    const search = { payload: PAYLOAD, sinceWallMs: 0 };
    const page = await sdk().batches.list({ limit: 100 });
    await expectSame(wire.list(search));
    const body = Buffer.from(JSON.stringify(reply));
    const read = wire.readPage({ status: 200, headers: {}, body, wallMs: 0 }, search);
    await page.getNextPage();
    await expectSame(read.ok ? read.next : undefined);
  });

  it("to fetch the results", async () => {
    const shown = { id: "batch_1", status: "completed", output_file_id: "file-out" };
    const body = Buffer.from(JSON.stringify(shown));
    const read = ours().read({ status: 200, headers: {}, body, wallMs: 0 });
    await (await sdk().files.content("file-out")).text();
    await expectSame(read.ok ? read.batch.results[0]?.request : undefined);
  });
});
