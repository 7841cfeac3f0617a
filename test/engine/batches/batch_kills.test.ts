import { describe, expect, it } from "vitest";
import { killTrial, stepTrial } from "./kill_trials.ts";
import { WIRES } from "./wires.ts";

/** `TEST_LIMIT_SEEDS` draws more. */
const SEEDS = Number(process.env["TEST_LIMIT_SEEDS"] ?? 6);

describe.each(WIRES)("kills beside batches of $name", (wire) => {
  const seeds = Array.from({ length: SEEDS }, (_, index) => index + 1);
  it.each(seeds)("make one batch of each submission, and bill each item once: seed %i", async (seed) => {
    expect(await killTrial(wire, seed)).toEqual([]);
  });

  it.each([1, 2, 3])("do so for lines with the provider's own body: seed %i", async (seed) => {
    expect(await killTrial(wire, seed, 60, 4, { format: "raw" })).toEqual([]);
  });

  it.each(["before", "after"] as const)("do so exactly %s each write and each call", async (when) => {
    let steps = 0;
    for (let nth = 1; ; nth += 1) {
      const wrong = await stepTrial(wire, nth, when);
      if (wrong === undefined) break;
      expect(wrong).toEqual([]);
      steps = nth;
    }
    expect(steps).toBeGreaterThan(10);
  });
});
