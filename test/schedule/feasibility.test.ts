/** When new work would be done. */
import { describe, expect, it } from "vitest";
import {
  earliestDeadlineMs,
  earliestDoneMs,
  type LaneForecastBasis,
  type ProjectWork,
  slaForecast,
} from "../../src/queue/feasibility.ts";

/** One request a second, answered in 500 ms. */
const LANE: LaneForecastBasis = {
  nowMs: 1_000,
  closedMs: 0,
  capacity: { itemMs: 500, requestsPerMinute: 60, concurrency: 64 },
  waiting: [],
};
const NONE = Number.POSITIVE_INFINITY;

function work(items: number, fields: Partial<ProjectWork> = {}): ProjectWork {
  const tokens = { inputTokens: items * 100, outputTokens: items * 10 };
  return { project: "b", weight: 1, items, ...tokens, deadlineMs: NONE, ...fields };
}

describe("earliestDoneMs", () => {
  it("is what limits and answers take, of a lane in which nothing waits", () => {
    expect(earliestDoneMs(LANE, work(60))).toBe(61_500);
    expect(earliestDoneMs(LANE, work(0))).toBe(1_000);
    expect(earliestDoneMs({ ...LANE, capacity: { itemMs: 500 } }, work(60))).toBe(1_500);
  });

  it("waits for a cool-down", () => {
    expect(earliestDoneMs({ ...LANE, closedMs: 20_000 }, work(60))).toBe(81_500);
  });

  it("doubles beside a project that has more waiting, however much it is", () => {
    for (const items of [60, 1_000, 1_000_000])
      expect(earliestDoneMs({ ...LANE, waiting: [work(items, { project: "a" })] }, work(60))).toBe(121_500);
  });

  it("counts of another project no more than it has", () => {
    expect(earliestDoneMs({ ...LANE, waiting: [work(6, { project: "a" })] }, work(60))).toBe(67_500);
  });

  it("is by weight", () => {
    const waiting = [work(1_000_000, { project: "a", weight: 4 })];
    expect(earliestDoneMs({ ...LANE, waiting }, work(60))).toBe(301_500);
    expect(earliestDoneMs({ ...LANE, waiting }, work(60, { weight: 8 }))).toBe(91_500);
  });

  it("stands behind what its own project has with an earlier deadline or none, not behind later ones", () => {
    const early = { ...LANE, waiting: [work(120, { deadlineMs: 500_000 })] };
    const none = { ...LANE, waiting: [work(120)] };
    const late = { ...LANE, waiting: [work(120, { deadlineMs: 5_000_000 })] };
    expect(earliestDoneMs(early, work(60, { deadlineMs: 600_000 }))).toBe(181_500);
    expect(earliestDoneMs(none, work(60, { deadlineMs: 600_000 }))).toBe(181_500);
    expect(earliestDoneMs(late, work(60, { deadlineMs: 600_000 }))).toBe(61_500);
    expect(earliestDoneMs(late, work(60))).toBe(61_500);
    expect(earliestDoneMs(early, work(600))).toBe(601_500);
    expect(earliestDoneMs({ ...LANE, waiting: [work(120, { deadlineMs: 100_000 })] }, work(60))).toBe(
      181_500,
    );
  });
});

describe("earliestDeadlineMs", () => {
  it("goes on until what comes before it by then is done as well", () => {
    const waiting = [work(120, { deadlineMs: 50_000 }), work(120, { deadlineMs: 1_000_000 })];
    expect(earliestDeadlineMs({ ...LANE, waiting }, work(60))).toBe(181_500);
    expect(earliestDeadlineMs(LANE, work(60))).toBe(61_500);
  });

  it("comes after work of its project that it would make late, not after what is late without it", () => {
    const tight = [work(600, { deadlineMs: 610_000 })];
    const late = [work(600, { deadlineMs: 300_000 })];
    expect(earliestDeadlineMs({ ...LANE, waiting: tight }, work(5))).toBe(6_500);
    expect(earliestDeadlineMs({ ...LANE, waiting: tight }, work(60))).toBe(661_500);
    expect(earliestDeadlineMs({ ...LANE, waiting: late }, work(60))).toBe(61_500);
    expect(slaForecast({ ...LANE, waiting: tight }, work(60, { deadlineMs: 200_000 }))).toBe("infeasible");
  });
});

describe("slaForecast", () => {
  it("tells what is met, what is met with less than a tenth to spare, and what is not", () => {
    expect(slaForecast(LANE, work(60, { deadlineMs: 100_000 }))).toBe("feasible");
    expect(slaForecast(LANE, work(60, { deadlineMs: 63_000 }))).toBe("at_risk");
    expect(slaForecast(LANE, work(60, { deadlineMs: 61_000 }))).toBe("infeasible");
    expect(slaForecast({ ...LANE, waiting: [work(1e9, { project: "a" })] }, work(60))).toBe("feasible");
  });
});
