/** One attempt whose answer is passed on while it arrives: the reader sets the pace, and what it leaves is billed as far as it was seen. */
import type { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import { AnswerTap } from "../../src/dispatch/answer_tap.ts";
import { type AttemptResult, answered, failedOnWire } from "../../src/dispatch/attempt.ts";
import { streamedAttempt } from "../../src/dispatch/streamed_attempt.ts";
import { type Transport, WireError, type WireResult } from "../../src/dispatch/transport.ts";
import { createProvider } from "../../src/providers/registry.ts";
import { EventStream } from "../../src/service/front/event_stream.ts";
import type { FastifyReply } from "../../src/service/http/fastify.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";

const WORDS = "one two three four five six ";
const event = (content: string, finish: string | null = null): Buffer =>
  Buffer.from(
    `data: ${JSON.stringify({ id: "c", choices: [{ index: 0, delta: { content }, finish_reason: finish }] })}\n\n`,
  );

/** An answer of `count` events, one for each piece that is pulled; it is lost when its signal aborts. */
function source(count: number) {
  let pulled = 0;
  const transport = {
    stream: async (_: unknown, { signal }: { signal?: AbortSignal }) => ({
      ok: true,
      status: 200,
      headers: { "content-type": "text/event-stream" },
      chunks: (async function* () {
        for (; pulled < count; pulled += 1) {
          if (signal?.aborted === true) throw new WireError({ failure: "aborted", message: "left" });
          yield event(WORDS);
        }
        yield event("", "stop");
      })(),
    }),
  } as unknown as Transport;
  return { transport, pulled: () => pulled };
}

function attempt(
  tap: AnswerTap,
  transport: Transport,
  onBegun = (): void => undefined,
): Promise<AttemptResult> {
  const provider = createProvider({ name: "openai", protocol: "openai", baseUrl: "http://127.0.0.1:1/v1" });
  const request = { origin: "http://127.0.0.1:1", path: "/", headers: {}, body: Buffer.from("{}") };
  const sending = { clock: new FakeClock(), transport, request, options: { timeoutMs: 1_000 }, onBegun };
  const read = (wire: WireResult): AttemptResult => ({
    ...{ class: wire.ok ? "success" : "ambiguous", message: "", scope: "item", latencyMs: 1 },
    ...(wire.ok ? { text: Buffer.from(wire.body).toString() } : {}),
  });
  return streamedAttempt({ provider, inputTokens: 5 }, tap, sending, read);
}

/** Lets everything run that waits for nothing outside. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 50; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

describe("a reader that does not read", () => {
  it("stops the provider's answer after one part, and lets it go on when it reads again", async () => {
    const { transport, pulled } = source(1_000);
    let read = (): void => undefined;
    let taken = 0;
    const tap = new AnswerTap(() => {
      taken += 1;
      return taken === 3 ? new Promise((resolve) => (read = resolve)) : undefined;
    });
    const result = attempt(tap, transport);
    await settle();
    expect([taken, pulled()]).toEqual([3, 2]);
    read();
    expect(await result).toMatchObject({ class: "success" });
    expect(taken).toBe(1_001);
  });

  it("is notified of the first part before it gets it, once", async () => {
    const { transport } = source(3);
    const seen: string[] = [];
    const tap = new AnswerTap(() => void seen.push("part"));
    await attempt(tap, transport, () => seen.push("begun"));
    expect(seen).toEqual(["begun", "part", "part", "part", "part"]);
  });

  it("has no more than 16 KiB and one event of its answer in the service", async () => {
    const { transport, pulled } = source(100_000);
    const events = new EventStream();
    let body: PassThrough | undefined;
    const reply = {
      headers: () => reply,
      type: () => reply,
      send: (stream: PassThrough) => {
        body = stream;
        return reply;
      },
    };
    events.answer(reply as unknown as FastifyReply);
    const tap = new AnswerTap(({ json }) => events.send([{ data: json }]));
    const result = attempt(tap, transport);
    await settle();
    const waiting = (body?.readableLength ?? 0) + (body?.writableLength ?? 0);
    expect(waiting).toBeGreaterThan(8 * 1024);
    expect(waiting).toBeLessThan(2 * 16 * 1024 + 2 * event(WORDS).length);
    const before = pulled();
    await settle();
    expect(pulled()).toBe(before);
    body?.destroy();
    tap.leave();
    expect(await result).toMatchObject({ class: "permanent", code: "cancelled" });
    expect(pulled()).toBeLessThan(before + 3);
  });
});

describe("a reader that leaves", () => {
  it("is billed for what it was told, which is estimated", async () => {
    const { transport } = source(1_000);
    const tap: AnswerTap = new AnswerTap(() => {
      if (++told === 10) tap.leave();
      return undefined;
    });
    let told = 0;
    const { usage, ...result } = await attempt(tap, transport);
    expect(result).toMatchObject({ class: "permanent", code: "cancelled", status: 200 });
    expect(usage).toMatchObject({ inputTokens: 5, isEstimated: true });
    const expected = (10 * WORDS.length) / 4;
    expect(Math.abs((usage?.outputTokens ?? 0) - expected)).toBeLessThan(expected / 10);
  });

  it("before the request is sent costs nothing, and nothing is sent", async () => {
    const { transport, pulled } = source(10);
    const tap = new AnswerTap(() => undefined);
    tap.leave();
    const result = await attempt(tap, transport);
    expect(result).toMatchObject({ class: "permanent", code: "cancelled" });
    expect(result).not.toHaveProperty("usage");
    expect(pulled()).toBe(0);
  });
});

/** An attempt that is sent these events; the response ends with them, is lost after them, or stays open until it is cut. */
async function attemptOf(texts: readonly string[], then: "ends" | "lost" | "open", clock = new FakeClock()) {
  const transport = {
    stream: async (_: unknown, { signal }: { signal?: AbortSignal }) => ({
      ok: true,
      status: 200,
      headers: { "content-type": "text/event-stream" },
      chunks: (async function* () {
        for (const text of texts) yield Buffer.from(`data: ${text}\n\n`);
        if (then === "open") await new Promise((resolve) => signal?.addEventListener("abort", resolve));
        if (then !== "ends") throw new WireError({ failure: "lost", message: "reset" });
      })(),
    }),
  } as unknown as Transport;
  const provider = createProvider({ name: "openai", protocol: "openai", baseUrl: "http://127.0.0.1:1/v1" });
  const request = { origin: "http://127.0.0.1:1", path: "/", headers: {}, body: Buffer.from("{}") };
  const options = { timeoutMs: 1_000 };
  const sending = { clock, transport, request, options, onBegun: () => undefined };
  const passed: string[] = [];
  const tap = new AnswerTap(({ json }) => void passed.push(json));
  const read = (wire: WireResult): AttemptResult => {
    if (!wire.ok) return failedOnWire(wire.failure, wire.message, 1);
    const decoded = provider.decode({ ...wire, wallMs: 0 });
    return answered(decoded, { status: wire.status, learnt: undefined, latencyMs: 1, inputTokens: 5 });
  };
  const result = streamedAttempt({ provider, inputTokens: 5 }, tap, sending, read);
  await settle();
  await clock.advance(1_000);
  return { passed, result: await result };
}

const part = (content: string, finish: string | null = null): string =>
  JSON.stringify({ id: "c", choices: [{ index: 0, delta: { content }, finish_reason: finish }] });
const USAGE = JSON.stringify({ id: "c", choices: [], usage: { prompt_tokens: 7, completion_tokens: 3 } });

describe("an error in the middle of a stream", () => {
  it.each([
    "insufficient_quota",
    "rate_limit_exceeded",
    "server_error",
    "invalid_api_key",
    "model_not_found",
  ])("is the item's, and what had arrived is estimated: %s", async (code) => {
    const error = JSON.stringify({ error: { message: "no", type: code, code } });
    const { passed, result } = await attemptOf([part(WORDS), part(WORDS), error], "ends");
    expect(passed).toHaveLength(2);
    expect(result).toMatchObject({ scope: "item", status: 200 });
    expect(result.class).not.toBe("success");
    expect(result.usage).toMatchObject({ inputTokens: 5, isEstimated: true });
    expect(result.usage?.outputTokens).toBeGreaterThan(2);
  });

  it("before its first part is what it is without a stream", async () => {
    const error = JSON.stringify({ error: { message: "no", code: "insufficient_quota" } });
    const { result } = await attemptOf([error], "ends");
    expect(result).not.toHaveProperty("usage");
    expect(result.scope).not.toBe("item");
  });
});

describe("a provider that has said that nothing follows", () => {
  it.each(["open", "lost"] as const)("has answered, also if its connection is then %s", async (then) => {
    const { result } = await attemptOf([part("Paris"), part("", "stop"), USAGE, "[DONE]"], then);
    expect(result).toMatchObject({ class: "success", text: "Paris" });
    expect(result.usage).toMatchObject({ inputTokens: 7, outputTokens: 3, isEstimated: false });
  });

  it("but not before: a connection that is lost after the finish reason may hide the usage", async () => {
    const { result } = await attemptOf([part("Paris"), part("", "stop")], "lost");
    expect(result).toMatchObject({ class: "ambiguous", usage: { isEstimated: true } });
  });
});
