/**
 * Items under one rate limit that realtime and the flex tier share, of which the tier refuses a part: none misses its deadline, and
 * hardly any is sent at list price without need.
 */
import { describe, expect, it } from "vitest";
import { ITEMS, shedTrial } from "./shed_trials.ts";

describe("a tier that refuses a part of its requests", () => {
  // Each share with two of the times, and each time with half of the shares or more.
  const cases = [
    ...[0, 0.4].map((shed) => ({ sla: 8, shed })),
    ...[0, 0.2, 0.4, 0.6].map((shed) => ({ sla: 20, shed })),
    ...[0.2, 0.6].map((shed) => ({ sla: 60, shed })),
  ];
  it.each(cases)(
    "of $shed, with deadlines in $sla minutes, makes nothing late and lowers the price as far as it can",
    async ({ sla, shed }) => {
      const { completed, share, best, flexed } = await shedTrial(sla, shed, sla * 100 + shed * 10);
      expect(completed).toBe(ITEMS);
      expect(share).toBeLessThan(best * 1.03 + 0.02);
      expect(flexed).toBeGreaterThan(0);
    },
  );
});
