/**
 * Seeds of worlds in which only a cheaper tier goes wrong, each of which broke a law once: fewer than in `simulation.test.ts`, so that
 * they are run soon after a change of offers.
 */
import { describe, expect, it } from "vitest";
import { simulate } from "./simulate.ts";

describe("a world with a cheaper tier keeps every law", () => {
  it.each([2_150_015_353, 2_150_107_440, 2_150_108_631])("of seed %i", { timeout: 60_000 }, async (seed) => {
    expect((await simulate(seed)).violations).toEqual([]);
  });
});
