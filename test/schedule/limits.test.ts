/** One lane's limits: reserve, settle, release, and what signals do. */
import { describe, expect, it } from "vitest";
import type { LaneLimitsOptions } from "../../src/limits/limits.ts";
import { LaneLimits, type Permit, type Reservation } from "../../src/limits/limits.ts";

const LOAD = { inputTokens: 100, outputTokens: 50 };

function lane(options: Partial<LaneLimitsOptions> = {}): LaneLimits {
  return new LaneLimits({ settings: {}, inFlightMax: 64, nowMs: 0, random: () => 0.5, ...options });
}

function permitOf(reservation: Reservation): Permit {
  if (!reservation.ok) throw new Error(`refused: ${reservation.reason}`);
  return reservation.permit;
}

describe("LaneLimits", () => {
  it("takes a request, its tokens and a place, and gives the tokens and the place back", () => {
    const limits = lane({ settings: { requestsPerMinute: 600, tokensPerMinute: 10_000 } });
    const permit = permitOf(limits.reserve(0, LOAD));
    expect(limits.snapshot(0)).toMatchObject({
      inFlight: 1,
      requests: { used: 1, limit: 600 },
      tokens: { used: 150, limit: 10_000 },
      inputTokens: undefined,
      state: "open",
    });
    limits.settle(500, permit, { inputTokens: 100, outputTokens: 10 });
    limits.release(500, permit);
    expect(limits.snapshot(500)).toMatchObject({ inFlight: 0, requests: { used: 1 }, tokens: { used: 110 } });
  });

  it("settles and releases a permit once, however often it is told", () => {
    const limits = lane({ settings: { outputTokensPerMinute: 10_000 } });
    const permit = permitOf(limits.reserve(0, LOAD));
    permitOf(limits.reserve(10_000, LOAD));
    for (let each = 0; each < 3; each++) {
      limits.settle(1, permit, { inputTokens: 100, outputTokens: 20 });
      limits.release(1, permit);
    }
    expect(limits.snapshot(1)).toMatchObject({ inFlight: 1, outputTokens: { used: 70 } });
  });

  it("keeps what was reserved when nothing is known of the use", () => {
    const limits = lane({ settings: { tokensPerMinute: 10_000 } });
    const permit = permitOf(limits.reserve(0, LOAD));
    limits.settle(1, permit, undefined);
    limits.settle(2, permit, { inputTokens: 0, outputTokens: 0 });
    expect(limits.snapshot(2).tokens?.used).toBe(150);
  });

  it("has places for 500 streams after three rounds of first parts, long before the first of them ends", () => {
    const shared = lane({ inFlightMax: 500 });
    const limits = lane({ inFlightMax: 500, shared });
    const rounds: number[] = [];
    for (let nowMs = 0; limits.inFlight < 500; nowMs += 100) {
      const sent: Permit[] = [];
      for (let next = limits.reserve(nowMs, LOAD); next.ok; next = limits.reserve(nowMs, LOAD))
        sent.push(next.permit);
      rounds.push(sent.length);
      for (const permit of sent) limits.begun(nowMs + 100, permit);
    }
    expect(rounds).toEqual([64, 64, 128, 244]); // twice what arrives
  });

  it("counts an answer once, at its first part or at its end, in the lane and in what it shares", () => {
    const shared = lane({ inFlightMax: 500, inFlightStart: 10 });
    const limits = lane({ inFlightMax: 500, inFlightStart: 10, shared });
    const permits = Array.from({ length: 10 }, () => permitOf(limits.reserve(0, LOAD)));
    for (const permit of permits) for (let each = 0; each < 3; each += 1) limits.begun(100, permit);
    expect([limits.places, shared.places]).toEqual([20, 20]);
    for (const permit of permits) limits.observe(5_000, { kind: "success" }, permit);
    expect([limits.places, shared.places]).toEqual([20, 20]);
  });

  it("grows by first parts only while more than half of its places are in use", () => {
    const limits = lane({ inFlightMax: 500 });
    for (let nowMs = 0; nowMs < 60_000; nowMs += 1_000) {
      const permits = Array.from({ length: 32 }, () => permitOf(limits.reserve(nowMs, LOAD)));
      for (const permit of permits) limits.begun(nowMs + 100, permit);
      for (const permit of permits) limits.observe(nowMs + 900, { kind: "success" }, permit);
      for (const permit of permits) limits.release(nowMs + 900, permit);
    }
    expect(limits.places).toBe(64);
  });

  it("takes half as much from first parts that arrive late", () => {
    const limits = lane({ inFlightMax: 500, inFlightStart: 10 });
    const permits = Array.from({ length: 10 }, () => permitOf(limits.reserve(0, LOAD)));
    for (const permit of permits) limits.begun(3_001, permit);
    expect(limits.places).toBe(15);
  });

  it("names what is short and when to ask again", () => {
    const limits = lane({ settings: { requestsPerMinute: 60, inputTokensPerMinute: 1_000 } });
    permitOf(limits.reserve(0, LOAD));
    const refused = limits.reserve(0, { inputTokens: 10, outputTokens: 0 });
    expect(refused).toMatchObject({ ok: false, reason: "tokens" });
    expect(!refused.ok && refused.waitMs).toBeCloseTo(6_000, 3);
    expect(limits.reserve(0, { inputTokens: 0, outputTokens: 0 })).toMatchObject({
      ok: false,
      reason: "requests",
    });
  });

  it("refuses without end when all places are taken, until a release", () => {
    const limits = lane({ inFlightMax: 2 });
    const permit = permitOf(limits.reserve(0, LOAD));
    permitOf(limits.reserve(0, LOAD));
    expect(limits.reserve(0, LOAD)).toEqual({
      ok: false,
      waitMs: Number.POSITIVE_INFINITY,
      reason: "concurrency",
    });
    limits.release(1, permit);
    expect(limits.reserve(1, LOAD).ok).toBe(true);
  });

  it("takes the smaller of inFlightMax and the configured concurrency", () => {
    expect(lane({ settings: { concurrency: 3 } }).snapshot(0).inFlightMax).toBe(3);
  });

  it("counts nonsense loads as nothing and fractions as the next whole number", () => {
    const limits = lane({ settings: { tokensPerMinute: 1_000 } });
    permitOf(limits.reserve(0, { inputTokens: Number.NaN, outputTokens: -5 }));
    permitOf(limits.reserve(0, { inputTokens: 1.2, outputTokens: Number.POSITIVE_INFINITY }));
    expect(limits.snapshot(0).tokens?.used).toBe(2);
  });

  it("passes the shared limits too, and takes nothing of its own when they refuse", () => {
    const shared = lane({ settings: { requestsPerMinute: 60 } });
    const first = lane({ settings: { requestsPerMinute: 6_000 }, shared });
    const second = lane({ settings: { requestsPerMinute: 6_000 }, shared });
    const permit = permitOf(first.reserve(0, LOAD));
    expect(second.reserve(0, LOAD)).toMatchObject({ ok: false, reason: "requests" });
    expect(second.snapshot(0)).toMatchObject({ inFlight: 0, requests: { used: 1, limit: 60 } }); // what is shared is fuller
    expect(shared.snapshot(0).inFlight).toBe(1);
    first.settle(1, permit, LOAD);
    first.release(1, permit);
    expect(shared.snapshot(1).inFlight).toBe(0);
    expect(second.snapshot(61_000)).toMatchObject({ requests: { used: 0 } });
  });

  it("keeps a rate limit to its lane, and shows an outage to the shared limits", () => {
    const shared = lane();
    const first = lane({ shared });
    const second = lane({ shared });
    first.observe(0, { kind: "rate_limited", retryAfterMs: 5_000 });
    expect(first.reserve(1, LOAD)).toMatchObject({ ok: false, reason: "cooldown" });
    expect(second.reserve(1, LOAD).ok).toBe(true);
    for (let each = 0; each < 12; each++) first.observe(each * 1_000, { kind: "not_sent" });
    expect(second.reserve(11_500, LOAD)).toMatchObject({ ok: false, reason: "outage" });
  });

  it("counts the last minute of an earlier process", () => {
    const shared = lane({ settings: { requestsPerMinute: 1_000 } });
    const limits = lane({ settings: { requestsPerMinute: 10, tokensPerMinute: 1_000_000 }, shared });
    limits.restore(
      0,
      [-1_000, -70_000, -59_000].map((atMs) => ({ atMs, requests: 5, inputTokens: 10, outputTokens: 1 })),
    );
    expect(limits.snapshot(0)).toMatchObject({ requests: { used: 10 }, tokens: { used: 22 } });
    expect(shared.snapshot(0).requests?.used).toBe(10);
    expect(limits.reserve(0, LOAD)).toMatchObject({ ok: false, reason: "requests" });
  });

  it("is not released from a cool-down by a caller who gives up", () => {
    const limits = lane();
    const permit = permitOf(limits.reserve(0, LOAD));
    limits.observe(10, { kind: "rate_limited", retryAfterMs: 4_000 });
    limits.settle(20, permit, undefined);
    limits.release(20, permit);
    expect(limits.reserve(20, LOAD)).toEqual({ ok: false, waitMs: 3_990, reason: "cooldown" });
    expect(limits.snapshot(20)).toMatchObject({ state: "cooldown", cooldownMs: 3_990 });
    expect(limits.reserve(4_010, LOAD).ok).toBe(true);
  });

  it("cools down for an overload only while most answers are rejections", () => {
    const limits = lane();
    limits.observe(0, { kind: "overloaded", retryAfterMs: 5_000 });
    expect(limits.reserve(1, LOAD).ok).toBe(true);
    for (let each = 0; each < 40; each++) limits.observe(2, { kind: "overloaded", retryAfterMs: 5_000 });
    expect(limits.reserve(3, LOAD)).toMatchObject({ ok: false, reason: "cooldown" });
  });

  it("cuts the places after a 429, but where a rate is known not below the start", () => {
    const unrated = lane({ inFlightMax: 64 });
    unrated.observe(0, { kind: "rate_limited" });
    expect(unrated.snapshot(0).inFlightMax).toBe(32);
    const rated = lane({ inFlightMax: 64, settings: { requestsPerMinute: 6_000 } });
    rated.observe(0, { kind: "rate_limited" });
    expect(rated.snapshot(0).inFlightMax).toBe(64);
  });

  it("fault 46: lets one probe per minute through while paused, and resumes when it succeeds", () => {
    const limits = lane();
    permitOf(limits.reserve(0, LOAD));
    limits.pause(0, "quota used up");
    limits.pause(100, "quota used up");
    limits.observe(200, { kind: "success" }); // was on its way before the pause
    expect(limits.isPaused).toBe(true);
    expect(limits.reserve(1_000, LOAD)).toEqual({ ok: false, waitMs: 59_000, reason: "paused" });
    expect(permitOf(limits.reserve(60_000, LOAD)).isProbe).toBe(true);
    limits.pause(60_500, "quota used up");
    expect(limits.reserve(60_500, LOAD)).toMatchObject({ ok: false, waitMs: 59_500 });
    expect(permitOf(limits.reserve(120_000, LOAD)).isProbe).toBe(true);
    limits.observe(121_000, { kind: "success" });
    expect(permitOf(limits.reserve(121_000, LOAD)).isProbe).toBe(false);
  });

  it("probes once after a second where it is asked to, and then once a minute", () => {
    const limits = lane();
    limits.pause(0, "no money", { afterMs: 1_000, count: 1 });
    const probes: number[] = [];
    for (let nowMs = 0; nowMs <= 200_000; nowMs += 500)
      if (limits.reserve(nowMs, LOAD).ok) {
        probes.push(nowMs / 1_000);
        limits.pause(nowMs + 200, "no money", { afterMs: 1_000, count: 1 });
      }
    expect(probes).toEqual([1, 60, 120, 180]);
  });

  it("stays paused without probes until it is resumed", () => {
    const limits = lane();
    limits.pause(0, "key revoked", { afterMs: Number.POSITIVE_INFINITY, count: 1 });
    expect(limits.reserve(1e9, LOAD)).toEqual({
      ok: false,
      waitMs: Number.POSITIVE_INFINITY,
      reason: "paused",
    });
    expect(limits.snapshot(1e9)).toMatchObject({ state: "paused", pauseReason: "key revoked" });
    limits.resume();
    expect(limits.reserve(1e9, LOAD).ok).toBe(true);
  });

  it("takes a learnt limit into account", () => {
    const limits = lane({ settings: { requestsPerMinute: 6_000 } });
    limits.learn(0, {
      requestsPerMinute: 600,
      tokensPerMinute: 9_000,
      remainingTokens: 0,
      resetTokensMs: 3_000,
    });
    expect(limits.snapshot(0)).toMatchObject({ requests: { limit: 600 }, tokens: { limit: 9_000 } });
    expect(limits.reserve(0, LOAD)).toEqual({ ok: false, waitMs: 3_000, reason: "tokens" });
  });
});
