/** Who goes first where deadlines wait. */
import { describe, expect, it } from "vitest";
import type { LaneForecastBasis, ProjectWork } from "../../src/queue/feasibility.ts";
import { Lending } from "../../src/queue/lending.ts";
import { isFirst, isLent, type Urgency, urgencyOf } from "../../src/queue/urgency.ts";

const MINUTE_MS = 60_000;

/** A lane of 60 requests a minute: an item is a second of it. */
function lane(waiting: readonly ProjectWork[], nowMs = 0): LaneForecastBasis {
  return { nowMs, closedMs: 0, capacity: { requestsPerMinute: 60, itemMs: 500 }, waiting };
}

function work(project: string, minutes: number, items: number, weight = 1): ProjectWork {
  return { project, weight, items, inputTokens: 0, outputTokens: 0, deadlineMs: minutes * MINUTE_MS };
}

function first(waiting: readonly ProjectWork[], isLending = false): string[] {
  const urgency = urgencyOf(lane(waiting)) as Urgency;
  return waiting
    .filter(({ project, deadlineMs }) => isFirst(urgency, project, deadlineMs, isLending))
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
    expect(first([endless, work("a", 90, 1_000)])).toEqual(["endless", "a"]);
    expect(first([endless, work("a", 90, 3_900)])).toEqual(["a"]);
    expect(first([endless, work("a", 60, 10), work("b", 120, 6_000)])).toEqual(["a"]);
  });

  it("is what is due within 80 minutes, and who has no deadline for one of seventeen turns", () => {
    const endless = work("endless", Number.POSITIVE_INFINITY, 1_000);
    const lentOf = (minutes: number): number => {
      const lending = new Lending();
      let lent = 0;
      for (let turn = 0; turn < 1_700; turn += 1) {
        const due = work("a", minutes, 100);
        const urgency = urgencyOf(lane([endless, due], turn * 1_000)) as Urgency;
        expect(isFirst(urgency, due.project, due.deadlineMs, lending.isOpen)).toBe(true);
        const turnOf = isFirst(urgency, endless.project, endless.deadlineMs, lending.isOpen) ? endless : due;
        lending.served(1_000, isLent(urgency, turnOf));
        lent += turnOf === endless ? 1 : 0;
      }
      return lent;
    };
    expect(lentOf(40)).toBe(102); // and the two seconds that are saved up at first
    expect(lentOf(180)).toBe(1_700);
    const tight = urgencyOf(lane([endless, work("a", 20, 900)])) as Urgency;
    expect(isFirst(tight, endless.project, endless.deadlineMs, true)).toBe(false);
  });

  it("is a request without a deadline at once, where few turns were lent before", () => {
    const single = work("single", Number.POSITIVE_INFINITY, 1);
    const lending = new Lending();
    for (let turn = 0; turn < 600; turn += 1) {
      const due = work("a", 40, 100);
      const urgency = urgencyOf(lane([single, due], turn * 1_000)) as Urgency;
      expect(isFirst(urgency, single.project, single.deadlineMs, lending.isOpen)).toBe(true);
      lending.served(1_000, isLent(urgency, turn % 20 === 0 ? single : due));
    }
  });

  it("is a request without a deadline soon again after many that took turns which nobody else could take", () => {
    const lending = new Lending();
    for (let turn = 0; turn < 10_000; turn += 1) lending.served(1_000, true);
    lending.served(60_000, true);
    expect(lending.isOpen).toBe(false);
    for (let turn = 0; turn < 961; turn += 1) lending.served(1_000, false); // what the largest of them owes
    expect(lending.isOpen).toBe(true);
  });

  it("is not who wants more than can be done: that takes turns with what has no deadline", () => {
    const endless = work("endless", Number.POSITIVE_INFINITY, 1_000);
    const both = [work("greedy", 10, 6_000), work("modest", 12, 60)];
    expect(first(both)).toEqual(["modest"]);
    expect(first(both, true)).toEqual(["greedy", "modest"]);
    expect(first([work("greedy", 10, 6_000), work("modest", 12, 600)])).toEqual(["modest"]);
    expect(urgencyOf(lane([work("greedy", 10, 6_000), endless]))).toBeUndefined();
  });

  it("leaves out those who want most by their weight", () => {
    expect(first([work("heavy", 10, 500, 10), work("light", 10, 400)])).toEqual(["heavy"]);
  });
});
