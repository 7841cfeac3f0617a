/** When batches are left, and how; how work is cut into batches; and the distribution that both rest on. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { curveOf, doneShareAfter } from "../../../src/queue/plan/latency_curve.ts";
import { cutBatches } from "./batch_cuts.ts";
import { type BatchOdds, decideSwitch, type RunningBatch, switchTimes } from "./batch_switch.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const PRIOR = { p50: 2 * MINUTE_MS, p90: 30 * MINUTE_MS, p99: 6 * HOUR_MS };
const LANE = { capacity: { requestsPerMinute: 100, itemMs: 2_500 }, latencyP99Ms: 10_000 };
const RESCUE_MS = 25_000;

function batch(id: string, items: number, deadlineMs: number): RunningBatch {
  const unfinished = { items, inputTokens: 0, outputTokens: 0 };
  return { id, deadlineMs, unfinished, cancelMs: 10 * MINUTE_MS, collectMs: MINUTE_MS, results: "cancelled" };
}

describe("the switch of a batch", () => {
  it("is its deadline less drain, rescue, cancel and collect", () => {
    const times = switchTimes([batch("one", 6_000, 24 * HOUR_MS)], LANE).get("one");
    expect(times).toEqual({
      sendMs: 23 * HOUR_MS - RESCUE_MS,
      switchMs: 23 * HOUR_MS - RESCUE_MS - 11 * MINUTE_MS,
    });
  });

  it("is earlier where others are due soon after, and one batch at a time", () => {
    const ids = ["a", "b", "c"];
    const times = switchTimes(
      ids.map((id) => batch(id, 6_000, 24 * HOUR_MS)),
      LANE,
    );
    expect(ids.map((id) => (times.get(id)?.sendMs ?? 0) + RESCUE_MS)).toEqual([
      21 * HOUR_MS,
      22 * HOUR_MS,
      23 * HOUR_MS,
    ]);
  });

  it("is later for the likelier of two that are due together", () => {
    const one = { ...batch("one", 6_000, 24 * HOUR_MS), chance: 0.9 };
    const times = switchTimes([one, batch("two", 6_000, 24 * HOUR_MS)], LANE);
    expect(times.get("one")?.sendMs).toBeGreaterThan(times.get("two")?.sendMs ?? Number.POSITIVE_INFINITY);
  });

  it("leaves time to do all of them by earliest deadline", () => {
    const drawn = fc.record({ items: fc.integer({ min: 1, max: 10_000 }), deadlineMs: fc.nat(48 * HOUR_MS) });
    fc.assert(
      fc.property(fc.array(drawn, { minLength: 1, maxLength: 20 }), (rows) => {
        const batches = rows.map(({ items, deadlineMs }, index) => batch(`${index}`, items, deadlineMs));
        const times = switchTimes(batches, LANE);
        const sent = batches
          .map(({ id, deadlineMs, unfinished }) => ({
            items: unfinished.items,
            deadlineMs,
            ...times.get(id),
          }))
          .toSorted((one, other) => (one.sendMs ?? 0) - (other.sendMs ?? 0));
        let atMs = Number.NEGATIVE_INFINITY;
        for (const { items, deadlineMs, sendMs = 0 } of sent) {
          atMs = Math.max(atMs, sendMs) + (items * MINUTE_MS) / 100;
          expect(atMs).toBeLessThanOrEqual(deadlineMs - RESCUE_MS + 1e-3);
        }
      }),
    );
  });
});

describe("the decision at a switch", () => {
  const times = { switchMs: 2 * HOUR_MS, sendMs: 2 * HOUR_MS + 11 * MINUTE_MS };
  const odds: BatchOdds = {
    nowMs: HOUR_MS,
    createdMs: 0,
    phase: "running",
    results: "cancelled",
    latency: curveOf(PRIOR, 0.02),
    collectMs: MINUTE_MS,
    batchUsd: 5,
    realtimeUsd: 10,
  };

  it("waits before it, cancels at it, and waits for the cancel", () => {
    expect(decideSwitch(odds, times)).toMatchObject({ action: "wait", untilMs: times.switchMs });
    const shown = { ...odds, nowMs: times.switchMs, finishedShare: 0.4 };
    expect(decideSwitch(shown, times)).toEqual({
      action: "cancel",
      untilMs: times.sendMs,
      expectedUsd: 0.4 * 5 + 0.6 * 10,
      twiceUsd: 0,
    });
    const cancelling = { ...shown, phase: "cancelling" } as const;
    expect(decideSwitch(cancelling, times)).toMatchObject({ action: "wait", untilMs: times.sendMs });
  });

  it("sends all when there is no more time, and books what is finished as paid twice", () => {
    for (const phase of ["running", "cancelling"] as const) {
      const late = { ...odds, phase, nowMs: times.sendMs, finishedShare: 0.4 };
      expect(decideSwitch(late, times)).toMatchObject({ action: "send_all", expectedUsd: 12, twiceUsd: 2 });
    }
  });

  it("waits to the last where nothing can be fetched after a cancel", () => {
    const hidden = { ...odds, nowMs: times.switchMs, results: "ended", finishedShare: 0.4 } as const;
    const decision = decideSwitch(hidden, { switchMs: times.sendMs, sendMs: times.sendMs });
    expect(decision).toMatchObject({ action: "wait", untilMs: times.sendMs });
    expect(decision.twiceUsd).toBeGreaterThan(0);
  });

  it("waits on where a batch that shows nothing will likely end, and cancels one that is past its time", () => {
    const soon = {
      ...odds,
      latency: curveOf({ p50: 125 * MINUTE_MS, p90: 128 * MINUTE_MS, p99: 130 * MINUTE_MS }),
    };
    expect(decideSwitch({ ...soon, nowMs: times.switchMs }, times).action).toBe("wait");
    expect(decideSwitch({ ...odds, nowMs: times.switchMs }, times).action).toBe("cancel");
  });
});

describe("batches", () => {
  const terms = { itemsMax: 1_000, cancelMs: 0, collectMs: 0, results: "cancelled" } as const;

  it("hold every item once, at most what the lane takes, and those together that are left together", () => {
    const drawn = fc.record({ items: fc.integer({ min: 1, max: 5_000 }), switchMs: fc.nat(24 * HOUR_MS) });
    fc.assert(
      fc.property(fc.array(drawn, { minLength: 1, maxLength: 20 }), (rows) => {
        const waiting = rows.map(({ items, switchMs }, index) => ({
          groupId: `g${index}`,
          items,
          switchMs,
          deadlineMs: switchMs,
        }));
        const batches = cutBatches(waiting, terms, 0);
        for (const parts of batches)
          expect(parts.reduce((sum, { items }) => sum + items, 0)).toBeLessThanOrEqual(950);
        for (const { groupId, items } of waiting) {
          const cut = batches.flat().filter((part) => part.groupId === groupId);
          expect(cut.reduce((sum, part) => sum + part.items, 0)).toBe(items);
        }
      }),
    );
  });

  it("are no more than may be open, and have the least items where there are so many", () => {
    const waiting = [
      { groupId: "soon", items: 30, deadlineMs: HOUR_MS, switchMs: HOUR_MS },
      { groupId: "late", items: 3_000, deadlineMs: 24 * HOUR_MS, switchMs: 23 * HOUR_MS },
    ];
    expect(cutBatches(waiting, { ...terms, openBatchesLeft: 2 }, 0)).toHaveLength(2);
    const [first] = cutBatches(waiting, { ...terms, minItems: 100 }, 0);
    expect(first?.reduce((sum, { items }) => sum + items, 0)).toBeGreaterThanOrEqual(100);
  });
});

describe("a distribution of latencies", () => {
  it("goes through its quantiles, and has a heavier tail than a log-normal one", () => {
    const curve = curveOf(PRIOR);
    for (const [share, ms] of [
      [0.5, PRIOR.p50],
      [0.9, PRIOR.p90],
      [0.99, PRIOR.p99],
    ] as const) {
      expect(curve.quantileMs(share)).toBeCloseTo(ms, -1);
      expect(curve.doneShare(ms)).toBeCloseTo(share, 5);
    }
    const steep = Math.log(PRIOR.p90 / PRIOR.p50) / 1.28155;
    expect(curve.doneShare(PRIOR.p99 * Math.exp(steep))).toBeLessThan(0.9996);
  });

  it("never ends for what is stuck, and rises", () => {
    const curve = curveOf(PRIOR, 0.1);
    expect(curve.quantileMs(0.91)).toBe(Number.POSITIVE_INFINITY);
    expect(curve.doneShare(1e15)).toBeLessThanOrEqual(0.9);
    fc.assert(
      fc.property(fc.nat(1e9), fc.nat(1e9), (ms, more) => {
        expect(curve.doneShare(ms + more)).toBeGreaterThanOrEqual(curve.doneShare(ms) - 1e-7);
        expect(doneShareAfter(curve, ms, ms + more)).toBeGreaterThanOrEqual(0);
      }),
    );
  });
});
