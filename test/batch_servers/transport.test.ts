/** The fakes as a `Transport` in virtual time, and what a batch costs them. */
import { Buffer } from "node:buffer";
import { describe, expect, it } from "vitest";
import type { RequestSource, StreamRequest, WireStream } from "../../src/dispatch/transport.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { type FakeOptions, nthCalls } from "./behaviour.ts";
import { always } from "./chance.ts";
import { FakeOpenAiBatches } from "./openai.ts";
import { answerTo } from "./prompt.ts";
import { type BatchTransport, batchTransport } from "./transport.ts";

const origin = "https://api.openai.test";

interface Scene {
  readonly clock: FakeClock;
  readonly fake: FakeOpenAiBatches;
  readonly wire: BatchTransport;
  json(method: "GET" | "POST", path: string, body?: object): Promise<Record<string, unknown>>;
}

function scene(options: Partial<FakeOptions> = {}): Scene {
  const clock = new FakeClock();
  const nowMs = (): number => 1_767_225_600_000 + clock.nowMs();
  const fake = new FakeOpenAiBatches({ seed: 1, nowMs, times: always(60_000), ...options });
  const wire = batchTransport({ [origin]: fake }, clock);
  return {
    clock,
    fake,
    wire,
    json: async (method, path, body) => {
      const request = {
        method,
        origin,
        path,
        headers: HEADERS,
        body: Buffer.from(JSON.stringify(body ?? "")),
      };
      const result = await clock.runUntilSettled(wire.send(request, { timeoutMs: 60_000 }));
      if (!result.ok) throw new Error(result.failure);
      return JSON.parse(Buffer.from(result.body).toString()) as Record<string, unknown>;
    },
  };
}

const HEADERS = { authorization: "Bearer k1", "content-type": "application/json" };

function chat(prompt: string): object {
  return { model: "m", messages: [{ role: "user", content: prompt }] };
}

function linesOf(count: number): string {
  return Array.from({ length: count }, (_, index) => {
    const line = { custom_id: `t-${index}`, method: "POST", url: "/v1/chat/completions" };
    return `${JSON.stringify({ ...line, body: chat(`prompt ${index} ${"and so on ".repeat(10)}`) })}\n`;
  }).join("");
}

/** A form with its file in chunks, as a source. */
function upload(text: string): StreamRequest {
  const bytes = Buffer.from(
    `--b\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b\r\ncontent-disposition: form-data; name="file"; filename="x.jsonl"\r\n\r\n${text}\r\n--b--\r\n`,
  );
  async function* chunks(): AsyncIterable<Uint8Array> {
    for (let from = 0; from < bytes.length; from += 1_000) yield bytes.subarray(from, from + 1_000);
  }
  const body: RequestSource = { lengthBytes: bytes.length, chunks: chunks() };
  const headers = { ...HEADERS, "content-type": "multipart/form-data; boundary=b" };
  return { origin, path: "/v1/files", headers, body };
}

async function read(stream: WireStream): Promise<{ readonly chunks: number; readonly text: string }> {
  if (!stream.ok) throw new Error(stream.failure);
  const chunks: Uint8Array[] = [];
  for await (const chunk of stream.chunks) chunks.push(chunk);
  return { chunks: chunks.length, text: Buffer.concat(chunks).toString() };
}

const OPTIONS = { timeoutMs: 60_000, bytesMax: 100_000_000 };

async function submit({ clock, wire, json }: Scene, text: string): Promise<string> {
  const uploaded = await clock.runUntilSettled(wire.stream(upload(text), OPTIONS).then(read));
  const { id } = await json("POST", "/v1/batches", {
    input_file_id: JSON.parse(uploaded.text).id,
    endpoint: "/v1/chat/completions",
    completion_window: "24h",
  });
  return String(id);
}

describe("a transport of fake providers", () => {
  it("takes an upload from a source and gives results in chunks, in virtual time", async () => {
    const made = scene();
    const id = await submit(made, linesOf(1_000));
    await made.clock.advance(600_000);
    const { status, output_file_id } = await made.json("GET", `/v1/batches/${id}`);
    expect(status).toBe("completed");
    const get = {
      method: "GET",
      path: `/v1/files/${output_file_id}/content`,
      body: Buffer.from(""),
    } as const;
    const stream = made.wire.stream({ ...get, origin, headers: HEADERS }, OPTIONS).then(read);
    const { chunks, text } = await made.clock.runUntilSettled(stream);
    expect(text.split("\n")).toHaveLength(1_001);
    expect(chunks).toBe(Math.ceil(text.length / 65_536));
  });

  it("answers realtime requests after a drawn time, in the same book", async () => {
    const { clock, fake, json } = scene({ realtime: { times: always(700) } });
    const answer = await json("POST", "/v1/chat/completions", chat("hi"));
    expect(answer).toMatchObject({ choices: [{ message: { content: answerTo("hi") } }] });
    expect(clock.nowMs()).toBe(700);
    expect(fake.ledger.sums("realtime").answers).toBe(1);
  });

  it("fails a lost answer as lost, and a refused connection as not sent", async () => {
    const { json, fake } = scene({
      faults: nthCalls({ realtime: { 1: "lost", 2: "refused_connection" } }),
    });
    await expect(json("POST", "/v1/chat/completions", chat("hi"))).rejects.toThrow("lost");
    await expect(json("POST", "/v1/chat/completions", chat("hi"))).rejects.toThrow("not_sent");
    expect(fake.ledger.sums().billed).toBe(1);
  });

  it("bills a realtime answer for which its caller did not wait", async () => {
    const { clock, fake, wire } = scene({ realtime: { times: always(10_000) } });
    const body = Buffer.from(JSON.stringify(chat("hi")));
    const request = { origin, path: "/v1/chat/completions", headers: HEADERS, body };
    const result = await clock.runUntilSettled(wire.send(request, { timeoutMs: 1_000 }));
    expect(result).toMatchObject({ ok: false, failure: "timeout" });
    expect(fake.ledger.sums().billed).toBe(1);
  });

  it("breaks a stream off where it is torn", async () => {
    const made = scene({ faults: nthCalls({ results: { 1: { tornAfter: 0.5 } } }) });
    const id = await submit(made, linesOf(1_000));
    await made.clock.advance(600_000);
    const { output_file_id } = await made.json("GET", `/v1/batches/${id}`);
    const get = {
      method: "GET",
      path: `/v1/files/${output_file_id}/content`,
      body: Buffer.from(""),
    } as const;
    const stream = made.wire.stream({ ...get, origin, headers: HEADERS }, OPTIONS).then(read);
    await expect(made.clock.runUntilSettled(stream)).rejects.toMatchObject({ failure: "lost" });
  });

  it("cuts what is in flight when its process dies, and works for the next one", async () => {
    const { clock, wire, json } = scene();
    const body = Buffer.from(JSON.stringify(chat("hi")));
    const request = { origin, path: "/v1/chat/completions", headers: HEADERS, body };
    const sent = wire.send(request, { timeoutMs: 60_000 });
    wire.restart();
    expect(await clock.runUntilSettled(sent)).toMatchObject({ ok: false, failure: "aborted" });
    expect(wire.inFlight).toBe(0);
    expect(await json("POST", "/v1/chat/completions", chat("hi"))).toHaveProperty("choices");
  });
});

describe("the book of a fake", () => {
  it("sums to what each answer is billed: half the list price in a batch, rounded half up once an answer", async () => {
    const price = { inputUsd: 0.1234, outputUsd: 0.5678 };
    const made = scene({ price: () => price });
    await submit(made, linesOf(50));
    await made.clock.advance(600_000);
    const { charges } = made.fake.ledger;
    const sums = made.fake.ledger.sums("batch");
    expect(sums.billed).toBe(50);
    for (const { inputTokens, outputTokens, nanoUsd } of charges)
      expect(nanoUsd).toBe(Math.round((inputTokens * 123.4 + outputTokens * 567.8) / 2));
    expect(sums.nanoUsd).toBe(charges.reduce((sum, { nanoUsd }) => sum + nanoUsd, 0));
  });

  it("has each request of a batch when it was finished, and no sooner", async () => {
    const made = scene({ times: { p50: 60_000, p90: 120_000, p99: 180_000 } });
    await submit(made, linesOf(400));
    await made.clock.advance(65_000);
    const half = made.fake.ledger.sums().answers;
    expect(half).toBeGreaterThan(150);
    expect(half).toBeLessThan(250);
    await made.clock.advance(600_000);
    expect(made.fake.ledger.sums().answers).toBe(400);
    const times = made.fake.ledger.charges.map(({ atMs }) => atMs);
    expect(times).toEqual([...times].sort((one, two) => one - two));
  });

  it("is the same for the same seed", async () => {
    const run = async (seed: number): Promise<unknown> => {
      const made = scene({ seed, times: { p50: 60_000, p90: 120_000, p99: 180_000 } });
      await submit(made, linesOf(100));
      await made.clock.advance(600_000);
      made.fake.ledger.sums();
      return made.fake.ledger.charges;
    };
    expect(await run(7)).toEqual(await run(7));
    expect(await run(7)).not.toEqual(await run(8));
  });
});
