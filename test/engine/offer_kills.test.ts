/**
 * Kills while items are in a cheaper tier, wait for it, or have left it: each key has one line, nothing is late, and the provider's
 * books are between what is billed and what is in doubt beyond it.
 */
import { describe, expect, it } from "vitest";
import { createRandom } from "../../src/testing/random.ts";
import { SHED, tiered } from "./tiers.ts";
import { INPUT, OUTPUT, type Reply, World } from "./world.ts";

const ITEMS = 80;
const PRICES = { "openai:*": { inputUsdPerMillion: 1, outputUsdPerMillion: 10 } };
/** Of an answer, at list price: 1,000 tokens in, 100 out. */
const LIST_USD = 0.002;

async function killed(seed: number) {
  const random = createRandom(seed);
  const flexShare = random();
  const sla = 3 + Math.floor(random() * 20);
  let bookedUsd = 0;
  const world: World = new World({
    config: {
      providers: { openai: { baseUrl: "http://openai.test/v1", key: "k" } },
      limits: { openai: { requestsPerMinute: 60 + Math.floor(random() * 200) } },
      prices: PRICES,
    },
    answer: (line, _attempt, _model, body): Reply => {
      const isFlex = (body as { service_tier?: string }).service_tier === "flex";
      if (isFlex && random() < 0.3) return SHED;
      if (isFlex && random() < 0.1) return "hang";
      const isServed = isFlex && random() < flexShare + 0.5;
      bookedUsd += isServed ? LIST_USD / 2 : LIST_USD;
      return { afterMs: 500 + random() * 20_000, result: tiered(line, isServed ? "flex" : "default") };
    },
  });
  world.input(ITEMS, "openai:gpt-5-mini");
  const startMs = world.clock.nowMs();
  for (let kill = 0; kill < 3; kill += 1) {
    const engine = await world.engine();
    const run = engine.run(INPUT, { out: OUTPUT, sla });
    run.finished.catch(() => undefined);
    await world.clock.advance(random() * 40_000);
    world.kill({ powerCut: random() < 0.5, random });
  }
  const engine = await world.engine();
  const summary = await world.settle(engine.run(INPUT, { out: OUTPUT, sla }).finished);
  await world.settle(engine.close());
  return { world, summary, bookedUsd, takenMs: world.clock.nowMs() - startMs, sla };
}

describe("kills beside a cheaper tier", () => {
  const seeds = Array.from({ length: 30 }, (_, index) => index + 1);
  it.each(seeds)("lose and repeat nothing, and keep the money right: seed %i", async (seed) => {
    const { world, summary, bookedUsd, takenMs, sla } = await killed(seed);
    expect(summary.counts).toMatchObject({ completed: ITEMS });
    expect(takenMs).toBeLessThanOrEqual(sla * 60_000);
    expect(
      world
        .output()
        .map(({ key }) => key)
        .sort(),
    ).toEqual(Array.from({ length: ITEMS }, (_, index) => `k${index + 1}`).sort());
    const { billed_usd, ambiguous_usd } = summary.cost;
    expect(billed_usd).toBeLessThanOrEqual(bookedUsd + 1e-9);
    expect(bookedUsd).toBeLessThanOrEqual(billed_usd + ambiguous_usd + 1e-9);
  });
});
