/**
 * A project with a million items waiting, and another that comes with ten again and again.
 */
import { describe, expect, it } from "vitest";
import { createRandom } from "../../src/testing/index.ts";
import { itemLine, ok, status, World } from "../engine/world.ts";

const VISITS = 100;
/** More than is served of it in the time: as good as a million. */
const LARGE = 5_000;
/** Below 100 a minute nothing can be saved up while a lane is idle (limits/bucket.ts): so times without others are not flattered. */
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
  it("take at most twice their time without others, and one item, 99 times of a hundred", async () => {
    const [alone, beside] = [await visits(false), await visits(true)];
    const itemMs = 60_000 / RATE.limits.alpha.requestsPerMinute;
    for (const at of [VISITS / 2, VISITS - 2])
      expect(beside[at]).toBeLessThanOrEqual(2 * (alone[at] as number) + itemMs);
  });
});

/** Projects of several weights and runs in many lanes, with limits drawn, refusals and cancelled lines; counts by run. */
async function crowd(seed: number): Promise<readonly { readonly lines: number; readonly ended: number }[]> {
  const random = createRandom(seed);
  const whole = (from: number, to: number): number => from + Math.floor(random() * (to - from + 1));
  const world = new World({
    config: {
      maxInFlight: whole(1, 12),
      limits: {
        alpha: {
          ...(random() < 0.5 ? { requestsPerMinute: whole(60, 600) } : {}),
          ...(random() < 0.3 ? { concurrency: whole(1, 6) } : {}),
        },
        ...(random() < 0.5 ? { "alpha:m1": { tokensPerMinute: whole(20_000, 60_000) } } : {}),
      },
    },
    answer: (line, attempt) => {
      const chance = (line * 7_919 + attempt * 104_729 + seed) % 100;
      if (chance < 3) return status(429, "rate_limited", { "retry-after": "2" });
      if (chance < 8) return status(503, "overloaded");
      return { afterMs: 20 + chance * 30, result: ok(line) };
    },
  });
  const engine = await world.engine();
  const runs: { readonly lines: number; readonly finished: Promise<{ readonly items: number }> }[] = [];
  for (let run = 0; run < 12; run += 1) {
    const lines = whole(1, 120);
    const models = whole(1, 5);
    const text = Array.from({ length: lines }, (_, at) =>
      itemLine(1 + run * 1_000 + at, `alpha:m${at % models}`),
    );
    world.disk.put(`/in${run}`, text.join(""));
    const skipEvery = random() < 0.3 ? 7 : Number.POSITIVE_INFINITY;
    const { finished } = engine.run(`/in${run}`, {
      out: `/out${run}`,
      project: `p${whole(0, 4)}`,
      weight: [0.1, 1, 5][whole(0, 2)] as number,
      skip: (line) => line % skipEvery === 0,
      ...(random() < 0.5 ? { sla: whole(200, 2_000) } : {}),
    });
    runs.push({ lines, finished });
    await world.clock.advance(random() * 10_000);
  }
  const ends: { readonly lines: number; readonly ended: number }[] = [];
  for (const { lines, finished } of runs) ends.push({ lines, ended: (await world.settle(finished)).items });
  expect(engine.lanes().every(({ inFlight, waiting, projects }) => inFlight + waiting + projects === 0)).toBe(
    true,
  );
  await engine.close();
  return ends;
}

describe("a crowd of projects in lanes that share limits", () => {
  for (let seed = 1; seed <= 6; seed += 1) {
    it(`is answered whole, and leaves nothing behind: seed ${seed}`, async () => {
      for (const { lines, ended } of await crowd(seed)) expect(ended).toBe(lines);
    });
  }
});
