/** Places in flight: what a kill can cost, and how soon a place is used again. */
import { describe, expect, it } from "vitest";
import { INPUT, mortal, OUTPUT, ok, World } from "./world.ts";

const COMMIT_MS = 7;

async function killedAt(atMs: number): Promise<World> {
  const latencies = [20, 33, 50, 11];
  const world = new World({ config: { maxInFlight: 3 }, commitMs: COMMIT_MS });
  world.answer = (line) => ({ afterMs: latencies[line % 4] ?? 20, result: ok(line) });
  world.input(24);
  const process = mortal(world.clock);
  void (await world.engine(process.clock)).run(INPUT, { out: OUTPUT }).finished;
  await world.clock.advance(atMs);
  process.kill();
  world.kill();
  return world;
}

describe("places in flight", () => {
  it("bound what is requested twice after a kill at any moment, while outcomes wait for their commit", async () => {
    let mostAgain = 0;
    for (let atMs = 1; atMs < 330; atMs += 4) {
      const world = await killedAt(atMs);
      const before = new Set(world.sent.map(({ line }) => line));
      const sentBefore = world.sent.length;
      const engine = await world.engine();
      const run = engine.run(INPUT, { out: OUTPUT });
      expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 24 } });
      await world.settle(engine.close());
      const again = world.sent.slice(sentBefore).filter(({ line }) => before.has(line));
      expect(again.length, `killed at ${atMs} ms`).toBeLessThanOrEqual(3);
      mostAgain = Math.max(mostAgain, again.length);
    }
    expect(mostAgain).toBe(3);
  });

  it("are taken by the next item in the commit that records the last one's outcome", async () => {
    const world = new World({ config: { maxInFlight: 1 }, latencyMs: 50, commitMs: COMMIT_MS });
    world.input(5);
    const engine = await world.engine();
    await world.settle(engine.run(INPUT, { out: OUTPUT }).finished);
    await world.settle(engine.close());
    const times = world.sent.map(({ atMs }) => atMs);
    const gaps = times.slice(1).map((atMs, index) => atMs - (times[index] ?? 0));
    expect(gaps).toEqual([57, 57, 57, 57]);
  });
});
