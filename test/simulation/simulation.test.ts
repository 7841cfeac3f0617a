/**
 * Fifty seeds through the whole engine. One seed alone: PERIGEE_SEED=17 npx vitest run test/simulation
 * More of them: PERIGEE_SEEDS=1000 npx vitest run test/simulation
 */
import { describe, expect, it } from "vitest";
import { simulate } from "./simulate.ts";

const given = process.env["PERIGEE_SEED"];
const count = Number(process.env["PERIGEE_SEEDS"] ?? 50);
const seeds = given === undefined ? Array.from({ length: count }, (_, index) => index + 1) : [Number(given)];

describe("a simulated run keeps every law through faults, crashes and restarts", () => {
  for (const seed of seeds) {
    it(`seed ${seed}`, async () => {
      const { violations, observer } = await simulate(seed);
      if (process.env["PERIGEE_TRACE"] !== undefined) process.stderr.write(`${observer.trace.join("\n")}\n`);
      expect(violations, `run it alone: PERIGEE_SEED=${seed} npx vitest run test/simulation`).toEqual([]);
    });
  }
});

describe("a simulation", () => {
  it("is the same every time: equal seeds give equal traces", async () => {
    for (const seed of seeds.slice(0, 5)) {
      const [first, second] = [await simulate(seed), await simulate(seed)];
      expect(second.traceHash, `seed ${seed}`).toBe(first.traceHash);
    }
  });
});
