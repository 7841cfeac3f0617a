import { describe, expect, it } from "vitest";
import { createProvider } from "../../src/providers/registry.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { openaiAnswer, openaiError, ScriptedTransport } from "../../src/testing/scripted_transport.ts";

const request = (text: string) => ({
  origin: "http://test",
  path: "/v1/chat/completions",
  headers: { authorization: "Bearer key" },
  body: new TextEncoder().encode(text),
});

describe("ScriptedTransport", () => {
  it("tells the script how often a body was sent, and keeps all in the ledger", async () => {
    const clock = new FakeClock();
    const transport = new ScriptedTransport(clock, (_, { attempt, nowMs }) => ({
      kind: "answer",
      afterMs: 10,
      result: attempt === 1 ? openaiError(429, { message: "slow" }) : openaiAnswer(`at ${nowMs}`),
    }));
    await clock.runUntilSettled(transport.send(request("a"), { timeoutMs: 100 }));
    await clock.runUntilSettled(transport.send(request("b"), { timeoutMs: 100 }));
    await clock.runUntilSettled(transport.send(request("a"), { timeoutMs: 100 }));
    expect(
      transport.ledger.map(({ body, attempt, sentMs, settledMs, result }) => [
        body,
        attempt,
        sentMs,
        settledMs,
        result?.ok === true ? result.status : undefined,
      ]),
    ).toEqual([
      ["a", 1, 0, 10, 429],
      ["b", 1, 10, 20, 429],
      ["a", 2, 20, 30, 200],
    ]);
  });

  it("ends at the deadline what the script answers too late, and remembers what it would have said", async () => {
    const clock = new FakeClock();
    const late = { kind: "answer", afterMs: 500, result: openaiAnswer("late") } as const;
    const transport = new ScriptedTransport(clock, () => late);
    const result = await clock.runUntilSettled(transport.send(request("a"), { timeoutMs: 100 }));
    expect(result).toMatchObject({ ok: false, failure: "timeout" });
    expect(clock.nowMs()).toBe(100);
    expect(transport.ledger[0]?.script).toBe(late);
    expect(clock.pendingTimers).toBe(0);
  });

  it("cuts what is in flight at a restart, and goes on with the same ledger", async () => {
    const clock = new FakeClock();
    const transport = new ScriptedTransport(clock, () => ({ kind: "hang" }));
    const sent = transport.send(request("a"), { timeoutMs: 100 });
    expect(transport.inFlight).toBe(1);
    transport.restart();
    expect(await sent).toMatchObject({ ok: false, failure: "aborted" });
    void transport.send(request("a"), { timeoutMs: 100 });
    expect(transport.ledger.map((entry) => entry.attempt)).toEqual([1, 2]);
  });

  it("makes answers that the OpenAI codec reads", () => {
    const provider = createProvider({ name: "openai", protocol: "openai", baseUrl: "http://test/v1" });
    const answer = openaiAnswer("Hi", { inputTokens: 5, outputTokens: 7 });
    if (!answer.ok) throw new Error("an answer");
    expect(provider.decode({ ...answer, wallMs: 0 })).toMatchObject({
      class: "success",
      text: "Hi",
      finish: "stop",
      usage: { inputTokens: 5, outputTokens: 7 },
    });
  });
});
