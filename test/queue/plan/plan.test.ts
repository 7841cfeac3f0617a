/** The plan: its laws, and what it says of single cases. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { curveOf } from "../../../src/queue/plan/latency_curve.ts";
import { planWork } from "../../../src/queue/plan/plan.ts";
import type { PlanGroup, PlanInput, PlanOffer } from "../../../src/queue/plan/plan_input.ts";
import { replan } from "./replan.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const PRICES = { usdPerInputToken: 1e-6, usdPerOutputToken: 4e-6 };
const ANSWERS = curveOf({ p50: 2_000, p90: 5_000, p99: 10_000 });

function realtime(requestsPerMinute: number): PlanOffer {
  const capacity = { requestsPerMinute, itemMs: 2_500 };
  return { ...PRICES, name: "one:realtime", kind: "realtime", priceFactor: 1, latency: ANSWERS, capacity };
}

const BATCH: PlanOffer = {
  ...PRICES,
  name: "one:batch",
  kind: "batch",
  priceFactor: 0.5,
  latency: curveOf({ p50: 2 * MINUTE_MS, p90: 30 * MINUTE_MS, p99: 6 * HOUR_MS }, 0.02),
  capacity: { itemMs: 0 },
  batch: { itemsMax: 50_000, cancelMs: 10 * MINUTE_MS, collectMs: MINUTE_MS, results: "cancelled" },
};
const FLEX: PlanOffer = {
  ...PRICES,
  name: "one:flex",
  kind: "flex",
  priceFactor: 0.5,
  latency: curveOf({ p50: 2_800, p90: 9_500, p99: 60_000 }),
  capacity: { requestsPerMinute: 100, itemMs: 5_000 },
};

function group(id: string, items: number, deadlineMs: number): PlanGroup {
  const tokens = { inputTokens: items * 500, outputTokens: items * 200 };
  return { id, model: "m", project: "p", deadlineMs, items, ...tokens };
}

function inputOf(groups: readonly PlanGroup[], offers: readonly PlanOffer[]): PlanInput {
  return { nowMs: 0, groups, offers: new Map([["m", offers]]) };
}

const offerLists = fc.constantFrom<readonly PlanOffer[]>(
  [realtime(100), BATCH],
  [realtime(1_000), BATCH, FLEX],
  [realtime(20), FLEX],
  [
    realtime(300),
    { ...BATCH, batch: { ...(BATCH.batch as NonNullable<typeof BATCH.batch>), results: "ended" } },
  ],
  [realtime(300)],
);
const workloads = fc
  .array(
    fc.record({
      items: fc.integer({ min: 1, max: 5_000 }),
      deadlineMs: fc.oneof(
        fc.integer({ min: 1_000, max: 48 * HOUR_MS }),
        fc.constant(Number.POSITIVE_INFINITY),
      ),
    }),
    { minLength: 1, maxLength: 30 },
  )
  .map((rows) => rows.map(({ items, deadlineMs }, index) => group(`g${index}`, items, deadlineMs)));

describe("a plan", () => {
  it("places all of each group, in whole items, the same each time", () => {
    fc.assert(
      fc.property(workloads, offerLists, (groups, offers) => {
        const plan = planWork(inputOf(groups, offers));
        for (const { group: planned, shares } of plan.groups) {
          const items = shares.map(({ share }) => share * planned.items);
          expect(items.reduce((sum, each) => sum + each, 0)).toBeCloseTo(planned.items, 3);
          for (const each of items) expect(Math.abs(each - Math.round(each))).toBeLessThan(1e-3);
        }
        expect(planWork(inputOf(groups, offers))).toEqual(plan);
        const reversed = planWork(inputOf(groups.toReversed(), offers));
        expect(reversed.groups.toReversed()).toEqual(plan.groups);
      }),
    );
  });

  it("is never dearer than realtime in expectation", () => {
    fc.assert(
      fc.property(workloads, offerLists, (groups, offers) => {
        const plan = planWork(inputOf(groups, offers));
        expect(plan.cost.expectedUsd).toBeLessThanOrEqual(plan.realtimeUsd * (1 + 1e-9));
      }),
    );
  });

  it("is on time with the accepted chance wherever realtime by earliest deadline is", () => {
    fc.assert(
      fc.property(workloads, offerLists, (groups, offers) => {
        const [lane] = offers as [PlanOffer, ...PlanOffer[]];
        const alone = planWork(inputOf(groups, [lane]));
        const plan = planWork(inputOf(groups, offers));
        if (alone.onTime < 0.99) return; // what cannot be in time takes from what is due after it
        for (const { onTime } of plan.groups) expect(onTime).toBeGreaterThanOrEqual(0.99);
      }),
    );
  });

  it("never lets more wait than realtime can still do after the switch", () => {
    fc.assert(
      fc.property(workloads, offerLists, (groups, offers) => {
        const plan = planWork(inputOf(groups, offers));
        const perMs = ((offers[0] as PlanOffer).capacity.requestsPerMinute as number) / MINUTE_MS;
        const waiting = plan.groups.flatMap(({ group: { items, deadlineMs }, shares }) =>
          shares
            .filter(({ switchMs }) => switchMs !== Number.POSITIVE_INFINITY)
            .map(({ share, switchMs, offer }) => ({ items: share * items, deadlineMs, switchMs, offer })),
        );
        for (const { switchMs: fromMs } of waiting)
          for (const { deadlineMs: untilMs } of waiting) {
            const due = waiting.filter((each) => each.switchMs >= fromMs && each.deadlineMs <= untilMs);
            const items = due.reduce((sum, each) => sum + each.items, 0);
            if (items > 0) expect(items).toBeLessThanOrEqual((untilMs - fromMs) * perMs + 1e-3);
          }
      }),
      { numRuns: 50 },
    );
  });

  it("is never dearer with a longer deadline, if realtime can meet the shorter one", () => {
    const times = fc.integer({ min: 1_000, max: 24 * HOUR_MS });
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 20_000 }),
        times,
        times,
        offerLists,
        (items, one, more, offers) => {
          const usdAt = (deadlineMs: number): number =>
            planWork(inputOf([group("g", items, deadlineMs)], offers)).cost.expectedUsd;
          const alone = planWork(inputOf([group("g", items, one)], offers.slice(0, 1)));
          if (alone.onTime < 0.99) return; // what realtime cannot do is in a batch that nothing rescues
          expect(usdAt(one + more)).toBeLessThanOrEqual(usdAt(one) * (1 + 1e-6));
        },
      ),
    );
  });
});

describe("a group", () => {
  it("without a deadline goes to realtime", () => {
    const plan = planWork(inputOf([group("g", 100, Number.POSITIVE_INFINITY)], [realtime(100), BATCH]));
    expect(plan.groups[0]?.shares).toMatchObject([
      { offer: { kind: "realtime" }, share: 1, why: "no_deadline" },
    ]);
  });

  it("with hours waits in a batch until drain, rescue, cancel and collect are left", () => {
    const plan = planWork(inputOf([group("g", 6_000, 24 * HOUR_MS)], [realtime(100), BATCH]));
    // 60 min of drain, 25 s of rescue, 10 min for the cancel, 1 min to collect.
    const switchMs = 24 * HOUR_MS - HOUR_MS - 25_000 - 11 * MINUTE_MS;
    expect(plan.groups[0]?.shares).toMatchObject([{ offer: { kind: "batch" }, share: 1, why: "cheapest" }]);
    expect(plan.nextSwitchMs).toBeCloseTo(switchMs, -3);
    expect(plan.cost.expectedUsd / plan.realtimeUsd).toBeLessThan(0.52);
  });

  it("is sent in part where realtime could not do all of it later", () => {
    const plan = planWork(inputOf([group("g", 6_000, 61 * MINUTE_MS)], [realtime(100), BATCH]));
    const [batch, rest] = plan.groups[0]?.shares ?? [];
    expect(batch).toMatchObject({ offer: { kind: "batch" } });
    expect(rest).toMatchObject({ offer: { kind: "realtime" }, why: "realtime_reserved" });
    expect(plan.onTime).toBeGreaterThan(0.99);
  });

  it("goes to the lane with the earlier finish at an equal price", () => {
    const plan = planWork(inputOf([group("g", 100, 24 * HOUR_MS)], [realtime(1_000), BATCH, FLEX]));
    expect(plan.groups[0]?.shares[0]?.offer?.kind).toBe("flex");
  });

  it("waits for cheap hours that end in time, and not for others", () => {
    const hours = { fromMs: 3 * HOUR_MS, untilMs: 9 * HOUR_MS };
    const night: PlanOffer = {
      ...realtime(100),
      name: "one:offpeak",
      kind: "offpeak",
      priceFactor: 0.5,
      hours,
    };
    const kindsAt = (deadlineMs: number): readonly (string | undefined)[] =>
      planWork(inputOf([group("g", 1_000, deadlineMs)], [realtime(100), night])).groups.flatMap(
        ({ shares }) => shares.map(({ offer }) => offer?.kind),
      );
    expect(kindsAt(6 * HOUR_MS)).toEqual(["offpeak"]);
    expect(kindsAt(2 * HOUR_MS)).toEqual(["realtime"]);
    expect(kindsAt(3 * HOUR_MS + 5 * MINUTE_MS)).toEqual(["offpeak", "realtime"]);
  });

  it("has its overload in a batch, because realtime cannot do it", () => {
    const plan = planWork(inputOf([group("g", 10_000, 30 * MINUTE_MS)], [realtime(100), BATCH]));
    const beyond = plan.groups[0]?.shares.find(({ why }) => why === "beyond_realtime");
    expect(beyond?.offer?.kind).toBe("batch");
    expect((beyond?.share ?? 0) * 10_000).toBeGreaterThanOrEqual(7_000);
  });

  it("is not put into a batch of fewer than the least items, or beyond what may be enqueued", () => {
    const terms = BATCH.batch as NonNullable<typeof BATCH.batch>;
    const kindsWith = (more: object): readonly (string | undefined)[] =>
      planWork(
        inputOf(
          [group("g", 1_000, 24 * HOUR_MS)],
          [realtime(1_000), { ...BATCH, batch: { ...terms, ...more } }],
        ),
      ).groups.flatMap(({ shares }) => shares.map(({ offer }) => offer?.kind));
    expect(kindsWith({ minItems: 1_000 })).toEqual(["batch"]);
    expect(kindsWith({ minItems: 1_001 })).toEqual(["realtime"]);
    expect(kindsWith({ openBatchesLeft: 0 })).toEqual(["realtime"]);
    expect(kindsWith({ enqueuedTokensLeft: 250_000 })).toEqual(["batch", "realtime"]);
  });

  it("waits for money that is not there, the latest deadline first", () => {
    const groups = [group("late", 1_000, 24 * HOUR_MS), group("soon", 1_000, HOUR_MS)];
    const input = inputOf(groups, [realtime(1_000)]);
    const plan = planWork({ ...input, moneyLeftUsd: 1.95 });
    expect(plan.groups[1]?.shares.map(({ why }) => why)).toEqual(["no_cheaper_lane"]);
    expect(plan.groups[0]?.shares.map(({ why }) => why)).toEqual(["no_cheaper_lane", "no_money"]);
    expect(plan.cost.usd90).toBeCloseTo(1.95, 2);
  });

  it("ends as early as it can under the policy fastest", () => {
    const input = inputOf([group("g", 100, 24 * HOUR_MS)], [realtime(1_000), BATCH]);
    expect(planWork({ ...input, policy: "fastest" }).groups[0]?.shares[0]?.offer?.kind).toBe("realtime");
    const half = planWork({ ...input, policy: "balanced" }).nextSwitchMs;
    expect(half).toBeLessThan(12 * HOUR_MS);
    expect(half).toBeGreaterThan(11 * HOUR_MS);
  });
});

describe("a plan made again", () => {
  const groups = Array.from({ length: 100 }, (_, index) => group(`g${index}`, 100, (index + 1) * HOUR_MS));
  const plan = planWork(inputOf(groups, [realtime(1_000), BATCH]));

  it("is the same object while less than 5 % changed", () => {
    const fewer = (by: number): PlanInput => ({
      ...plan.input,
      groups: groups.map((each, index) => (index < by ? { ...group(each.id, 50, each.deadlineMs) } : each)),
    });
    expect(replan(plan, fewer(10))).toBe(plan);
    expect(replan(plan, fewer(11))).not.toBe(plan);
  });

  it("is what a new plan would be, once something changed", () => {
    const input = { ...plan.input, groups: [...groups, group("new", 10, 5 * MINUTE_MS)] };
    expect(replan(plan, input)).toEqual(planWork(input));
  });

  it("is made when a switch has come, or a lane is another", () => {
    expect(replan(plan, { ...plan.input, nowMs: plan.nextSwitchMs })).not.toBe(plan);
    const slower = new Map([["m", [realtime(900), BATCH]]]);
    expect(replan(plan, { ...plan.input, offers: slower })).not.toBe(plan);
  });
});

describe("what each lane would have been for more than realtime can do in time", () => {
  const [all, batch] = (() => {
    const plan = planWork(inputOf([group("a", 2_000, 10 * MINUTE_MS)], [realtime(1), BATCH]));
    return plan.groups[0]?.lanes ?? [];
  })();

  it("says of realtime how little of it is on time, and when the last of it would be done", () => {
    expect(all?.onTime).toBeGreaterThan(0.003);
    expect(all?.onTime).toBeLessThanOrEqual(0.005);
    expect(all?.finish.expectedMs).toBeGreaterThan(1_990 * MINUTE_MS);
  });

  it("says of a cheaper lane that nothing rescues what realtime cannot", () => {
    const doneByDeadline = BATCH.latency.doneShare(9 * MINUTE_MS);
    expect(batch?.onTime).toBeGreaterThanOrEqual(doneByDeadline - 0.01);
    expect(batch?.onTime).toBeLessThan(doneByDeadline + 0.01);
  });
});
