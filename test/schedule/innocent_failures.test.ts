import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { InnocentFailures } from "../../src/queue/failures/innocent_failures.ts";

/** A lane that answered items after so many failures each, one a second. */
function laneOf(failuresBefore: readonly number[]): InnocentFailures {
  const lane = new InnocentFailures();
  failuresBefore.forEach((failures, second) => {
    lane.answered(failures, 1_000 * second);
  });
  return lane;
}

describe("the failures in a row that chance explains", () => {
  it("are none while items are answered at once, or fewer than three have recovered", () => {
    expect(laneOf(Array.from({ length: 100 }, () => 0)).rowMax(100_000)).toBe(0);
    expect(laneOf([5, 5, 0, 0]).rowMax(4_000)).toBe(0);
  });

  it("follow from the share of attempts that failed", () => {
    const half = Array.from({ length: 50 }, () => 1);
    expect(laneOf(half).rowMax(50_000)).toBe(20); // 0.5^20 is a millionth
    const few = Array.from({ length: 200 }, (_, index) => (index % 20 === 0 ? 1 : 0));
    expect(laneOf(few).rowMax(200_000)).toBe(5); // 0.048^5
  });

  it("are forgotten some minutes after the last item has recovered", () => {
    const lane = laneOf([1, 1, 1, 1]);
    expect(lane.rowMax(200_000)).toBeGreaterThan(0);
    expect(lane.rowMax(301_000)).toBe(0);
  });

  it("are at most 40, and never fewer where more attempts fail", () => {
    fc.assert(
      fc.property(fc.array(fc.nat({ max: 200 }), { minLength: 3, maxLength: 60 }), (failures) => {
        const nowMs = 1_000 * failures.length;
        const row = laneOf(failures).rowMax(nowMs);
        expect(row).toBeLessThanOrEqual(40);
        expect(
          laneOf(failures.map((count) => (count === 0 ? 0 : count + 1))).rowMax(nowMs),
        ).toBeGreaterThanOrEqual(row);
      }),
    );
  });
});
