/** The work of several processes as one plan: what one reports, another reckons with as with the work of projects. */
import { describe, expect, it } from "vitest";
import { batchedElsewhere, standingOf, worksElsewhere } from "../../src/engine/limits/work_elsewhere.ts";
import { DrawnWork } from "../../src/limits/shared/drawn_work.ts";
import { NO_WORK } from "../../src/limits/shared/shared_work.ts";
import { earliestDoneMs, type ProjectWork, slaForecast } from "../../src/queue/feasibility.ts";
import { urgencyOf } from "../../src/queue/urgency.ts";

const MINUTE_MS = 60_000;
/** The clocks of the two count from other moments. */
const ONE = { nowMs: 5_000, wallMs: 1_700_000_000_000 };
const OTHER = { nowMs: 900_000, wallMs: 1_700_000_000_000 };
const CAPACITY = { requestsPerMinute: 60, itemMs: 500 };

function work(project: string, items: number, deadlineMs: number, weight = 1): ProjectWork {
  return { project, weight, deadlineMs, items, inputTokens: items * 10, outputTokens: items * 5 };
}

function seenFrom(works: readonly ProjectWork[]): ProjectWork[] {
  const urgency = urgencyOf({ nowMs: ONE.nowMs, closedMs: 0, capacity: CAPACITY, waiting: works });
  const { weight, classes, batched } = standingOf({ works, itemsPerRequest: 1, urgency }, [], ONE);
  return worksElsewhere([{ holder: "one", weight, classes, batched }], OTHER, 1);
}

describe("work elsewhere", () => {
  it("has its deadlines on this clock, and the weights of its projects together", () => {
    const seen = seenFrom([
      work("a", 30, ONE.nowMs + 10 * MINUTE_MS, 2),
      work("b", 20, Number.POSITIVE_INFINITY, 1.5),
    ]);
    expect(seen).toMatchObject([
      {
        items: 30,
        inputTokens: 300,
        outputTokens: 150,
        deadlineMs: OTHER.nowMs + 10 * MINUTE_MS,
        weight: 3.5,
      },
      { items: 20, deadlineMs: Number.POSITIVE_INFINITY, weight: 3.5 },
    ]);
  });

  it("makes new work take as long as beside the same work in one process, and a deadline infeasible that its part does not allow", () => {
    const basis = { nowMs: OTHER.nowMs, closedMs: 0, capacity: CAPACITY };
    const waiting = seenFrom([work("a", 600, Number.POSITIVE_INFINITY)]);
    const added = work("new", 60, OTHER.nowMs + 90_000);
    const alone = earliestDoneMs({ ...basis, waiting: [] }, added) - OTHER.nowMs;
    const beside = earliestDoneMs({ ...basis, waiting }, added) - OTHER.nowMs;
    expect(alone).toBeLessThan(62_000);
    expect(beside).toBeGreaterThan(119_000);
    expect(slaForecast({ ...basis, waiting: [] }, added)).toBe("feasible");
    expect(slaForecast({ ...basis, waiting }, added)).toBe("infeasible");
  });

  it("says how much has precedence: nothing without deadlines, and the earliest while its time is short", () => {
    const works = [
      work("due", 50, ONE.nowMs + 2 * MINUTE_MS, 2),
      work("endless", 900, Number.POSITIVE_INFINITY),
    ];
    const basis = { nowMs: ONE.nowMs, closedMs: 0, capacity: CAPACITY };
    const standing = (waiting: readonly ProjectWork[]) =>
      standingOf(
        { works: waiting, itemsPerRequest: 1, urgency: urgencyOf({ ...basis, waiting }) },
        [[ONE.nowMs + MINUTE_MS, { items: 7, inputTokens: 70, outputTokens: 35 }]],
        ONE,
      );
    expect(standing(works).first).toEqual({ weight: 2, requests: 50, inputTokens: 500, outputTokens: 250 });
    expect(standing(works.slice(1)).first.weight).toBe(0);
    const others = [{ holder: "one", ...standing(works) }];
    expect(batchedElsewhere(others, OTHER, OTHER.nowMs + MINUTE_MS, 1).items).toBe(7);
    expect(batchedElsewhere(others, OTHER, OTHER.nowMs + MINUTE_MS - 1, 1).items).toBe(0);
  });

  it("counts in items of this process, whose requests may hold others", () => {
    const [deadlineMs, load] = [MINUTE_MS, { items: 1_000, inputTokens: 10_000, outputTokens: 5_000 }];
    const standing = standingOf(
      { works: [work("a", 500, ONE.nowMs + deadlineMs)], itemsPerRequest: 10, urgency: undefined },
      [[ONE.nowMs + deadlineMs, load]],
      ONE,
    );
    const others = [{ holder: "one", ...standing }];
    expect(worksElsewhere(others, OTHER, 4)).toMatchObject([{ items: 200, inputTokens: 5_000 }]);
    expect(batchedElsewhere(others, OTHER, OTHER.nowMs + deadlineMs, 4)).toEqual({ ...load, items: 400 });
  });
});

describe("DrawnWork", () => {
  it("reports with each draw, each 4 s without one while there is work, and once that there is none", () => {
    let standing = { ...NO_WORK, weight: 1 };
    const drawn = new DrawnWork("a", () => standing);
    const others = [{ holder: "b", weight: 1, classes: [], batched: [] }];
    const report = (nowMs: number, isDrawing: boolean): boolean => {
      const ask = drawn.ask(nowMs, isDrawing);
      if (ask !== undefined) drawn.answered(nowMs, ask, others);
      return ask !== undefined;
    };
    expect([report(0, true), report(500, true), report(1_000, false), report(4_500, false)]).toEqual([
      true,
      true,
      false,
      true,
    ]);
    expect(drawn.others(16_500)).toBe(others);
    expect(drawn.others(16_501)).toEqual([]);
    standing = NO_WORK;
    expect([report(5_000, false), report(9_500, false)]).toEqual([true, false]);
  });
});
