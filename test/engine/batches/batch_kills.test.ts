import { describe, expect, it } from "vitest";
import { killTrial } from "./kill_trials.ts";
import { WIRES } from "./wires.ts";

describe.each(WIRES)("kills beside batches of $name", (wire) => {
  const seeds = Array.from({ length: 12 }, (_, index) => index + 1);
  it.each(seeds)("make one batch of each submission, and bill each item once: seed %i", async (seed) => {
    expect(await killTrial(wire, seed)).toEqual([]);
  });
});
