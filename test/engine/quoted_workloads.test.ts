/**
 * Quotes of 24 workloads after a pilot of 50 items each, against what the rest then took. At least: half of the bills within
 * 10 %, 85 of 100 inside of the band, and 80 of 100 times within 20 %.
 */
import { describe, expect, it } from "vitest";
import { type Compared, compared } from "./quoted_trials.ts";
import { drawWorkload } from "./workloads.ts";

const WORKLOADS = 24;

const results: Compared[] = [];

describe("quotes after a pilot", () => {
  for (let seed = 1; seed <= WORKLOADS; seed += 1) {
    const workload = drawWorkload(seed);
    it(`compare with the results: ${seed}: ${workload.name}`, { timeout: 120_000 }, async () => {
      const result = await compared(workload);
      results.push(result);
      expect(result.moneyError).toBeGreaterThan(-0.6);
      expect(result.moneyError).toBeLessThan(0.6);
    });
  }

  it("are right about money and time as often as promised", () => {
    const errors = results.map(({ moneyError }) => Math.abs(moneyError)).sort((a, b) => a - b);
    const shareOf = (isRight: (result: Compared) => boolean): number =>
      results.filter(isRight).length / results.length;
    expect(results).toHaveLength(WORKLOADS);
    expect(errors[Math.floor(WORKLOADS / 2)]).toBeLessThanOrEqual(0.1);
    expect(shareOf(({ isInBand }) => isInBand)).toBeGreaterThanOrEqual(0.85);
    expect(shareOf(({ timeError }) => Math.abs(timeError) <= 0.2)).toBeGreaterThanOrEqual(0.8);
  });
});
