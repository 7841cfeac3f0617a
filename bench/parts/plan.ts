/**
 * Planning: the cheapest of four lanes that meets a deadline, when new work would be done beside 1,000 others that wait, and which
 * shares of 1 M items in 10,000 groups wait for a batch. Beside them one pass over the same numbers.
 *
 * Bounds: a plan 2 s and 100 MiB, a plan made again after a change of one of five models 50 ms.
 */
import { earliestDoneMs, type LaneForecastBasis, type ProjectWork } from "../../src/queue/feasibility.ts";
import { type LaneTerms, realtimeLane } from "../../src/queue/lanes.ts";
import { curveOf } from "../../src/queue/plan/latency_curve.ts";
import { planWork } from "../../src/queue/plan/plan.ts";
import type { PlanGroup, PlanInput, PlanOffer } from "../../src/queue/plan/plan_input.ts";
import { needMs, type Placeable, place } from "../../src/queue/planner.ts";
import { replan } from "../../test/queue/plan/replan.ts";
import type { PartBench } from "../shared/harness.ts";

const CALLS = 2_000;
const WAITING = 1_000;
const GROUPS = 10_000;
const GROUP_ITEMS = 100;
const MODELS = 5;
const CAPACITY = { requestsPerMinute: 5_000, tokensPerMinute: 2_000_000, concurrency: 256, itemMs: 2_400 };

export function open(): PartBench {
  const lanes: readonly [LaneTerms, ...LaneTerms[]] = [
    realtimeLane("one", "gpt-5"),
    { ...realtimeLane("two", "gpt-5"), priceFactor: 0.5 },
    { ...realtimeLane("three", "gpt-5"), priceFactor: 0.5 },
    { ...realtimeLane("four", "gpt-5"), priceFactor: 2 },
  ];
  const now = { nowMs: () => 0, capacityOf: () => CAPACITY };
  const lane: LaneForecastBasis = {
    nowMs: 0,
    closedMs: 0,
    capacity: CAPACITY,
    waiting: Array.from({ length: WAITING }, (_, each) => work(each)),
  };
  const input = groupsInput();
  const planned = planWork(input);
  const more = { ...input, groups: [...input.groups, group(GROUPS)] };
  const sorted = {
    name: "sorted by deadline",
    run: () => input.groups.toSorted((one, other) => one.deadlineMs - other.deadlineMs),
  };
  return {
    parts: [
      {
        name: "plan: shares of 1 M items in 10,000 groups",
        of: "plan",
        calls: 1,
        run: () => planWork(input),
        beside: sorted,
      },
      {
        name: "plan: again, one of five models changed",
        of: "plan",
        calls: 1,
        run: () => replan(planned, more),
        beside: sorted,
      },
      {
        name: "plan: the cheapest of four lanes in time",
        of: "plan",
        calls: CALLS,
        run: () => {
          for (let each = 0; each < CALLS; each += 1) place(ticket(each), { lanes }, now);
        },
        beside: {
          name: "four divisions",
          run: () => {
            let least = Number.POSITIVE_INFINITY;
            for (let each = 0; each < CALLS; each += 1)
              for (const _ of lanes) least = Math.min(least, needMs(work(each), CAPACITY));
            return least;
          },
        },
      },
      {
        name: "plan: done when, behind 1,000 others",
        of: "forecast",
        calls: 1,
        run: () => earliestDoneMs(lane, work(7)),
        beside: {
          name: "a sum over the others",
          run: () => lane.waiting.reduce((sum, { inputTokens }) => sum + inputTokens, 0),
        },
      },
    ],
  };
}

function work(index: number): ProjectWork {
  return {
    project: `project-${index % 50}`,
    weight: 1,
    items: 20,
    inputTokens: 6_000,
    outputTokens: 4_000,
    deadlineMs: 60_000 + ((index * 7_919) % 1_000_003),
  };
}

function ticket(index: number): Placeable {
  const { outputTokens, ...rest } = work(index);
  return { ...rest, expectedOutputTokens: outputTokens };
}

function group(index: number): PlanGroup {
  return {
    id: `group-${index}`,
    model: `model-${index % MODELS}`,
    project: `project-${index % 50}`,
    items: GROUP_ITEMS,
    inputTokens: GROUP_ITEMS * 500,
    outputTokens: GROUP_ITEMS * 200,
    deadlineMs: 60_000 + ((index * 7_919) % 10_007) * 10_000,
  };
}

function groupsInput(): PlanInput {
  const prices = { usdPerInputToken: 1e-6, usdPerOutputToken: 4e-6 };
  const offers: readonly PlanOffer[] = [
    {
      ...prices,
      name: "one:realtime",
      kind: "realtime",
      priceFactor: 1,
      latency: curveOf({ p50: 2_000, p90: 5_000, p99: 10_000 }),
      capacity: CAPACITY,
    },
    {
      ...prices,
      name: "one:batch",
      kind: "batch",
      priceFactor: 0.5,
      latency: curveOf({ p50: 156_000, p90: 2_100_000, p99: 21_960_000 }, 0.02),
      capacity: { itemMs: 0 },
      batch: { itemsMax: 50_000, cancelMs: 600_000, collectMs: 60_000, results: "cancelled" },
    },
  ];
  return {
    nowMs: 0,
    groups: Array.from({ length: GROUPS }, (_, index) => group(index)),
    offers: new Map(Array.from({ length: MODELS }, (_, index) => [`model-${index}`, offers])),
  };
}
