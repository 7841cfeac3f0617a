/** Which lane: the cheapest that is in time. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { realtimeLane } from "../../src/queue/lanes.ts";
import { type LaneOffer, needMs, planLane } from "../../src/queue/planner.ts";

const HOUR_MS = 3_600_000;

function offer(provider: string, priceFactor: number, fields: Partial<LaneOffer> = {}): LaneOffer {
  return {
    lane: { ...realtimeLane(provider, "m"), priceFactor },
    capacity: { itemMs: 1_000, requestsPerMinute: 600 },
    ...fields,
  };
}

const REALTIME = offer("realtime", 1);
const FLEX = offer("flex", 0.5, { capacity: { itemMs: 60_000, requestsPerMinute: 60 } });
const BATCH = offer("batch", 0.5, { capacity: { itemMs: 0 }, turnaroundMs: 24 * HOUR_MS });
const OFFPEAK = offer("offpeak", 0.3, { opensAtMs: 10 * HOUR_MS });
const ALL = [REALTIME, FLEX, BATCH, OFFPEAK];

function work(items: number, deadlineMs: number) {
  return { items, inputTokens: items * 100, outputTokens: items * 10, deadlineMs };
}

describe("needMs", () => {
  it("is what the tightest of rate and concurrency demands, at least one item's time", () => {
    expect(needMs(work(1, 0), { itemMs: 2_000 })).toBe(2_000);
    expect(needMs(work(100, 0), { itemMs: 2_000, concurrency: 8 })).toBe(26_000);
    expect(needMs(work(600, 0), { itemMs: 10, requestsPerMinute: 60 })).toBe(600_000);
    expect(needMs(work(600, 0), { itemMs: 10, tokensPerMinute: 6_600 })).toBe(600_000);
    expect(needMs(work(600, 0), { itemMs: 10, inputTokensPerMinute: 60_000 })).toBe(60_000);
    expect(needMs(work(600, 0), { itemMs: 10, outputTokensPerMinute: 6_000, waitingMs: 5 })).toBe(60_005);
    expect(needMs(work(0, 0), { itemMs: 10 })).toBe(0);
    expect(needMs(work(1, 0), { itemMs: 10, requestsPerMinute: 0 })).toBe(Number.POSITIVE_INFINITY);
  });
});

describe("planLane", () => {
  it("takes the cheapest lane that is in time, and the faster of two at one price", () => {
    expect(planLane(ALL, work(600, 48 * HOUR_MS), 0)?.lane.provider).toBe("offpeak");
    expect(planLane(ALL, work(600, 9 * HOUR_MS), 0)?.lane.provider).toBe("flex");
    expect(planLane(ALL, work(600, 120_000), 0)?.lane.provider).toBe("realtime");
  });

  it("takes the fastest lane without a deadline, and when none is in time", () => {
    expect(planLane(ALL, work(600, Number.POSITIVE_INFINITY), 0)).toEqual({
      lane: REALTIME.lane,
      finishMs: 60_000,
      isInTime: true,
    });
    expect(planLane(ALL, work(600, 30_000), 0)).toMatchObject({ lane: REALTIME.lane, isInTime: false });
  });

  it("has no plan without lanes", () => {
    expect(planLane([], work(1, 1_000), 0)).toBeUndefined();
  });

  it("never picks a dearer lane than one that is in time, nor a late one while one is in time", () => {
    const offers = fc.array(
      fc.record({
        priceFactor: fc.constantFrom(0.3, 0.5, 0.7, 1),
        itemMs: fc.integer({ min: 1, max: 100_000 }),
        turnaroundMs: fc.integer({ min: 0, max: 100_000 }),
      }),
      { minLength: 1, maxLength: 8 },
    );
    fc.assert(
      fc.property(offers, fc.integer({ min: 0, max: 200_000 }), (drawn, deadlineMs) => {
        const lanes = drawn.map(({ priceFactor, itemMs, turnaroundMs }, index) =>
          offer(String(index), priceFactor, {
            capacity: { itemMs },
            turnaroundMs,
          }),
        );
        const plan = planLane(lanes, work(1, deadlineMs), 0)!;
        const picked = drawn[Number(plan.lane.provider)]!;
        const inTime = drawn.filter(({ itemMs, turnaroundMs }) => itemMs + turnaroundMs <= deadlineMs);
        expect(plan.isInTime).toBe(inTime.length > 0);
        if (inTime.length > 0)
          expect(picked.priceFactor).toBe(Math.min(...inTime.map(({ priceFactor }) => priceFactor)));
        else
          expect(plan.finishMs).toBe(
            Math.min(...drawn.map(({ itemMs, turnaroundMs }) => itemMs + turnaroundMs)),
          );
      }),
    );
  });
});
