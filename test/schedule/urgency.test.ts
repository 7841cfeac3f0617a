/** Who goes first where deadlines wait. */
import { describe, expect, it } from "vitest";
import type { LaneForecastBasis, ProjectWork } from "../../src/queue/feasibility.ts";
import { isFirst, type Urgency, urgencyOf } from "../../src/queue/urgency.ts";

const MINUTE_MS = 60_000;

/** A lane of 60 requests a minute: an item is a second of it. */
function lane(waiting: readonly ProjectWork[], nowMs = 0): LaneForecastBasis {
  return { nowMs, closedMs: 0, capacity: { requestsPerMinute: 60, itemMs: 500 }, waiting };
}

function work(project: string, minutes: number, items: number, weight = 1): ProjectWork {
  return { project, weight, items, inputTokens: 0, outputTokens: 0, deadlineMs: minutes * MINUTE_MS };
}

function first(waiting: readonly ProjectWork[]): string[] {
  const urgency = urgencyOf(lane(waiting)) as Urgency;
  return waiting
    .filter(({ project, deadlineMs }) => isFirst(urgency, project, deadlineMs))
    .map(({ project }) => project);
}

describe("who goes first", () => {
  it("is nobody in particular where nothing has a deadline", () => {
    expect(urgencyOf(lane([work("a", Number.POSITIVE_INFINITY, 100)]))).toBeUndefined();
    expect(urgencyOf(lane([]))).toBeUndefined();
  });

  it("is who is due first, before who has hours to spare", () => {
    expect(first([work("hours", 240, 600), work("soon", 30, 60)])).toEqual(["soon"]);
  });

  it("is also who is due a little later, when all of it fits", () => {
    expect(first([work("a", 60, 2_900), work("b", 62, 10)])).toEqual(["a", "b"]);
    expect(first([work("a", 60, 3_500), work("b", 62, 100)])).toEqual(["a"]);
    expect(first([work("a", 60, 100), work("b", 70, 10)])).toEqual(["a"]);
  });

  it("is also who has no deadline, until deadlines take most of the time", () => {
    const endless = work("endless", Number.POSITIVE_INFINITY, 1_000);
    expect(first([endless, work("a", 60, 1_000)])).toEqual(["endless", "a"]);
    expect(first([endless, work("a", 60, 2_600)])).toEqual(["a"]);
    expect(first([endless, work("a", 60, 10), work("b", 120, 6_000)])).toEqual(["a"]);
  });

  it("is what is due within 80 minutes, and who has no deadline for 2 of 32 seconds", () => {
    const endless = work("endless", Number.POSITIVE_INFINITY, 1_000);
    const shareOf = (minutes: number): number => {
      let lent = 0;
      for (let nowMs = 0; nowMs < 320_000; nowMs += 500) {
        const urgency = urgencyOf(lane([endless, work("a", minutes, 100)], nowMs)) as Urgency;
        expect(isFirst(urgency, "a", minutes * MINUTE_MS)).toBe(true);
        if (isFirst(urgency, "endless", Number.POSITIVE_INFINITY)) lent += 1;
      }
      return lent / 640;
    };
    expect(shareOf(80)).toBe(1 / 16);
    expect(shareOf(86)).toBe(1);
    const tight = urgencyOf(lane([endless, work("a", 20, 900)])) as Urgency;
    expect(isFirst(tight, "endless", Number.POSITIVE_INFINITY)).toBe(false);
  });

  it("is not who wants more than can be done: that takes turns with what has no deadline", () => {
    const endless = work("endless", Number.POSITIVE_INFINITY, 1_000);
    expect(first([work("greedy", 10, 6_000), work("modest", 12, 60)])).toEqual(["greedy", "modest"]);
    expect(first([work("greedy", 10, 6_000), work("modest", 12, 600)])).toEqual(["modest"]);
    expect(urgencyOf(lane([work("greedy", 10, 6_000), endless]))).toBeUndefined();
  });

  it("leaves out those who want most by their weight", () => {
    expect(first([work("heavy", 10, 500, 10), work("light", 10, 400)])).toEqual(["heavy"]);
  });
});
