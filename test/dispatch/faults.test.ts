/**
 * Faults 45-67 as far as the dispatcher decides them, in virtual time. What a codec reads out of an answer is tested
 * with the codecs; what the wire does, in test/faults.
 */
import { describe, expect, it } from "vitest";
import { answered } from "../../src/dispatch/attempt.ts";
import type { Decoded } from "../../src/providers/provider.ts";
import type { Usage } from "../../src/work/outcome.ts";
import { HANG, NOT_SENT, refused, Stage, type Step, SUCCESS, USAGE } from "./scripted.ts";

function permanent(more: Partial<Exclude<Decoded, { class: "success" }>>): Decoded {
  return { class: "permanent", code: "invalid_request", message: "refused", scope: "item", ...more };
}

function ambiguous(more: Partial<Exclude<Decoded, { class: "success" }>>): Decoded {
  return { class: "ambiguous", code: "provider_error", message: "acme answered 500", scope: "item", ...more };
}

describe("faults of providers, at the dispatcher", () => {
  it("fault 45: in a storm of 429s every attempt passes admission and tells it of the rate limit", async () => {
    const stage = new Stage([refused({ retryAfterMs: 2_000 }), refused(), refused(), SUCCESS]);
    expect(await stage.run()).toMatchObject({
      outcome: { status: "completed", attempts: 4, ambiguousAttempts: 0 },
    });
    expect(stage.admitted).toHaveLength(3);
    expect(stage.told.slice(0, 3)).toMatchObject([
      { class: "refused", isRateLimit: true, retryAfterMs: 2_000 },
      { class: "refused", isRateLimit: true },
      { class: "refused", isRateLimit: true },
    ]);
    expect(stage.sent[1]?.atMs).toBeGreaterThanOrEqual(2_000);
  });

  it("fault 46: an empty account returns the item without a retry", async () => {
    const stage = new Stage([permanent({ code: "quota_exceeded", scope: "provider" }), SUCCESS]);
    stage.isOwn = () => false;
    expect(await stage.run()).toMatchObject({ kind: "returned", reason: "held", attempts: 1 });
    expect(stage.sent).toHaveLength(1);
    expect(stage.told).toMatchObject([{ class: "permanent", scope: "provider" }]);
  });

  it("fault 47: a refused key returns the item without a retry, and no text holds the key", async () => {
    const stage = new Stage([permanent({ code: "authentication_failed", scope: "provider" }), SUCCESS]);
    stage.isOwn = () => false;
    const result = await stage.run();
    expect(result).toMatchObject({ kind: "returned", reason: "held" });
    expect(stage.sent).toHaveLength(1);
    expect(JSON.stringify([result, stage.told])).not.toContain("sk-secret");
  });

  it("fault 48: in an outage no attempt is made that admission has not let through", async () => {
    const stage = new Stage([ambiguous({}), SUCCESS]);
    stage.onAdmit = () => stage.clock.sleep(600_000); // a closed gate
    expect(await stage.run()).toMatchObject({ outcome: { status: "completed", attempts: 2 } });
    expect(stage.sent).toHaveLength(2);
    expect(stage.sent[1]?.atMs).toBeGreaterThanOrEqual(600_000);
  });

  it.each([0, -5, Number.NaN, Number.POSITIVE_INFINITY])(
    "fault 49: a wait of %s makes no storm of retries and no endless sleep",
    async (retryAfterMs) => {
      const stage = new Stage([refused({ retryAfterMs }), SUCCESS]);
      const result = await stage.run(stage.call({ deadlineMs: 3_600_000 }));
      expect(stage.clock.nowMs()).toBeLessThan(3_600_000);
      expect(result).toMatchObject({ outcome: { status: "completed" } });
      expect(stage.sent[1]?.atMs).toBe(250); // half of the first backoff: the clock draws 0.5
    },
  );

  it("fault 50: connections refused are repeated for free", async () => {
    const stage = new Stage([NOT_SENT, NOT_SENT, NOT_SENT, NOT_SENT, SUCCESS], { ambiguousMax: 0 });
    expect(await stage.run()).toMatchObject({
      outcome: { status: "completed", attempts: 5, ambiguousAttempts: 0 },
    });
    expect(stage.told[0]).toMatchObject({ class: "not_sent", code: "connection_failed" });
  });

  it("fault 53: a hang costs an attempt of its own deadline and is ambiguous", async () => {
    const stage = new Stage([HANG, SUCCESS]);
    expect(await stage.run()).toMatchObject({ outcome: { status: "completed", ambiguousAttempts: 1 } });
    expect(stage.told[0]).toMatchObject({ class: "ambiguous", code: "timeout", latencyMs: 600_000 });
  });

  it("fault 57: an answer that cannot be read is repeated within the budget and ends under its own code", async () => {
    const stage = new Stage([ambiguous({ code: "invalid_response" })]);
    expect(await stage.run()).toMatchObject({
      outcome: { attempts: 3, failure: { code: "invalid_response" } },
    });
  });

  it("fault 58: an error inside a success is treated by its class", async () => {
    const stage = new Stage([refused({ code: "overloaded" }), ambiguous({}), permanent({})]);
    expect(await stage.run()).toMatchObject({
      outcome: {
        status: "failed",
        attempts: 3,
        ambiguousAttempts: 1,
        failure: { code: "invalid_request", retryable: false },
      },
    });
  });

  it("fault 59: an empty answer is repeated once, then fails with the usage of both", async () => {
    const stage = new Stage([ambiguous({ code: "empty_output", usage: USAGE })]);
    expect(await stage.run()).toMatchObject({
      outcome: {
        status: "failed",
        attempts: 2,
        usage: { inputTokens: 20, outputTokens: 10 },
        failure: { code: "empty_output", ambiguous_attempts: 0 },
      },
    });
  });

  it("fault 59: an empty answer is never repeated when delivery is at most once, and is never a success", async () => {
    const stage = new Stage([{ ...SUCCESS, text: "" } as Step], { ambiguousMax: 0 });
    expect(await stage.run()).toMatchObject({
      outcome: { attempts: 1, usage: USAGE, failure: { code: "empty_output", retryable: false } },
    });
  });

  it("fault 60: a filtered answer is not repeated and its usage is kept; a cut one is a success", async () => {
    const filtered = new Stage([permanent({ code: "filtered", usage: USAGE }), SUCCESS]);
    expect(await filtered.run()).toMatchObject({
      outcome: { attempts: 1, usage: USAGE, failure: { code: "filtered" } },
    });
    const cut = new Stage([{ ...SUCCESS, finish: "length" } as Step, SUCCESS]);
    expect(await cut.run()).toMatchObject({ outcome: { status: "completed", attempts: 1 } });
  });

  it("fault 62: each answer reaches the call that asked, however many are in flight", async () => {
    const stage = new Stage(
      Array.from({ length: 20 }, (_, index): Step => ({ ...SUCCESS, text: `answer ${index}` }) as Step),
    );
    const results = await stage.clock.until(
      Promise.all(Array.from({ length: 20 }, () => stage.dispatcher.run(stage.call()))),
    );
    expect(
      results.map(
        (result) =>
          result.kind === "outcome" && result.outcome.status === "completed" && result.outcome.output.text,
      ),
    ).toEqual(Array.from({ length: 20 }, (_, index) => `answer ${index}`));
  });

  it.each([
    { ...USAGE, outputTokens: Number.NaN },
    { ...USAGE, inputTokens: -3 },
    { ...USAGE, cachedTokens: "7" as unknown as number },
    { ...USAGE, chargedUsd: Number.NaN },
    { ...USAGE, inputTokens: Number.MAX_SAFE_INTEGER },
    { ...USAGE, outputTokens: 10_000_001 },
    { ...USAGE, inputTokens: 0 },
    { ...USAGE, outputTokens: 0 },
    undefined,
  ])(
    "fault 63: usage that is missing or nonsense is estimated and flagged (%#)",
    (usage: Usage | undefined) => {
      const facts = { status: 200, learnt: undefined, latencyMs: 1, inputTokens: 7 };
      const result = answered({ class: "success", text: "12345678", finish: "stop", usage }, facts);
      expect(result.usage).toEqual({
        inputTokens: 7,
        cachedTokens: 0,
        cacheWriteTokens: 0,
        outputTokens: 2,
        reasoningTokens: 0,
        isEstimated: true,
      });
    },
  );

  it("fault 64: limits that headers tell reach admission with every attempt, failed ones too", async () => {
    const stage = new Stage([refused(), SUCCESS]);
    const call = stage.call();
    const provider = { ...call.provider, limits: () => ({ requestsPerMinute: 60 }) };
    await stage.run({ ...call, provider });
    expect(stage.told).toMatchObject([
      { learnt: { requestsPerMinute: 60 } },
      { learnt: { requestsPerMinute: 60 } },
    ]);
  });

  it("fault 65: what an attempt really used reaches admission before the next is admitted", async () => {
    const stage = new Stage([ambiguous({ usage: { ...USAGE, outputTokens: 90_000 } }), SUCCESS]);
    const order: string[] = [];
    const push = stage.told.push.bind(stage.told);
    stage.told.push = (...results) => {
      order.push(`settled ${results[0]?.usage?.outputTokens}`);
      return push(...results);
    };
    stage.onAdmit = () => {
      order.push("admitted");
      return Promise.resolve();
    };
    await stage.run();
    expect(order).toEqual(["settled 90000", "admitted", "settled 5"]);
  });

  it("fault 66: a model that is gone fails its item once and tells admission the scope", async () => {
    const stage = new Stage([permanent({ code: "model_not_found", scope: "model" }), SUCCESS]);
    expect(await stage.run()).toMatchObject({
      outcome: { status: "failed", attempts: 1, failure: { code: "model_not_found" } },
    });
    expect(stage.told).toMatchObject([{ class: "permanent", scope: "model" }]);
  });

  it("fault 67: there is exactly one request per attempt, however slow it is", async () => {
    const stage = new Stage([HANG, HANG, SUCCESS]);
    expect(await stage.run()).toMatchObject({ outcome: { status: "completed", attempts: 3 } });
    expect(stage.sent.map((sent) => sent.atMs)).toEqual([0, 600_250, 1_200_750]);
  });
});
