import { describe, expect, it } from "vitest";
import type { AttemptTimes, Call } from "../../src/dispatch/dispatcher.ts";
import type { Decoded } from "../../src/providers/provider.ts";
import { CUT, HANG, LOST, NOT_SENT, refused, Stage, SUCCESS, USAGE } from "./scripted.ts";

const SERVER_ERROR: Decoded = {
  class: "ambiguous",
  code: "provider_error",
  message: "acme answered 500",
  scope: "item",
};

describe("the dispatcher", () => {
  it("ends a call that succeeds at once without asking admission again", async () => {
    const stage = new Stage([SUCCESS]);
    expect(await stage.run()).toEqual({
      kind: "outcome",
      outcome: {
        status: "completed",
        output: { type: "text", text: "yes" },
        finish: "stop",
        last: expect.objectContaining({
          class: "success",
          status: 200,
          text: "yes",
          usage: USAGE,
          latencyMs: 0,
        }),
        usage: USAGE,
        attempts: 1,
        ambiguousAttempts: 0,
      },
    });
    expect(stage.admitted).toEqual([]);
    expect(stage.told).toMatchObject([{ class: "success", status: 200, text: "yes" }]);
  });

  it("shows how the answer ended", async () => {
    const result = await new Stage([{ ...SUCCESS, finish: "length" } as Decoded]).run();
    expect(result).toMatchObject({ outcome: { output: { text: "yes" }, finish: "length" } });
  });

  it("estimates usage that a success does not tell", async () => {
    const result = await new Stage([
      { class: "success", text: "12345", finish: "stop", usage: undefined },
    ]).run();
    expect(result).toMatchObject({
      outcome: { usage: { inputTokens: 7, outputTokens: 2, isEstimated: true } },
    });
  });

  it("estimates it from the texts of all candidates, not from their JSON", async () => {
    const other = { text: "12345678", finish_reason: "stop" } as const;
    const members = { reasoning: "1234", other_candidates: [other, other] };
    const result = await new Stage([
      { class: "success", text: "1234", finish: "stop", usage: undefined, members },
    ]).run();
    expect(result).toMatchObject({ outcome: { usage: { outputTokens: 6, isEstimated: true } } });
  });

  it("answers an embedded provider without the transport", async () => {
    const stage = new Stage([SUCCESS]);
    const call = stage.call();
    const provider = { ...call.provider, answerLocally: () => ({ status: 200, body: Buffer.from("0") }) };
    expect(await stage.run({ ...call, provider })).toMatchObject({
      outcome: { status: "completed", attempts: 1 },
    });
    expect(stage.sent).toEqual([]);
    expect(stage.told).toHaveLength(1);
  });

  it("asks an embedded provider again without the transport", async () => {
    const stage = new Stage([{ ...SUCCESS, text: "" } as Decoded, SUCCESS]);
    const call = stage.call();
    let asked = 0;
    const answerLocally = () => {
      asked += 1;
      return { status: 200, body: Buffer.from(String(asked - 1)) };
    };
    const result = await stage.run({ ...call, provider: { ...call.provider, answerLocally } });
    expect(result).toMatchObject({ outcome: { status: "completed", attempts: 2 } });
    expect(stage.sent).toEqual([]);
  });

  it("passes admission before every attempt after the first, with the counts so far", async () => {
    const stage = new Stage([refused(), SERVER_ERROR, SUCCESS]);
    const result = await stage.run();
    expect(result).toMatchObject({ outcome: { status: "completed", attempts: 3, ambiguousAttempts: 1 } });
    expect(stage.admitted).toMatchObject([
      { attempts: 1, ambiguousAttempts: 0 },
      { attempts: 2, ambiguousAttempts: 1 },
    ]);
    expect(stage.told.map((told) => told.class)).toEqual(["refused", "ambiguous", "success"]);
  });

  it("asks admission only once the wait is over", async () => {
    const stage = new Stage([refused({ retryAfterMs: 5_000 }), SUCCESS]);
    await stage.run();
    expect(stage.admitted).toMatchObject([{ atMs: 5_000 }]);
    expect(stage.sent[1]?.atMs).toBe(5_000);
  });

  it("ends with the last failure's code once the ambiguous budget is used up", async () => {
    const stage = new Stage([LOST]);
    const result = await stage.run();
    expect(result).toMatchObject({
      outcome: {
        status: "failed",
        attempts: 3,
        ambiguousAttempts: 3,
        failure: {
          code: "connection_lost",
          retryable: true,
          attempts: 3,
          ambiguous_attempts: 3,
          provider: "acme",
        },
      },
    });
  });

  it("sends once and ends as ambiguous when delivery is at most once", async () => {
    const stage = new Stage([LOST, SUCCESS], { ambiguousMax: 0 });
    expect(await stage.run()).toMatchObject({
      outcome: { status: "failed", failure: { code: "ambiguous" } },
    });
    expect(stage.sent).toHaveLength(1);
  });

  it("sends nothing for an item whose earlier attempts left it in doubt beyond the budget", async () => {
    const stage = new Stage([SUCCESS], { ambiguousMax: 0 });
    const result = await stage.run(stage.call({ attempts: 1, ambiguousAttempts: 1 }));
    expect(result).toMatchObject({
      outcome: { status: "failed", attempts: 1, failure: { code: "ambiguous" } },
    });
    expect(stage.sent).toEqual([]);
    expect(stage.told).toMatchObject([{ class: "not_sent" }]);
  });

  it("counts attempts from before a restart", async () => {
    const stage = new Stage([refused()]);
    expect(await stage.run(stage.call({ attempts: 6 }))).toMatchObject({ outcome: { attempts: 8 } });
    expect(stage.sent).toHaveLength(2);
  });

  it("gives an attempt all the time that is left, and books one that is not answered by then as ambiguous", async () => {
    const stage = new Stage([HANG, SUCCESS]);
    const result = await stage.run(stage.call({ deadlineMs: 20_000 }));
    expect(stage.sent.map(({ timeoutMs }) => timeoutMs)).toEqual([20_000]);
    expect(result).toMatchObject({
      outcome: { status: "expired", attempts: 1, ambiguousAttempts: 1, failure: { code: "expired" } },
    });
    expect(stage.told).toMatchObject([{ class: "ambiguous", code: "timeout" }]);
    expect(stage.clock.nowMs()).toBe(20_000);
  });

  it("gives an attempt as long as its lane says, or until its deadline", async () => {
    const slow = new Stage([SUCCESS]);
    await slow.run(slow.call({ attemptMsMax: 3_600_000 }));
    expect(slow.sent[0]?.timeoutMs).toBe(3_600_000);
    const hasty = new Stage([SUCCESS]);
    await hasty.run(hasty.call({ deadlineMs: 20 }));
    expect(hasty.sent[0]?.timeoutMs).toBe(20);
  });

  it("looks at an attempt when patience says, gives it up when that says 0, and sends a fresh one", async () => {
    const asked: AttemptTimes[] = [];
    const patienceMs = (_call: Call, times: AttemptTimes): number => {
      asked.push(times);
      return times.elapsedMs < 3_000 && times.timeouts === 0 ? 1_500 : times.timeouts * 9_999;
    };
    const stage = new Stage([HANG, SUCCESS], {}, { patienceMs });
    const result = await stage.run(stage.call({ deadlineMs: 20_000 }));
    expect(result).toMatchObject({ outcome: { status: "completed", attempts: 2, ambiguousAttempts: 1 } });
    const first = { sentMs: 0, timeouts: 0 };
    expect(asked.slice(0, 3)).toEqual([
      { ...first, elapsedMs: 0, leftMs: 20_000, freshMs: 20_000 },
      { ...first, elapsedMs: 1_500, leftMs: 18_500, freshMs: 18_500 },
      { ...first, elapsedMs: 3_000, leftMs: 17_000, freshMs: 17_000 },
    ]);
    expect(asked[3]).toMatchObject({ elapsedMs: 0, timeouts: 1 });
  });

  it("gives an attempt up when what is left of its time is too short to move a clock", async () => {
    const patienceMs = (_call: Call, { timeouts, elapsedMs }: AttemptTimes): number =>
      timeouts > 0 || elapsedMs < 1_000 ? 1_000 : 1e-12;
    const stage = new Stage([HANG, SUCCESS], {}, { patienceMs });
    const result = await stage.run(stage.call({ deadlineMs: 20_000 }));
    expect(result).toMatchObject({ outcome: { status: "completed", attempts: 2 } });
  });

  it("expires an item whose deadline passed before its admitted attempt, and sends nothing", async () => {
    const stage = new Stage([SUCCESS]);
    const result = await stage.run(stage.call({ deadlineMs: 0 }));
    expect(result).toMatchObject({
      outcome: { status: "expired", attempts: 0, failure: { code: "expired" } },
    });
    expect(stage.sent).toEqual([]);
    expect(stage.told).toMatchObject([{ class: "not_sent" }]);
  });

  it("expires an item whose retry is admitted too late, and settles that admission", async () => {
    const stage = new Stage([refused(), SUCCESS]);
    stage.onAdmit = () => stage.clock.sleep(60_000);
    const result = await stage.run(stage.call({ deadlineMs: 30_000 }));
    expect(result).toMatchObject({ outcome: { status: "expired", attempts: 1 } });
    expect(stage.told.map((told) => told.class)).toEqual(["refused", "not_sent"]);
  });

  it("expires at the deadline, not before, when the wait that was asked for does not fit", async () => {
    const stage = new Stage([refused({ retryAfterMs: 60_000 }), SUCCESS]);
    const result = await stage.run(stage.call({ deadlineMs: 30_000 }));
    expect(result).toMatchObject({ outcome: { status: "expired", failure: { code: "expired" } } });
    expect(stage.clock.nowMs()).toBe(30_000);
    expect(stage.sent).toHaveLength(1);
  });

  it("repeats what is not the item's fault without end, and reports every attempt", async () => {
    const stage = new Stage([...Array.from({ length: 40 }, () => SERVER_ERROR), SUCCESS]);
    stage.isOwn = () => false;
    expect(await stage.run()).toMatchObject({
      outcome: { status: "completed", attempts: 41, ambiguousAttempts: 40 },
    });
    expect(stage.admitted.at(-1)).toMatchObject({ attempts: 40, uncounted: 40, uncountedAmbiguous: 40 });
  });

  it("under at-most-once delivery ends after an ambiguous attempt, for any cause", async () => {
    const stage = new Stage([SERVER_ERROR, SUCCESS], { ambiguousMax: 0 });
    stage.isOwn = () => false;
    expect(await stage.run()).toMatchObject({
      outcome: { status: "failed", failure: { code: "ambiguous" } },
    });
  });

  it("returns the item when the run stops while it waits", async () => {
    const stage = new Stage([refused({ retryAfterMs: 60_000 }), SUCCESS]);
    const stop = new AbortController();
    stage.clock.timer(1_000, () => stop.abort());
    expect(await stage.run(stage.call({ waitSignal: stop.signal }))).toMatchObject({
      kind: "returned",
      reason: "stopped",
      attempts: 1,
    });
    expect(stage.clock.nowMs()).toBe(1_000);
  });

  it("returns the item when admission rejects", async () => {
    const stage = new Stage([NOT_SENT, SUCCESS]);
    stage.onAdmit = () => Promise.reject(new Error("the run no longer sends"));
    expect(await stage.run()).toMatchObject({ kind: "returned", reason: "stopped", attempts: 1 });
  });

  it("returns an item whose attempt was cut by the transport's end, and counts the attempt as ambiguous", async () => {
    const stage = new Stage([CUT]);
    const result = await stage.run();
    expect(result).toMatchObject({ kind: "returned", reason: "stopped", attempts: 1, ambiguousAttempts: 1 });
    expect(stage.told).toMatchObject([{ class: "ambiguous", code: "cancelled" }]);
  });

  it("lets an attempt under way end when the run stops", async () => {
    const stage = new Stage([{ ...LOST, afterMs: 5_000 }, SUCCESS]);
    const stop = new AbortController();
    stage.clock.timer(1_000, () => stop.abort());
    expect(await stage.run(stage.call({ waitSignal: stop.signal }))).toMatchObject({
      kind: "returned",
      reason: "stopped",
      attempts: 1,
      ambiguousAttempts: 1,
    });
    expect(stage.clock.nowMs()).toBe(5_000);
  });

  it("sums the usage of all attempts that were billed", async () => {
    const filteredAway: Decoded = { ...SERVER_ERROR, usage: USAGE } as Decoded;
    const result = await new Stage([filteredAway, SUCCESS]).run();
    expect(result).toMatchObject({ outcome: { usage: { inputTokens: 20, outputTokens: 10 } } });
  });

  it("holds no time limit but the attempts against an item without deadline", async () => {
    const stage = new Stage([refused({ retryAfterMs: 900_000 })]);
    expect(await stage.run()).toMatchObject({ outcome: { status: "failed", attempts: 8 } });
    expect(stage.clock.nowMs()).toBe(7 * 900_000);
  });

  it("lets faults of admission's own bookkeeping through", async () => {
    const stage = new Stage([SUCCESS]);
    stage.told.push = () => {
      throw new TypeError("a fault of perigee");
    };
    await expect(stage.run()).rejects.toThrow("a fault of perigee");
  });
});
