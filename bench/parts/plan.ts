/**
 * Planning: the cheapest of four lanes that meets a deadline, and when new work would be done beside 1,000 others that wait.
 * Beside them one pass over the same numbers.
 */
import { earliestDoneMs, type LaneForecastBasis, type ProjectWork } from "../../src/queue/feasibility.ts";
import { type LaneTerms, realtimeLane } from "../../src/queue/lanes.ts";
import { needMs, type Placeable, place } from "../../src/queue/planner.ts";
import type { PartBench } from "../shared/harness.ts";

const CALLS = 2_000;
const WAITING = 1_000;
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
  return {
    parts: [
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
