/** 429s that say nothing, where nobody told a limit. */
import { describe, expect, it } from "vitest";
import { createRandom } from "../../src/testing/index.ts";
import { INPUT, OUTPUT, ok, status, World } from "./world.ts";

const OPTIONS = { out: OUTPUT };

describe("refusals that no limit explains", () => {
  const refused = status(429, "rate_limit_exceeded");

  it.each([
    ["that began with the first requests", 100, 10, 2],
    ["that began later", 3_000, 200, 2],
    ["that began while many were in flight", 20_000, 5_000, 64],
  ])("of all for ten minutes, %s, leave no pace behind", async (_, fromMs, latencyMs, maxInFlight) => {
    const world: World = new World({
      config: { maxInFlight, waitMs: 3_600_000 },
      answer: (line) => {
        const nowMs = world.clock.nowMs();
        return nowMs > fromMs && nowMs < 620_000 ? refused : ok(line);
      },
      latencyMs,
    });
    world.input(1_000);
    const engine = await world.engine();
    const summary = await world.settle(engine.run(INPUT, OPTIONS).finished);
    expect(summary).toMatchObject({ status: "completed", counts: { completed: 1_000 } });
    expect(world.clock.nowMs()).toBeLessThan(620_000 + 150_000);
    await world.settle(engine.close());
  });

  it.each([
    ["8th", 8],
    ["20th", 20],
  ])("of every %s request, by chance, never bring it to a stop", async (_, nth) => {
    const random = createRandom(7);
    const world = new World({
      answer: (line) => (random() < 1 / nth ? refused : ok(line)),
      latencyMs: 100,
      config: { maxInFlight: 8 },
    });
    world.input(3_000);
    const engine = await world.engine();
    await world.settle(engine.run(INPUT, OPTIONS).finished);
    expect(world.clock.nowMs() / 60_000).toBeLessThan(120); // 25 a minute
    await world.settle(engine.close());
  });
});
