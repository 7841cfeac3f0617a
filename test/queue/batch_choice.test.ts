/** The engine's choice for one item against the plan of all: where the engine takes a batch, the plan does so for everything. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type BatchOutlook,
  batchLastMs,
  batchSwitchMs,
  cancelMsOf,
  collectMsOf,
  isFeasible,
  leavingTimes,
  mayBatch,
  type OpenOutlook,
} from "../../src/queue/batch_choice.ts";
import type { LanePolicy } from "../../src/queue/lane_choice.ts";
import type { LatencyPrior } from "../../src/queue/lane_priors.ts";
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

/** Whether all of it may go with batches, without being more than realtime can do. */
function isBatched({ items, requestsPerMinute, deadlineMs, latency }: Situation): boolean {
  const outlook: BatchOutlook = {
    ...{ deadlineMs, latency, items, realtimeP99Ms: P99_MS },
    drainMs: (items * MINUTE_MS) / requestsPerMinute,
    aheadMs: 0, // all of it would go
    cancelMs: cancelMsOf(latency),
  };
  return isFeasible(outlook, 0) && mayBatch(outlook, 0, { policy: "cheapest" });
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
    finishedShare: fc.double({ min: 0, max: 1, noNaN: true }),
    policy: fc.constant<LanePolicy>("cheapest"),
  })
  .map(({ batchedMs, ...rest }) => ({
    ...rest,
    ...{ drainMs: rest.waitingMs + batchedMs, aheadMs: rest.waitingMs },
    ...{ busyMs: rest.waitingMs, cancelMs: cancelMsOf(rest.latency) },
    ...{ items: 1_000, realtimeP99Ms: P99_MS },
  }));

/** Of virtual time. */
const STEP_MS = 10_000;

/** A lane whose batches finish nothing, in virtual time; milliseconds of realtime. */
interface StalledLane {
  readonly deadlineMs: number;
  readonly latency: (typeof PRIORS)[number];
  readonly cancelShare: number;
  readonly batchMs: readonly number[];
  readonly waitingMs: number;
}

interface StalledBatch {
  readonly ownMs: number;
  /** When its cancel is done, once it was asked for. */
  cancelledMs?: number;
}

interface StalledEnd {
  readonly doneMs: number;
  /** When each batch was left. */
  readonly leftMs: readonly number[];
  /** Whether realtime had nothing to do while another batch was asked to end early. */
  readonly idleMs: number;
}

/** Realtime works on what waits; batches are left as `leavingTimes` says, and their rest waits then. */
function workOff({ deadlineMs, latency, cancelShare, batchMs, ...lane }: StalledLane): StalledEnd {
  const cancelMs = cancelMsOf(latency);
  const open: StalledBatch[] = batchMs.map((ownMs) => ({ ownMs }));
  let { waitingMs } = lane;
  let [nowMs, idleMs] = [0, 0];
  const leftMs: number[] = [];
  const sum = (batches: readonly StalledBatch[]): number => batches.reduce((ms, { ownMs }) => ms + ownMs, 0);
  while (open.length > 0 || waitingMs > 0) {
    for (const batch of [...open]) {
      const before = open.slice(0, open.indexOf(batch));
      const beside = open.filter((other) => other !== batch && other.cancelledMs !== undefined);
      const { switchMs, lastMs } = leavingTimes({
        ...{ nowMs, deadlineMs, latency, waitingMs, cancelMs, items: 1_000, realtimeP99Ms: P99_MS },
        ...{ drainMs: waitingMs + sum(open), aheadMs: waitingMs + sum(before) },
        ...{
          ageMs: nowMs,
          busyMs: waitingMs + sum(beside),
          keepsOnCancel: true,
          finishedShare: 0,
          policy: "cheapest",
        },
        isNext: before.every((other) => beside.includes(other)),
      });
      if (nowMs >= switchMs && batch.cancelledMs === undefined) {
        batch.cancelledMs = nowMs + cancelMs * cancelShare;
        leftMs.push(nowMs);
      }
      if (nowMs < Math.min(batch.cancelledMs ?? Number.POSITIVE_INFINITY, lastMs)) continue;
      open.splice(open.indexOf(batch), 1);
      waitingMs += batch.ownMs;
    }
    if (waitingMs === 0 && leftMs.length > 0) idleMs += STEP_MS;
    waitingMs = Math.max(0, waitingMs - STEP_MS);
    nowMs += STEP_MS;
  }
  return { doneMs: nowMs, leftMs, idleMs };
}

const stalledLanes: fc.Arbitrary<StalledLane> = fc
  .record({
    latency: fc.constantFrom(...PRIORS),
    deadlineMs: fc.integer({ min: HOUR_MS, max: 6 * HOUR_MS }),
    cancelShare: fc.double({ min: 0, max: 3, noNaN: true }),
    load: fc.double({ min: 0.05, max: 0.95, noNaN: true }),
    waitingShare: fc.double({ min: 0, max: 1, noNaN: true }),
    parts: fc.array(fc.integer({ min: 1, max: 10 }), { minLength: 1, maxLength: 12 }),
  })
  .map(({ load, waitingShare, parts, ...rest }) => {
    const roomMs = rest.deadlineMs - rescueMs(P99_MS) - cancelMsOf(rest.latency) - collectMsOf(1_000);
    const workMs = load * roomMs;
    const all = parts.reduce((sum, part) => sum + part, 0);
    const batchMs = parts.map((part) => (workMs * (1 - waitingShare) * part) / all);
    return { ...rest, batchMs, waitingMs: workMs * waitingShare };
  });

describe("when an open batch is left", () => {
  it("is early enough that realtime does all of it, if batches finish nothing and cancels take longer than is known", () => {
    fc.assert(
      fc.property(stalledLanes, (lane) => {
        const slackMs = 3 * STEP_MS * (lane.batchMs.length + 1);
        expect(workOff(lane).doneMs).toBeLessThanOrEqual(lane.deadlineMs - rescueMs(P99_MS) + slackMs);
      }),
      { numRuns: 25 },
    );
  });

  it("is one by one: none is left while realtime has more to do than a cancel takes", () => {
    const deadlineMs = 4 * HOUR_MS;
    const latency = PRIORS[1] as (typeof PRIORS)[number];
    const batchMs = [30, 30, 30, 30].map((minutes) => minutes * MINUTE_MS);
    const lane = { deadlineMs, latency, cancelShare: 1, batchMs, waitingMs: 30 * MINUTE_MS };
    const { leftMs } = workOff(lane);
    const leavingMs = cancelMsOf(latency) + collectMsOf(1_000);
    const startsMs = [120, 90, 60, 30].map((leftMinutes) => deadlineMs - leftMinutes * MINUTE_MS);
    expect(leftMs.length).toBe(4);
    for (const [index, ms] of leftMs.entries()) {
      const wanted = (startsMs[index] as number) - rescueMs(P99_MS) - leavingMs;
      expect(Math.abs(ms - wanted)).toBeLessThanOrEqual(5 * STEP_MS);
    }
  });

  it("is the switch, while realtime can do all of it", () => {
    fc.assert(
      fc.property(
        openOutlooks.filter((outlook) => isFeasible(outlook, outlook.nowMs)),
        (outlook) => {
          expect(leavingTimes(outlook)).toEqual({
            switchMs: batchSwitchMs(outlook),
            lastMs: batchLastMs(outlook),
          });
        },
      ),
    );
  });

  it("is not while realtime has enough to do until the deadline, but to collect what is finished, and never behind that", () => {
    const isOverloaded = (outlook: OpenOutlook): boolean => !isFeasible(outlook, outlook.nowMs);
    fc.assert(
      fc.property(openOutlooks.filter(isOverloaded), (outlook) => {
        const { nowMs, ageMs, waitingMs, deadlineMs } = outlook;
        const { switchMs, lastMs } = leavingTimes(outlook);
        const untilMs = deadlineMs - Math.min(rescueMs(P99_MS), (deadlineMs - nowMs + ageMs) / 4);
        const collectMs = deadlineMs - outlook.cancelMs - collectMsOf(outlook.items);
        const isWorth = outlook.keepsOnCancel && outlook.finishedShare > 0;
        const allowed = isWorth ? [Infinity, collectMs] : [Infinity];
        if (nowMs + waitingMs >= untilMs)
          expect([allowed.includes(switchMs), lastMs]).toEqual([true, Infinity]);
        else expect(switchMs).toBeLessThanOrEqual(lastMs);
      }),
      { numRuns: 2_000 },
    );
  });

  it("is before the deadline in a window that is shorter than a rescue, so that realtime does a part of it", () => {
    const windows = fc.record({
      windowMs: fc.integer({ min: 10_000, max: rescueMs(undefined) }),
      passedShare: fc.double({ min: 0, max: 1, noNaN: true }),
      batchedMs: fc.integer({ min: 60_000, max: HOUR_MS }),
    });
    fc.assert(
      fc.property(windows, ({ windowMs, passedShare, batchedMs }) => {
        const nowMs = windowMs * passedShare;
        const { lastMs } = leavingTimes({
          ...{ nowMs, ageMs: nowMs, deadlineMs: windowMs, realtimeP99Ms: undefined },
          ...{ drainMs: batchedMs, aheadMs: 0, waitingMs: 0, busyMs: 0, items: 60, isNext: true },
          ...{
            latency: { p50: 1_000, p90: 2_000, p99: 4_000 },
            cancelMs: 2_000,
            keepsOnCancel: true,
            finishedShare: 0,
            policy: "cheapest",
          },
        });
        if (nowMs < windowMs * 0.6) expect(lastMs).toBeLessThanOrEqual(windowMs * 0.75);
      }),
    );
  });

  it("is in time to collect what is finished, where realtime has work until the deadline and that is worth more than the rest", () => {
    const busy: OpenOutlook = {
      ...{
        nowMs: 0,
        ageMs: HOUR_MS,
        deadlineMs: HOUR_MS,
        realtimeP99Ms: P99_MS,
        latency: PRIORS[0] as LatencyPrior,
      },
      ...{ drainMs: 4 * HOUR_MS, aheadMs: 3 * HOUR_MS, waitingMs: 3 * HOUR_MS, busyMs: 3 * HOUR_MS },
      ...{
        items: 1_000,
        isNext: true,
        cancelMs: 600_000,
        keepsOnCancel: true,
        finishedShare: 0.5,
        policy: "cheapest",
      },
    };
    const atMs = HOUR_MS - 600_000 - collectMsOf(1_000);
    expect(leavingTimes(busy)).toEqual({ switchMs: atMs, lastMs: Number.POSITIVE_INFINITY });
    const others: readonly Partial<OpenOutlook>[] = [
      { finishedShare: 0 },
      { keepsOnCancel: false },
      { ageMs: 0, finishedShare: 0.01 },
    ];
    for (const other of others)
      expect(leavingTimes({ ...busy, ...other }).switchMs).toBe(Number.POSITIVE_INFINITY);
  });

  it("is at the middle of its time, less its cancel, by the policy `balanced`, where realtime can do all of it", () => {
    fc.assert(
      fc.property(
        openOutlooks.filter((outlook) => isFeasible(outlook, outlook.nowMs)),
        (outlook) => {
          const { nowMs, ageMs, deadlineMs, cancelMs, items } = outlook;
          const middleMs = (nowMs - ageMs + deadlineMs) / 2 - cancelMs - collectMsOf(items);
          const cheapest = leavingTimes(outlook);
          const balanced = leavingTimes({ ...outlook, policy: "balanced" });
          expect(balanced.switchMs).toBeCloseTo(Math.min(cheapest.switchMs, middleMs), 3);
          expect(balanced.lastMs).toBe(cheapest.lastMs);
          const isTaken = mayBatch(outlook, nowMs, { policy: "balanced" });
          const endMs = (nowMs + deadlineMs) / 2 - cancelMs - collectMsOf(items);
          expect(isTaken).toBe(
            mayBatch(outlook, nowMs, { policy: "cheapest" }) && nowMs + outlook.latency.p50 <= endMs,
          );
          expect(mayBatch(outlook, nowMs, { policy: "balanced", isAgain: true })).toBe(false);
        },
      ),
    );
  });

  it("keeps realtime waiting for an eighth of the time at most, if it is the next of an overloaded lane", () => {
    const isIdle = (outlook: OpenOutlook): boolean =>
      outlook.isNext &&
      !isFeasible(outlook, outlook.nowMs) &&
      outlook.nowMs < outlook.deadlineMs - rescueMs(P99_MS);
    const idle = openOutlooks.map((outlook) => ({
      ...outlook,
      keepsOnCancel: true,
      waitingMs: 0,
      aheadMs: 0,
      busyMs: 0,
    }));
    fc.assert(
      fc.property(idle.filter(isIdle), (outlook) => {
        const { nowMs, deadlineMs } = outlook;
        expect(leavingTimes(outlook).switchMs - nowMs).toBeLessThanOrEqual((deadlineMs - nowMs) / 8);
      }),
    );
  });
});

/** Of so much work of realtime, what goes with batches when items are asked one after another. */
function batchedMs(
  workMs: number,
  { deadlineMs, latency }: Pick<StalledLane, "deadlineMs" | "latency">,
): number {
  const itemMs = workMs / 500;
  let ofBatchesMs = 0;
  for (let waitingMs = workMs; waitingMs > itemMs / 2; waitingMs -= itemMs) {
    const outlook: BatchOutlook = {
      ...{ deadlineMs, latency, items: 1, realtimeP99Ms: P99_MS, cancelMs: cancelMsOf(latency) },
      ...{ drainMs: ofBatchesMs + waitingMs, aheadMs: waitingMs },
    };
    if (mayBatch(outlook, 0, { policy: "cheapest" })) ofBatchesMs += itemMs;
  }
  return ofBatchesMs;
}

describe("how work that realtime could do just in time is divided", () => {
  it("gives batches what realtime could do behind the rest, once most batches have ended", () => {
    const latency = PRIORS[1] as (typeof PRIORS)[number]; // 2 minutes at the median, 5 to cancel
    const deadlineMs = HOUR_MS;
    const keptMs = rescueMs(P99_MS) + latency.p50 + cancelMsOf(latency);
    const given = batchedMs(0.95 * HOUR_MS, { deadlineMs, latency });
    expect(Math.abs(given - (deadlineMs - keptMs))).toBeLessThan(MINUTE_MS);
  });

  it("is never such that realtime would be late if batches finished nothing", () => {
    fc.assert(
      fc.property(stalledLanes, (lane) => {
        const workMs = lane.batchMs.reduce((sum, ms) => sum + ms, lane.waitingMs);
        const ofBatchesMs = batchedMs(workMs, lane);
        const pieces = lane.batchMs.length;
        const batchMs = Array.from({ length: pieces }, () => ofBatchesMs / pieces);
        const slackMs = 3 * STEP_MS * (pieces + 1);
        const { doneMs } = workOff({ ...lane, cancelShare: 1, batchMs, waitingMs: workMs - ofBatchesMs });
        expect(doneMs).toBeLessThanOrEqual(lane.deadlineMs - rescueMs(P99_MS) + slackMs);
      }),
      { numRuns: 25 },
    );
  });
});
