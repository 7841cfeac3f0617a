/**
 * A project with a million items waiting, and another that comes with ten again and again.
 */
import { describe, expect, it } from "vitest";
import { createRandom } from "../../src/testing/index.ts";
import { itemLine, ok, World } from "../engine/world.ts";

const VISITS = 100;
/** More than is served of it in the time: as good as a million. */
const LARGE = 5_000;
/** Below 100 a minute nothing can be saved up while a lane is idle (schedule/bucket.ts): so times alone are not flattered. */
const RATE = { limits: { alpha: { requestsPerMinute: 99 } } };

/** Milliseconds that each visit with ten items took, sorted. */
async function visits(hasLarge: boolean): Promise<number[]> {
  const random = createRandom(80);
  const world = new World({
    config: RATE,
    answer: (line) => ({ afterMs: 200 + (line % 13) * 50, result: ok(line) }),
  });
  world.input(LARGE);
  const engine = await world.engine();
  const large = hasLarge ? engine.run("/in.jsonl", { out: "/large", project: "large" }) : undefined;
  await world.clock.advance(60_000);
  const took: number[] = [];
  for (let visit = 0; visit < VISITS; visit += 1) {
    await world.clock.advance(random() * 5_000);
    const path = `/small${visit}.jsonl`;
    const first = 1_000_000 + visit * 10;
    world.disk.put(path, Array.from({ length: 10 }, (_, index) => itemLine(first + index)).join(""));
    const startMs = world.clock.nowMs();
    await world.settle(engine.run(path, { out: `/small${visit}`, project: "small" }).finished);
    took.push(world.clock.nowMs() - startMs);
  }
  if (large !== undefined) expect(large.progress().settled).toBeLessThan(LARGE);
  large?.stop();
  await world.settle(Promise.resolve(large?.finished));
  return took.sort((left, right) => left - right);
}

describe("a hundred visits with ten items beside a project that always waits", () => {
  it("take at most twice their time alone, and one item, 99 times of a hundred", async () => {
    const [alone, beside] = [await visits(false), await visits(true)];
    const itemMs = 60_000 / RATE.limits.alpha.requestsPerMinute;
    for (const at of [VISITS / 2, VISITS - 2])
      expect(beside[at]).toBeLessThanOrEqual(2 * (alone[at] as number) + itemMs);
  });
});
