/**
 * Keys that were never accepted: what their first lines show.
 */
import { describe, expect, it } from "vitest";
import { INPUT, OUTPUT, ok, status, World } from "./world.ts";

const OPTIONS = { out: OUTPUT };

describe("a key that was never accepted, of which the first line is refused", () => {
  it.each([
    [1, 100, 300],
    [2, 100, 150],
  ])(
    "goes on at the first answer, line %i being refused after %i ms",
    async (refused, refusedMs, answeredMs) => {
      const world = new World({
        answer: (line) =>
          line === refused
            ? { afterMs: refusedMs, result: status(401, "invalid_api_key") }
            : { afterMs: answeredMs, result: ok(line) },
      });
      world.input(100);
      const summary = await world.settle((await world.engine()).run(INPUT, OPTIONS).finished);
      expect(summary).toMatchObject({ status: "completed", counts: { completed: 99, failed: 1 } });
      expect(world.clock.nowMs()).toBeLessThan(3_000);
    },
  );
});

describe("a new key, of which the first lines are refused for their own sake", () => {
  it.each([
    [20, 100],
    [20, 400],
    [2, 5],
  ])(
    "is tried with lines far from each other: %i of %i, all others are answered in one call",
    async (refused, count) => {
      const world = new World({
        config: { providers: { alpha: { baseUrl: "http://alpha.test", key: "new" } } },
        answer: (line) => (line <= refused ? status(401, "invalid_api_key") : ok(line)),
      });
      world.input(count);
      const summary = await world.settle((await world.engine()).run(INPUT, OPTIONS).finished);
      expect(summary.counts.completed).toBe(count - refused);
    },
  );
});
