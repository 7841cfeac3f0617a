/**
 * Kills while items are in a cheaper tier, wait for it, or have left it: each key has one line, nothing is late, and the provider's
 * books are between what is billed and what is in doubt beyond it.
 */
import { describe, expect, it } from "vitest";
import type { Engine } from "../../src/engine/engine.ts";
import { createRandom } from "../../src/testing/random.ts";
import { SHED, tiered } from "./tiers.ts";
import { INPUT, mortal, OUTPUT, type Reply, World } from "./world.ts";

const ITEMS = 80;
const PRICES = { "openai:*": { inputUsdPerMillion: 1, outputUsdPerMillion: 10 } };
/** As many as a request allows, and what they cost at list price. */
const USAGE = { inputTokens: 5, outputTokens: 16 };
const LIST_USD = 0.000165;

/** A provider with a flex tier that sheds and hangs, and its books. */
function booked(random: () => number) {
  const flexShare = random();
  const book = { usd: 0 };
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
      book.usd += isServed ? LIST_USD / 2 : LIST_USD;
      return { afterMs: 500 + random() * 20_000, result: tiered(line, isServed ? "flex" : "default", USAGE) };
    },
  });
  return { world, book };
}

/** Three processes that are killed at work, each by `begin`, and a last one, open. */
async function afterKills(
  world: World,
  random: () => number,
  begin: (engine: Engine) => Promise<void>,
): Promise<Engine> {
  for (let kill = 0; kill < 3; kill += 1) {
    const process = mortal(world.clock);
    await begin(await world.engine(process.clock));
    await world.clock.advance(random() * 40_000);
    process.kill();
    world.kill({ powerCut: random() < 0.5, random });
  }
  return world.engine();
}

/** `TEST_LIMIT_SEEDS` draws more. */
const SEEDS = Number(process.env["TEST_LIMIT_SEEDS"] ?? 6);

describe("kills beside a cheaper tier", () => {
  const seeds = Array.from({ length: SEEDS }, (_, index) => index + 1);
  it.each(seeds)("lose and repeat nothing of a run, and keep the money right: seed %i", async (seed) => {
    const random = createRandom(seed);
    const sla = 3 + Math.floor(random() * 20);
    const { world, book } = booked(random);
    world.input(ITEMS, "openai:gpt-5-mini");
    const startMs = world.clock.nowMs();
    const engine = await afterKills(world, random, async (one) => {
      one.run(INPUT, { out: OUTPUT, sla }).finished.catch(() => undefined);
    });
    const summary = await world.settle(engine.run(INPUT, { out: OUTPUT, sla }).finished);
    await world.settle(engine.close());
    expect(summary.counts).toMatchObject({ completed: ITEMS });
    expect(world.clock.nowMs() - startMs).toBeLessThanOrEqual(sla * 60_000);
    expect(
      world
        .output()
        .map(({ key }) => key)
        .sort(),
    ).toEqual(Array.from({ length: ITEMS }, (_, index) => `k${index + 1}`).sort());
    const { billed_usd, ambiguous_usd } = summary.cost;
    expect(billed_usd).toBeLessThanOrEqual(book.usd + 1e-9);
    expect(book.usd).toBeLessThanOrEqual(billed_usd + ambiguous_usd + 1e-9);
  });

  it.each(seeds)("lose and repeat nothing of a list, and keep the money right: seed %i", async (seed) => {
    const random = createRandom(1_000 + seed);
    const sla = 3 + Math.floor(random() * 20);
    const { world, book } = booked(random);
    const items = Array.from({ length: ITEMS }, (_, at) => ({
      key: `k${at + 1}`,
      model: "openai:gpt-5-mini",
      input: `[[${at + 1}]] hello`,
      maxOutputTokens: 16,
      sla,
    }));
    const startMs = world.clock.nowMs();
    let id: string | undefined;
    const engine = await afterKills(world, random, async (one) => {
      if (id === undefined) id = (await world.settle(one.submit(items))).task_id;
    });
    const task = await world.settle(engine.task(id ?? ""));
    const waited = async (): Promise<typeof task> => {
      for (;;) {
        const now = await world.settle(engine.task(id ?? ""));
        if (now.status !== "submitted") return now;
        await world.clock.advance(1_000);
      }
    };
    const done = await waited();
    expect(done.counts).toMatchObject({ completed: ITEMS });
    expect(world.clock.nowMs() - startMs).toBeLessThanOrEqual(sla * 60_000 + 1_000);
    const costs = done.objects.map(({ cost }) => cost);
    const sum = (name: "billed_usd" | "ambiguous_usd"): number =>
      costs.reduce((total, cost) => total + (cost?.[name] ?? 0), 0);
    expect(sum("billed_usd")).toBeLessThanOrEqual(book.usd + 1e-9);
    expect(book.usd).toBeLessThanOrEqual(sum("billed_usd") + sum("ambiguous_usd") + 1e-9);
    await world.settle(engine.close());
  });
});
