/** One attempt whose answer is passed on while it arrives: the reader sets the pace, and what it leaves is billed as far as it was seen. */
import type { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import { AnswerTap } from "../../src/dispatch/answer_tap.ts";
import type { AttemptResult } from "../../src/dispatch/attempt.ts";
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

function attempt(tap: AnswerTap, transport: Transport): Promise<AttemptResult> {
  const provider = createProvider({ name: "openai", protocol: "openai", baseUrl: "http://127.0.0.1:1/v1" });
  const request = { origin: "http://127.0.0.1:1", path: "/", headers: {}, body: Buffer.from("{}") };
  const sending = { clock: new FakeClock(), transport, request, options: { timeoutMs: 1_000 } };
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
