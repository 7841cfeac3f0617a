import { describe, expect, it } from "vitest";
import { Budget, Cap, type MoneyReservation, type Taken } from "../../src/price/budget.ts";

function held(budget: Budget, usd: number): MoneyReservation {
  const answer = budget.reserve(usd);
  if (!answer.ok) throw new Error(answer.reason);
  return answer.reservation;
}

function billed(billedUsd: number): Taken {
  return { billedUsd, ambiguousUsd: 0 };
}

function capped(capUsd: number, taken = billed(0)): { readonly cap: Cap; readonly budget: Budget } {
  const cap = new Cap(capUsd);
  return { cap, budget: new Budget([cap], taken) };
}

describe("the cost cap", () => {
  it("holds money for a request and counts what was really spent", () => {
    const { budget, cap } = capped(1);
    const reservation = held(budget, 0.4);
    expect([cap.spentUsd, cap.heldUsd, cap.availableUsd]).toEqual([0, 0.4, 0.6]);
    budget.settle(reservation, billed(0.1));
    expect([cap.spentUsd, cap.heldUsd, cap.availableUsd]).toEqual([0.1, 0, 0.9]);
  });

  it("says wait while requests in flight hold the money, exhausted when it cannot fit any more", () => {
    const { budget, cap } = capped(1);
    const first = held(budget, 0.7);
    expect(budget.reserve(0.4)).toEqual({ ok: false, reason: "wait", cap });
    expect(budget.reserve(1.1)).toEqual({ ok: false, reason: "exhausted", cap });
    budget.settle(first, billed(0.65));
    expect(budget.reserve(0.4)).toEqual({ ok: false, reason: "exhausted", cap });
    expect(budget.reserve(0.35).ok).toBe(true);
  });

  it("goes on from what was spent before a restart", () => {
    const { budget, cap } = capped(1, billed(0.95));
    expect(budget.reserve(0.1)).toEqual({ ok: false, reason: "exhausted", cap });
    expect(budget.reserve(0.05).ok).toBe(true);
  });

  it("lets free requests through when nothing is left", () => {
    expect(capped(0).budget.reserve(0).ok).toBe(true);
  });

  it("settles a reservation once", () => {
    const { budget, cap } = capped(1);
    const reservation = held(budget, 0.5);
    budget.settle(reservation, billed(0.2));
    budget.settle(reservation, billed(0.2));
    expect([cap.spentUsd, cap.heldUsd]).toEqual([0.2, 0]);
  });

  it("counts spending above a reservation in full and says so", () => {
    const { budget, cap } = capped(1);
    budget.settle(held(budget, 0.5), billed(1.25));
    expect([cap.spentUsd, budget.overrunUsd, cap.availableUsd]).toEqual([1.25, 0.75, 0]);
    expect(budget.reserve(0.01)).toEqual({ ok: false, reason: "exhausted", cap });
  });

  it("adds a million amounts up exactly, where floating point drifts", () => {
    const { budget, cap } = capped(1_000_000);
    let naive = 0;
    for (let index = 0; index < 1_000_000; index++) {
      budget.settle(held(budget, 0.2), billed(0.1));
      naive += 0.1;
    }
    expect(cap.spentUsd).toBe(100_000);
    expect(naive).not.toBe(100_000);
    expect(cap.heldUsd).toBe(0);
  });

  it("uses at least 97 % of a cap that is large against one request", () => {
    const { budget, cap } = capped(1);
    const inFlight: MoneyReservation[] = [];
    let sent = 0;
    for (;;) {
      const answer = budget.reserve(0.02);
      if (answer.ok) {
        inFlight.push(answer.reservation);
        sent += 1;
        if (inFlight.length < 30) continue;
      } else if (answer.reason === "exhausted") break;
      const next = inFlight.shift();
      if (next !== undefined) budget.settle(next, billed(0.004));
    }
    for (const reservation of inFlight) budget.settle(reservation, billed(0.004));
    expect(cap.spentUsd).toBeGreaterThanOrEqual(0.97);
    expect(cap.spentUsd).toBeLessThanOrEqual(1);
    expect(sent).toBeGreaterThan(240);
  });

  it("keeps what is billed and what is in doubt apart, and counts both", () => {
    const { budget, cap } = capped(1);
    const reservation = held(budget, 0.4);
    budget.settle(held(budget, 0.3), billed(0.1));
    budget.settle(reservation, { billedUsd: 0, ambiguousUsd: reservation.usd });
    expect([budget.billedUsd, budget.ambiguousUsd, budget.heldUsd]).toEqual([0.1, 0.4, 0]);
    expect([cap.spentUsd, cap.availableUsd]).toEqual([0.5, 0.5]);
  });

  it("may be shared: each run takes from the same amount, and may have one of its own besides", () => {
    const shared = new Cap(1, "evals-november");
    const own = new Cap(0.3);
    const first = new Budget([shared], billed(0.2));
    const second = new Budget([own, shared]);
    const reservation = held(first, 0.6);
    expect(second.reserve(0.4)).toEqual({ ok: false, reason: "exhausted", cap: own });
    expect(second.reserve(0.25)).toEqual({ ok: false, reason: "wait", cap: shared });
    first.settle(reservation, billed(0.5));
    expect(second.reserve(0.25).ok).toBe(true);
    expect([shared.spentUsd, shared.heldUsd, own.heldUsd, first.heldUsd]).toEqual([0.7, 0.25, 0.25, 0]);
  });

  it("counts without any cap, too", () => {
    const budget = new Budget();
    budget.settle(held(budget, 1e6), billed(3));
    expect([budget.isCapped, budget.billedUsd, budget.committedUsd]).toEqual([false, 3, 3]);
  });

  it("refuses invalid caps and amounts", () => {
    for (const capUsd of [Number.NaN, -1, Number.POSITIVE_INFINITY, 1e10])
      expect(() => new Cap(capUsd)).toThrow(/the cost cap must be USD from 0/);
    expect(() => capped(1, billed(Number.NaN))).toThrow(/finite and not negative/);
    const { budget } = capped(1);
    expect(() => budget.reserve(Number.NaN)).toThrow(/finite and not negative/);
    expect(() => budget.reserve(-1)).toThrow(/finite and not negative/);
  });
});
