/** Every place of a lane hangs at once, for ever: the provider is well again after seconds, and the run sees it long before a time-out. */
import { describe, expect, it } from "vitest";
import { INPUT, OUTPUT, ok, type Reply, World } from "./world.ts";

const FROM_MS = 2_000;

/** Requests that are sent within `lengthMs` are never answered; all others after 100 ms. */
function worldHanging(places: number, lengthMs: number): World {
  const world: World = new World({
    config: { maxInFlight: places },
    answer: (line): Reply => {
      const sinceMs = world.clock.nowMs() - FROM_MS;
      return sinceMs >= 0 && sinceMs < lengthMs ? "hang" : { afterMs: 100, result: ok(line) };
    },
  });
  return world;
}

describe("requests that all hang from one moment on", () => {
  it.each([
    [1, 75_000],
    [8, 170_000],
    [64, 170_000],
  ])(
    "are given up, at %i in flight: one after a minute as a try, the others after two",
    async (places, endMs) => {
      const world = worldHanging(places, 3_000);
      const count = places * 60;
      world.input(count);
      const summary = await world.settle((await world.engine()).run(INPUT, { out: OUTPUT }).finished);
      expect(summary).toMatchObject({ status: "completed", counts: { completed: count } });
      expect(summary.usage.ambiguous_attempts).toBeLessThanOrEqual(places);
      expect(world.clock.nowMs()).toBeLessThan(endMs);
    },
  );

  it("go on, but for four, while nothing shows that another one would be answered", async () => {
    const world = worldHanging(8, 540_000);
    world.input(400);
    const run = (await world.engine()).run(INPUT, { out: OUTPUT });
    await world.clock.advance(500_000);
    expect(world.sent.filter(({ atMs }) => atMs >= FROM_MS).length).toBeLessThanOrEqual(8 + 5);
    expect(await world.settle(run.finished)).toMatchObject({
      status: "completed",
      counts: { completed: 400 },
    });
  });
});
