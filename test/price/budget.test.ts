import { describe, expect, it } from "vitest";
import { Budget, type Reservation } from "../../src/price/budget.ts";

function held(budget: Budget, usd: number): Reservation {
  const answer = budget.reserve(usd);
  if (!answer.ok) throw new Error(answer.reason);
  return answer.reservation;
}

describe("the cost cap", () => {
  it("holds money for a request and counts what was really spent", () => {
    const budget = new Budget({ capUsd: 1 });
    const reservation = held(budget, 0.4);
    expect([budget.spentUsd, budget.reservedUsd, budget.availableUsd]).toEqual([0, 0.4, 0.6]);
    budget.settle(reservation, 0.1);
    expect([budget.spentUsd, budget.reservedUsd, budget.availableUsd]).toEqual([0.1, 0, 0.9]);
  });

  it("says wait while requests in flight hold the money, exhausted when it cannot fit any more", () => {
    const budget = new Budget({ capUsd: 1 });
    const first = held(budget, 0.7);
    expect(budget.reserve(0.4)).toEqual({ ok: false, reason: "wait" });
    expect(budget.reserve(1.1)).toEqual({ ok: false, reason: "exhausted" });
    budget.settle(first, 0.65);
    expect(budget.reserve(0.4)).toEqual({ ok: false, reason: "exhausted" });
    expect(budget.reserve(0.35).ok).toBe(true);
  });

  it("goes on from what was spent before a restart", () => {
    const budget = new Budget({ capUsd: 1, spentUsd: 0.95 });
    expect(budget.reserve(0.1)).toEqual({ ok: false, reason: "exhausted" });
    expect(budget.reserve(0.05).ok).toBe(true);
  });

  it("lets free requests through when nothing is left", () => {
    expect(new Budget({ capUsd: 0 }).reserve(0).ok).toBe(true);
  });

  it("settles a reservation once", () => {
    const budget = new Budget({ capUsd: 1 });
    const reservation = held(budget, 0.5);
    budget.settle(reservation, 0.2);
    budget.settle(reservation, 0.2);
    expect([budget.spentUsd, budget.reservedUsd]).toEqual([0.2, 0]);
  });

  it("counts spending above a reservation in full and says so", () => {
    const budget = new Budget({ capUsd: 1 });
    budget.settle(held(budget, 0.5), 1.25);
    expect([budget.spentUsd, budget.overrunUsd, budget.availableUsd]).toEqual([1.25, 0.75, 0]);
    expect(budget.reserve(0.01)).toEqual({ ok: false, reason: "exhausted" });
  });

  it("adds a million amounts up exactly, where floating point drifts", () => {
    const budget = new Budget({ capUsd: 1_000_000 });
    let naive = 0;
    for (let index = 0; index < 1_000_000; index++) {
      budget.settle(held(budget, 0.2), 0.1);
      naive += 0.1;
    }
    expect(budget.spentUsd).toBe(100_000);
    expect(naive).not.toBe(100_000);
    expect(budget.reservedUsd).toBe(0);
  });

  it("uses at least 97 % of a cap that is large against one request", () => {
    const budget = new Budget({ capUsd: 1 });
    const inFlight: Reservation[] = [];
    let sent = 0;
    for (;;) {
      const answer = budget.reserve(0.02);
      if (answer.ok) {
        inFlight.push(answer.reservation);
        sent += 1;
        if (inFlight.length < 30) continue;
      } else if (answer.reason === "exhausted") break;
      const next = inFlight.shift();
      if (next !== undefined) budget.settle(next, 0.004);
    }
    for (const reservation of inFlight) budget.settle(reservation, 0.004);
    expect(budget.spentUsd).toBeGreaterThanOrEqual(0.97);
    expect(budget.spentUsd).toBeLessThanOrEqual(1);
    expect(sent).toBeGreaterThan(240);
  });

  it("refuses caps and amounts that are none", () => {
    for (const capUsd of [Number.NaN, -1, Number.POSITIVE_INFINITY, 1e10])
      expect(() => new Budget({ capUsd })).toThrow(/the cost cap must be USD from 0/);
    expect(() => new Budget({ capUsd: 1, spentUsd: Number.NaN })).toThrow(/what was spent/);
    const budget = new Budget({ capUsd: 1 });
    expect(() => budget.reserve(Number.NaN)).toThrow(/finite and not negative/);
    expect(() => budget.reserve(-1)).toThrow(/finite and not negative/);
  });
});
