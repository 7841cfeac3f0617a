/** The engine's choice for one item against the plan of all: where the engine takes a batch, the plan does so for everything. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type BatchOutlook,
  batchLastMs,
  batchSwitchMs,
  cancelMsOf,
  collectMsOf,
  leavingTimes,
  mayBatch,
  mayBatchBeyond,
  type OpenOutlook,
} from "../../src/queue/batch_choice.ts";
import { rescueMs } from "../../src/queue/offer_choice.ts";
import type { GroupPlan } from "../../src/queue/plan/group_plan.ts";
import { curveOf } from "../../src/queue/plan/latency_curve.ts";
import { planWork } from "../../src/queue/plan/plan.ts";
import type { PlanOffer } from "../../src/queue/plan/plan_input.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const PRICES = { usdPerInputToken: 1e-6, usdPerOutputToken: 4e-6 };
const P99_MS = 10_000;
const PRIORS = [
  { p50: 2.6 * MINUTE_MS, p90: 35 * MINUTE_MS, p99: 6.1 * HOUR_MS },
  { p50: 2 * MINUTE_MS, p90: 5 * MINUTE_MS, p99: 21 * MINUTE_MS },
];

interface Situation {
  readonly items: number;
  readonly requestsPerMinute: number;
  readonly deadlineMs: number;
  readonly latency: (typeof PRIORS)[number];
}

const situations = fc.record({
  items: fc.integer({ min: 1, max: 20_000 }),
  requestsPerMinute: fc.integer({ min: 20, max: 2_000 }),
  deadlineMs: fc.integer({ min: MINUTE_MS, max: 48 * HOUR_MS }),
  latency: fc.constantFrom(...PRIORS),
});

function isBatched({ items, requestsPerMinute, deadlineMs, latency }: Situation): boolean {
  const outlook: BatchOutlook = {
    ...{ deadlineMs, latency, items, realtimeP99Ms: P99_MS },
    drainMs: (items * MINUTE_MS) / requestsPerMinute,
    cancelMs: cancelMsOf(latency),
  };
  return mayBatch(outlook, 0);
}

function planOf({ items, requestsPerMinute, deadlineMs, latency }: Situation): GroupPlan {
  const answers = curveOf({ p50: 2_000, p90: 5_000, p99: P99_MS });
  const capacity = { requestsPerMinute, itemMs: 2_500 };
  const batch = {
    itemsMax: 50_000,
    cancelMs: cancelMsOf(latency),
    collectMs: collectMsOf(items),
    results: "cancelled" as const,
  };
  const offers: readonly PlanOffer[] = [
    { ...PRICES, name: "one:realtime", kind: "realtime", priceFactor: 1, latency: answers, capacity },
    {
      ...{ ...PRICES, name: "one:batch", kind: "batch", priceFactor: 0.5, batch },
      ...{ latency: curveOf(latency), capacity: { itemMs: 0 } },
    },
  ];
  const group = {
    ...{ id: "g", model: "m", project: "p", deadlineMs, items },
    ...{ inputTokens: items * 500, outputTokens: items * 200 },
  };
  const [planned] = planWork({ nowMs: 0, groups: [group], offers: new Map([["m", offers]]) }).groups;
  return planned as GroupPlan;
}

describe("the engine's choice of a batch", () => {
  it("is never for a batch where the plan would not put everything into one", () => {
    fc.assert(
      fc.property(situations, (situation) => {
        fc.pre(isBatched(situation));
        expect(planOf(situation).shares).toMatchObject([{ offer: { kind: "batch" }, share: 1 }]);
      }),
      { numRuns: 1_000 },
    );
  });

  it("is for realtime where the plan uses a batch only if that is cut short, for a part, or beyond what realtime can do", () => {
    fc.assert(
      fc.property(situations, (situation) => {
        fc.pre(!isBatched(situation));
        const leavingMs = cancelMsOf(situation.latency) + collectMsOf(situation.items);
        for (const { offer, share, switchMs, why } of planOf(situation).shares) {
          if (offer?.kind !== "batch" || why === "beyond_realtime" || share < 1) continue;
          expect(switchMs).toBeLessThan(situation.latency.p50 + leavingMs + 1_000);
        }
      }),
      { numRuns: 1_000 },
    );
  });
});

const openOutlooks: fc.Arbitrary<OpenOutlook> = fc
  .record({
    latency: fc.constantFrom(...PRIORS),
    deadlineMs: fc.integer({ min: HOUR_MS, max: 48 * HOUR_MS }),
    nowMs: fc.integer({ min: 0, max: HOUR_MS }),
    ageMs: fc.integer({ min: 0, max: 12 * HOUR_MS }),
    waitingMs: fc.integer({ min: 0, max: 60 * HOUR_MS }),
    batchedMs: fc.integer({ min: 1, max: 60 * HOUR_MS }),
    isNext: fc.boolean(),
    keepsOnCancel: fc.boolean(),
  })
  .map(({ batchedMs, ...rest }) => ({
    ...rest,
    ...{ drainMs: rest.waitingMs + batchedMs, cancelMs: cancelMsOf(rest.latency) },
    ...{ items: 1_000, realtimeP99Ms: P99_MS },
  }));

describe("when an open batch is left", () => {
  it("is the switch, while realtime can do all of it", () => {
    const isFeasible = (outlook: OpenOutlook): boolean => outlook.nowMs <= batchLastMs(outlook);
    fc.assert(
      fc.property(openOutlooks.filter(isFeasible), (outlook) => {
        expect(leavingTimes(outlook)).toEqual({
          switchMs: batchSwitchMs(outlook),
          lastMs: batchLastMs(outlook),
        });
        expect(mayBatchBeyond(outlook, outlook.nowMs, () => outlook.waitingMs)).toBe(false);
      }),
    );
  });

  it("is never while realtime has enough to do until the deadline, and never behind that", () => {
    const isOverloaded = (outlook: OpenOutlook): boolean => outlook.nowMs > batchLastMs(outlook);
    fc.assert(
      fc.property(openOutlooks.filter(isOverloaded), (outlook) => {
        const { nowMs, waitingMs, deadlineMs } = outlook;
        const { switchMs, lastMs } = leavingTimes(outlook);
        const untilMs = deadlineMs - rescueMs(P99_MS);
        if (nowMs + waitingMs >= untilMs) expect([switchMs, lastMs]).toEqual([Infinity, Infinity]);
        else expect(switchMs).toBeLessThanOrEqual(lastMs);
      }),
    );
  });

  it("keeps realtime waiting for an eighth of the time at most, if it is the next of an overloaded lane", () => {
    const isIdle = (outlook: OpenOutlook): boolean =>
      outlook.isNext &&
      outlook.nowMs > batchLastMs(outlook) &&
      outlook.nowMs < outlook.deadlineMs - rescueMs(P99_MS);
    const idle = openOutlooks.map((outlook) => ({ ...outlook, keepsOnCancel: true, waitingMs: 0 }));
    fc.assert(
      fc.property(idle.filter(isIdle), (outlook) => {
        const { nowMs, deadlineMs } = outlook;
        expect(leavingTimes(outlook).switchMs - nowMs).toBeLessThanOrEqual((deadlineMs - nowMs) / 8);
      }),
    );
  });
});
