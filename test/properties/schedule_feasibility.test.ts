/**
 * Laws of the forecast: never sooner than limits allow, never sooner with more, and what it names is met.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  earliestDeadlineMs,
  earliestDoneMs,
  type LaneForecastBasis,
  type ProjectWork,
} from "../../src/queue/feasibility.ts";
import { needMs } from "../../src/queue/planner.ts";

const work: fc.Arbitrary<ProjectWork> = fc.record({
  project: fc.constantFrom("a", "b", "c"),
  weight: fc.constantFrom(0.5, 1, 3),
  items: fc.nat(10_000),
  inputTokens: fc.nat(1_000_000),
  outputTokens: fc.nat(1_000_000),
  deadlineMs: fc.oneof(fc.constant(Number.POSITIVE_INFINITY), fc.nat(10_000_000)),
});
const rate = fc.integer({ min: 1, max: 100_000 });
const lane: fc.Arbitrary<LaneForecastBasis> = fc.record({
  nowMs: fc.nat(1_000_000),
  closedMs: fc.nat(60_000),
  capacity: fc.record(
    {
      itemMs: fc.nat(60_000),
      requestsPerMinute: rate,
      tokensPerMinute: rate,
      inputTokensPerMinute: rate,
      outputTokensPerMinute: rate,
      concurrency: fc.integer({ min: 1, max: 2_048 }),
    },
    { requiredKeys: ["itemMs"] },
  ),
  waiting: fc.array(work, { maxLength: 12 }),
});

describe("a forecast", () => {
  it("is never sooner than the limits by themselves allow", () => {
    fc.assert(
      fc.property(lane, work, (where, what) => {
        const aloneMs = where.nowMs + (what.items > 0 ? where.closedMs + needMs(what, where.capacity) : 0);
        expect(earliestDoneMs(where, what)).toBeGreaterThanOrEqual(aloneMs);
      }),
    );
  });

  it("is never sooner with more work, with more that waits, or with less weight", () => {
    const more = fc.record({ items: fc.nat(1_000), inputTokens: fc.nat(9_999), outputTokens: fc.nat(9_999) });
    fc.assert(
      fc.property(lane, work, more, work, (where, what, added, another) => {
        const doneMs = earliestDoneMs(where, what);
        const larger = {
          ...what,
          items: what.items + added.items,
          inputTokens: what.inputTokens + added.inputTokens,
          outputTokens: what.outputTokens + added.outputTokens,
        };
        expect(earliestDoneMs(where, larger)).toBeGreaterThanOrEqual(doneMs);
        expect(earliestDoneMs(where, { ...what, weight: what.weight / 2 })).toBeGreaterThanOrEqual(doneMs);
        const fuller = { ...where, waiting: [...where.waiting, another] };
        expect(earliestDoneMs(fuller, what)).toBeGreaterThanOrEqual(doneMs);
      }),
    );
  });

  it("names a deadline that would be met", () => {
    fc.assert(
      fc.property(lane, work, (where, what) => {
        const deadlineMs = earliestDeadlineMs(where, what);
        expect(earliestDoneMs(where, { ...what, deadlineMs })).toBeLessThanOrEqual(deadlineMs);
      }),
    );
  });
});
