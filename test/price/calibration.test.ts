/** Bands that follow what earlier quotes missed: their share of figures is that of the level, whatever the distribution. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { skewT95, studentT95 } from "../../src/price/band.ts";
import { Calibration, SCORES_MAX, SCORES_MIN, scoreOf, stretchedEnd } from "../../src/price/calibration.ts";
import { createRandom } from "../../src/testing/index.ts";

const band = { expected: 10, low: 5, high: 20, stretched: 1 };

describe("a score", () => {
  it("is 1 at both ends, 0 at the figure, and relative to the band without its stretch", () => {
    expect(scoreOf(band, 20)).toBeCloseTo(1);
    expect(scoreOf(band, 5)).toBeCloseTo(1);
    expect(scoreOf(band, 10)).toBe(0);
    expect(scoreOf(band, 40)).toBeCloseTo(2);
    expect(scoreOf({ ...band, low: 2.5, high: 40, stretched: 2 }, 20)).toBeCloseTo(1);
  });

  it("is missing where nothing can be said", () => {
    for (const wrong of [{ expected: 0 }, { low: 0 }, { high: 10 }, { high: Number.POSITIVE_INFINITY }])
      expect(scoreOf({ ...band, ...wrong }, 12)).toBeUndefined();
    expect(scoreOf(band, 0)).toBeUndefined();
  });
});

describe("a calibration", () => {
  it("stretches nothing before it has enough scores, and keeps the last ones", () => {
    const calibration = new Calibration(0.9);
    for (let score = 0; score < SCORES_MIN - 1; score += 1) calibration.add(3);
    expect([calibration.stretch, calibration.count]).toEqual([1, 0]);
    calibration.add(3);
    expect([calibration.stretch, calibration.count]).toEqual([3, SCORES_MIN]);
    for (let score = 0; score < SCORES_MAX; score += 1) calibration.add(0.5);
    expect([calibration.stretch, calibration.count]).toEqual([0.5, SCORES_MAX]);
  });

  it("stays within a fourth and four times", () => {
    fc.assert(
      fc.property(fc.array(fc.double({ min: 0, max: 1e6, noNaN: true }), { maxLength: 300 }), (scores) => {
        const { stretch } = new Calibration(0.9, scores);
        expect(stretch).toBeGreaterThanOrEqual(0.25);
        expect(stretch).toBeLessThanOrEqual(4);
      }),
    );
  });

  // Errors with a heavy tail, in bands that are half as wide as they say, or twice.
  it.each([0.5, 2])("brings bands that are %d times as wide as they should be to their level", (width) => {
    const random = createRandom(7);
    const calibration = new Calibration(0.9);
    let [inside, trials] = [0, 0];
    for (let trial = 0; trial < 4_000; trial += 1) {
      const error = Math.exp((random() < 0.5 ? 1 : -1) * 0.1 * (1 - random()) ** (-1 / 3));
      const { stretch } = calibration;
      const [low, high] = [10 / 1.2 ** width, 10 * 1.2 ** width];
      const quoted = { low: stretchedEnd(10, low, stretch), high: stretchedEnd(10, high, stretch) };
      const actual = 10 * error;
      if (trial >= SCORES_MAX) {
        trials += 1;
        if (quoted.low <= actual && actual <= quoted.high) inside += 1;
      }
      calibration.add(scoreOf({ expected: 10, ...quoted, stretched: stretch }, actual) ?? 0);
    }
    expect(inside / trials).toBeGreaterThan(0.88);
    expect(inside / trials).toBeLessThan(0.92);
  });
});

describe("the ends of a band", () => {
  // From tables of Student's t, 95 %.
  it.each([
    [2, 2.92],
    [4, 2.132],
    [9, 1.833],
    [49, 1.677],
  ])("of a mean are those of Student's t with %i degrees of freedom", (freedom, t) => {
    expect(Math.abs(studentT95(freedom) - t)).toBeLessThan(0.04);
  });

  it("move up with the spread, and less with more values", () => {
    expect(skewT95(0, 9)).toBe(0);
    expect(skewT95(0.5, 9)).toBeGreaterThan(skewT95(0.2, 9));
    expect(skewT95(1, 100)).toBeLessThan(skewT95(1, 9));
    expect(skewT95(50, 9)).toBe(skewT95(1, 9));
  });
});
