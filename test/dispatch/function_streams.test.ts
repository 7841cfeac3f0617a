/** Streams beside provider functions. */
import { expect, it } from "vitest";
import { FunctionTransport } from "../../src/dispatch/function_transport.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { openaiAnswer, ScriptedTransport } from "../../src/testing/scripted_transport.ts";

it("a function is not called with a stream, whose source is closed; other origins have their streams", async () => {
  let calls = 0;
  const functions = new Map([["function:mine", async () => ({ text: String(++calls) })]]);
  const clock = new FakeClock();
  const below = new ScriptedTransport(clock, () => ({
    kind: "answer",
    afterMs: 10,
    result: openaiAnswer("hi"),
  }));
  const transport = new FunctionTransport(below, clock, functions);
  const options = { timeoutMs: 1_000, bytesMax: 1_000 };
  let isClosed = false;
  const chunks = {
    [Symbol.asyncIterator]: () => ({
      next: () => expect.unreachable(),
      return: async () => {
        isClosed = true;
        return { done: true, value: undefined } as const;
      },
    }),
  };
  const request = { origin: "function:mine", path: "/", headers: {}, body: { chunks, lengthBytes: 10 } };
  expect(await transport.stream(request, options)).toMatchObject({ ok: false, failure: "not_sent" });
  expect([calls, isClosed]).toEqual([0, true]);
  const other = { ...request, origin: "http://test", body: Buffer.from("{}") };
  const stream = await clock.runUntilSettled(transport.stream(other, options));
  expect(stream).toMatchObject({ ok: true, status: 200 });
  await transport.close();
});
