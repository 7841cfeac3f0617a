/**
 * Laws of a lane against a provider made of numbers, in virtual time: 429 storms, outages, caps, places in flight.
 * One loop models an engine under endless backlog: it reserves until refused, then sleeps to the next event.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LaneLimits, type Permit, type Signal } from "../../src/limits/limits.ts";
import type { LimitSettings } from "../../src/work/limits.ts";

interface Answer {
  readonly afterMs: number;
  readonly signal: Signal;
}

interface Simulation {
  readonly seed: number;
  readonly settings: LimitSettings;
  readonly inFlightMax: number;
  readonly untilMs: number;
  /** The provider: what a request sent at `nowMs` gets. */
  readonly answer: (nowMs: number, random: () => number, inFlight: number) => Answer;
  /** Stops when so many succeeded. */
  readonly successes?: number;
}

interface Trace {
  readonly sentAtMs: readonly number[];
  readonly inFlightMost: number;
  readonly succeeded: number;
  readonly endedAtMs: number;
}

const LOAD = { inputTokens: 100, outputTokens: 100 };

function simulate(simulation: Simulation): Trace {
  const random = randomOf(simulation.seed);
  const { settings, inFlightMax } = simulation;
  const limits = new LaneLimits({ settings, inFlightMax, nowMs: 0, random });
  const pending: { readonly atMs: number; readonly permit: Permit; readonly signal: Signal }[] = [];
  const sentAtMs: number[] = [];
  let inFlightMost = 0;
  let succeeded = 0;
  let nowMs = 0;
  while (nowMs < simulation.untilMs && succeeded < (simulation.successes ?? Number.POSITIVE_INFINITY)) {
    let reservation = limits.reserve(nowMs, LOAD);
    for (; reservation.ok; reservation = limits.reserve(nowMs, LOAD)) {
      sentAtMs.push(nowMs);
      const { afterMs, signal } = simulation.answer(nowMs, random, pending.length + 1);
      insert(pending, { atMs: nowMs + afterMs, permit: reservation.permit, signal });
      inFlightMost = Math.max(inFlightMost, pending.length);
    }
    if (!(reservation.waitMs > 0)) throw new Error(`asked to wait ${reservation.waitMs} ms`);
    const next = pending.at(-1);
    nowMs = Math.min(nowMs + reservation.waitMs, next?.atMs ?? Number.POSITIVE_INFINITY);
    while (pending.length > 0 && pending.at(-1)!.atMs <= nowMs) {
      const { permit, signal } = pending.pop()!;
      limits.observe(nowMs, signal);
      limits.settle(nowMs, permit, undefined);
      limits.release(nowMs, permit);
      if (signal.kind === "success") succeeded += 1;
    }
  }
  return { sentAtMs, inFlightMost, succeeded, endedAtMs: nowMs };
}

/** Keeps the soonest last. */
function insert<E extends { readonly atMs: number }>(sorted: E[], entry: E): void {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]!.atMs > entry.atMs) low = middle + 1;
    else high = middle;
  }
  sorted.splice(low, 0, entry);
}

function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function countBetween(times: readonly number[], fromMs: number, toMs: number): number {
  return firstAtOrAfter(times, toMs) - firstAtOrAfter(times, fromMs);
}

function firstAtOrAfter(times: readonly number[], ms: number): number {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle]! < ms) low = middle + 1;
    else high = middle;
  }
  return low;
}

function fullestMinute(times: readonly number[]): number {
  let most = 0;
  let oldest = 0;
  for (let index = 0; index < times.length; index++) {
    while (times[oldest]! <= times[index]! - 60_000) oldest += 1;
    most = Math.max(most, index - oldest + 1);
  }
  return most;
}

const seeds = fc.integer({ min: 0, max: 2 ** 31 });

describe("LaneLimits", () => {
  it("fault 45: sends at most 60 % of the limit while 70 % are rejected, and everything gets done", () => {
    const retryAfter = fc.constantFrom(undefined, 0, 1_000);
    fc.assert(
      fc.property(seeds, fc.constantFrom(60, 600, 6_000), retryAfter, (seed, limit, retryAfterMs) => {
        const trace = simulate({
          seed,
          settings: { requestsPerMinute: limit },
          inFlightMax: 512,
          // A low limit needs two hours for its share of rejections to come out at 70 %.
          untilMs: limit < 600 ? 7_200_000 : 900_000,
          answer: (_, random) => ({
            afterMs: 20 + random() * 400,
            signal: random() < 0.7 ? { kind: "rate_limited", retryAfterMs } : { kind: "success" },
          }),
        });
        // A low limit needs some answers before the share of rejections is known.
        const fromMs = limit < 600 ? 300_000 : 60_000;
        const minutes = (trace.endedAtMs - fromMs) / 60_000;
        expect(countBetween(trace.sentAtMs, fromMs, trace.endedAtMs) / minutes).toBeLessThanOrEqual(
          0.6 * limit,
        );
        expect(trace.succeeded / (trace.endedAtMs / 60_000)).toBeGreaterThanOrEqual(0.1 * limit);
      }),
      { numRuns: 60 },
    );
  });

  it("fault 45: gets 300 items through a storm of 429s with Retry-After of 1 s well within two minutes", () => {
    fc.assert(
      fc.property(seeds, (seed) => {
        const trace = simulate({
          seed,
          settings: { requestsPerMinute: 6_000 },
          inFlightMax: 64,
          untilMs: 600_000,
          successes: 300,
          answer: (_, random) => ({
            afterMs: 5 + random() * 20,
            signal: random() < 0.7 ? { kind: "rate_limited", retryAfterMs: 1_000 } : { kind: "success" },
          }),
        });
        expect(trace.endedAtMs).toBeLessThan(60_000);
      }),
      { numRuns: 20 },
    );
  });

  it("fault 48: after 60 s of outage sends at most 1 % of the limit, and all of it 30 s after healing", () => {
    const failures = fc.constantFrom<Signal>(
      { kind: "failed" },
      { kind: "overloaded" },
      { kind: "not_sent" },
    );
    const provider = fc.record({
      limit: fc.constantFrom(1_200, 6_000, 20_000),
      failure: failures,
      latencyMs: fc.constantFrom(20, 200, 1_000),
      outageAtMs: fc.constantFrom(0, 90_000),
    });
    fc.assert(
      fc.property(seeds, provider, (seed, { limit, failure, latencyMs, outageAtMs }) => {
        const healedAtMs = outageAtMs + 600_000 + (seed % 5_000);
        const trace = simulate({
          seed,
          settings: { requestsPerMinute: limit },
          inFlightMax: 2_048,
          untilMs: healedAtMs + 61_000,
          answer: (nowMs, random) => ({
            afterMs: latencyMs * (0.5 + random()),
            signal: nowMs >= outageAtMs && nowMs < healedAtMs ? failure : { kind: "success" },
          }),
        });
        for (let fromMs = outageAtMs + 60_000; fromMs + 60_000 < healedAtMs; fromMs += 7_000)
          expect(countBetween(trace.sentAtMs, fromMs, fromMs + 60_000)).toBeLessThanOrEqual(
            Math.max(12, limit / 100),
          );
        const healed = countBetween(trace.sentAtMs, healedAtMs + 30_000, healedAtMs + 60_000);
        expect(healed).toBeGreaterThanOrEqual(0.97 * (limit / 2));
      }),
      { numRuns: 60 },
    );
  });

  it("fault 48: heals within 30 s without any configured rate too", () => {
    fc.assert(
      fc.property(seeds, (seed) => {
        const healedAtMs = 300_000 + (seed % 5_000);
        const trace = simulate({
          seed,
          settings: {},
          inFlightMax: 200,
          untilMs: healedAtMs + 60_000,
          answer: (nowMs, random) => ({
            afterMs: 500 + random() * 500,
            signal: nowMs >= 30_000 && nowMs < healedAtMs ? { kind: "failed" } : { kind: "success" },
          }),
        });
        expect(countBetween(trace.sentAtMs, 100_000, 160_000)).toBeLessThanOrEqual(12);
        const nominal = countBetween(trace.sentAtMs, 10_000, 30_000) / 20;
        const healed = countBetween(trace.sentAtMs, healedAtMs + 30_000, healedAtMs + 50_000) / 20;
        expect(healed).toBeGreaterThanOrEqual(0.9 * nominal);
      }),
      { numRuns: 10 },
    );
  });

  it("sends no more than the limit in any minute, for any answers of the provider", () => {
    const kinds = fc.array(
      fc.constantFrom<Signal["kind"]>("success", "rate_limited", "overloaded", "failed", "not_sent", "other"),
      { minLength: 1, maxLength: 8 },
    );
    fc.assert(
      fc.property(seeds, fc.integer({ min: 1, max: 2_000 }), kinds, (seed, limit, answers) => {
        const trace = simulate({
          seed,
          settings: { requestsPerMinute: limit, tokensPerMinute: 300_000 },
          inFlightMax: 128,
          untilMs: 300_000,
          answer: (_, random) => ({
            afterMs: random() * 3_000,
            signal: { kind: answers[Math.floor(random() * answers.length)]! },
          }),
        });
        expect(fullestMinute(trace.sentAtMs)).toBeLessThanOrEqual(Math.min(limit, 300_000 / 200));
      }),
      { numRuns: 60 },
    );
  });

  it("uses at least 97 % of the limit against a provider that allows it", () => {
    fc.assert(
      fc.property(seeds, fc.constantFrom(3, 60, 500, 6_000), (seed, limit) => {
        const trace = simulate({
          seed,
          settings: { requestsPerMinute: limit },
          inFlightMax: 1_000,
          untilMs: 360_000,
          answer: (_, random) => ({ afterMs: 50 + random() * 500, signal: { kind: "success" } }),
        });
        expect(countBetween(trace.sentAtMs, 60_000, 360_000)).toBeGreaterThanOrEqual(0.97 * limit * 5);
      }),
      { numRuns: 10 },
    );
  });

  it("has 2,048 in flight within ten round trips when nothing objects", () => {
    const trace = simulate({
      seed: 7,
      settings: {},
      inFlightMax: 2_048,
      untilMs: 2_000,
      answer: (_, random) => ({ afterMs: 180 + random() * 40, signal: { kind: "success" } }),
    });
    expect(trace.inFlightMost).toBe(2_048);
  });

  it("settles near what a provider with a limit on concurrency allows", () => {
    const trace = simulate({
      seed: 11,
      settings: {},
      inFlightMax: 2_048,
      untilMs: 120_000,
      answer: (_, random, inFlight) =>
        inFlight > 500
          ? { afterMs: 20, signal: { kind: "rate_limited" } }
          : { afterMs: 400 + random() * 200, signal: { kind: "success" } },
    });
    // 500 places of half a second each: 1,000 a second at best.
    expect(trace.succeeded / 120).toBeGreaterThan(500);
  });
});
