/** Laws of counts by size: also after halving and keeping, means and quantiles stay those of the values. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Histogram, quantileOfOpen } from "../../src/queue/histogram.ts";

const HALVE_AT = 2_000;
const values = fc.array(fc.oneof(fc.nat({ max: 20 }), fc.nat({ max: 100_000 })), {
  minLength: 1,
  maxLength: 60,
});

/** These values again and again, so many in all. */
function histogramOf(cycle: readonly number[], count: number): Histogram {
  const histogram = new Histogram();
  for (let each = 0; each < count; each += 1) histogram.observe(cycle[each % cycle.length] ?? 0);
  return histogram;
}

describe("a histogram", () => {
  it("has the mean of its values, those that were halved with half their weight", () => {
    const count = fc.constantFrom(1, HALVE_AT - 1, HALVE_AT, HALVE_AT + 1, 3 * HALVE_AT + 7);
    fc.assert(
      fc.property(values, count, (cycle, times) => {
        const histogram = histogramOf(cycle, times);
        let [sum, total] = [0, 0];
        for (let each = 0; each < times; each += 1) {
          sum += cycle[each % cycle.length] ?? 0;
          total += 1;
          if (total >= HALVE_AT) [sum, total] = [sum / 2, total / 2];
        }
        expect(histogram.total).toBeCloseTo(total, 6);
        expect(histogram.mean / (sum / total || 1)).toBeCloseTo(sum === 0 ? 0 : 1, 6);
        expect(histogram.observations).toBe(times);
      }),
      { numRuns: 60 },
    );
  });

  it("says the same after it was kept and restored, of as many values as may count", () => {
    fc.assert(
      fc.property(
        values,
        fc.integer({ min: 1, max: 300 }),
        fc.integer({ min: 1, max: 400 }),
        (cycle, count, most) => {
          const before = histogramOf(cycle, count);
          const after = new Histogram();
          after.restore(before.kept(), most);
          expect(after.total).toBeCloseTo(Math.min(most, before.total), 6);
          expect(after.mean).toBeCloseTo(before.mean, 6);
          expect(after.observations).toBeLessThanOrEqual(most);
          for (const share of [0.1, 0.5, 0.9, 0.99]) {
            expect(after.quantile(share)).toBeGreaterThanOrEqual(before.quantile(share - 1e-6)); // a count is rounded
            expect(after.quantile(share)).toBeLessThanOrEqual(before.quantile(share + 1e-6));
          }
          for (const value of cycle)
            expect(after.above(value) / after.total).toBeCloseTo(before.above(value) / before.total, 6);
        },
      ),
    );
  });

  it("returns a quantile that so many values do not exceed, and one bucket less would be too low", () => {
    fc.assert(
      fc.property(values, fc.constantFrom(0.1, 0.5, 0.9), (cycle, share) => {
        const edge = histogramOf(cycle, cycle.length).quantile(share);
        const part = (most: number): number => cycle.filter((value) => value <= most).length / cycle.length;
        expect(part(edge * 1.000001)).toBeGreaterThanOrEqual(share);
        if (edge > 1) expect(part(edge / 2 ** (1 / 8) / 1.000001)).toBeLessThanOrEqual(share);
      }),
    );
  });

  it("has the quantiles of its values, wherever they lie, while none is known only by what it takes at least", () => {
    const large = fc.array(fc.integer({ min: 1, max: 2 ** 23 }), { minLength: 1, maxLength: 60 });
    fc.assert(
      fc.property(large, fc.constantFrom(0.1234, 0.5123, 0.8765), (all, share) => {
        const sorted = all.toSorted((left, right) => left - right);
        const exact = sorted[Math.floor(all.length * share)] ?? 0;
        const found = quantileOfOpen(histogramOf(all, all.length), new Histogram(), share, 1);
        expect(found / exact).toBeGreaterThan(2 ** (-1 / 8));
        expect(found / exact).toBeLessThan(2 ** (1 / 8));
      }),
    );
  });
});
