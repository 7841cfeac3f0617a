/** A cheaper tier, whose requests may take minutes, leaves places in flight for what goes in realtime. */
import { describe, expect, it } from "vitest";
import { tiered } from "./tiers.ts";
import { INPUT, itemLine, OUTPUT, type Reply, World, type WorldOptions } from "./world.ts";

const MODELS = ["openai:gpt-5-mini", "openai:gpt-5-nano"];
const SOON = "/soon.jsonl";
const ITEMS = 12;

/** A provider whose flex tier never answers, with work for it that may wait an hour, spread over models. */
async function hangingWorld(models: readonly string[], config: WorldOptions["config"]) {
  let inTier = 0;
  const world: World = new World({
    config: { providers: { openai: { baseUrl: "http://openai.test/v1", key: "k" } }, ...config },
    answer: (line, _attempt, _model, body): Reply => {
      if ((body as { service_tier?: string }).service_tier !== "flex")
        return { afterMs: 1_000, result: tiered(line, "default") };
      inTier += 1;
      return "hang";
    },
  });
  const lines = (from: number): string =>
    Array.from({ length: ITEMS }, (_, at) =>
      itemLine(from + at, models[at % models.length] ?? MODELS[0], `k${from + at}`),
    ).join("\n");
  world.disk.put(INPUT, lines(1));
  world.disk.put(SOON, lines(101));
  const engine = await world.engine();
  const run = engine.run(INPUT, { out: OUTPUT, sla: 60 });
  await world.clock.advance(30_000);
  return { world, engine, run, inTier: () => inTier };
}

describe("a cheaper tier that does not answer", () => {
  it.each([
    [2, 1],
    [3, 2],
    [4, 3],
  ])("has of %i places in flight that a provider's models share at most %i", async (places, most) => {
    for (const config of [{ maxInFlight: places }, { limits: { openai: { concurrency: places } } }]) {
      const { world, engine, run, inTier } = await hangingWorld(MODELS, config);
      expect(inTier()).toBe(most);
      const soon = engine.run(SOON, { out: "/soon-out.jsonl" });
      await world.clock.advance(30_000);
      expect(soon.progress()).toMatchObject({ settled: ITEMS });
      run.stop();
      await world.settle(run.finished);
      await world.settle(engine.close());
    }
  });

  it("gives places to a model that waits for them when another one has left them", async () => {
    const asked: string[] = [];
    const world: World = new World({
      config: { providers: { openai: { baseUrl: "http://openai.test/v1", key: "k" } }, maxInFlight: 2 },
      answer: (line, _attempt, model, body): Reply => {
        const isFlex = (body as { service_tier?: string }).service_tier === "flex";
        asked.push(`${model} ${isFlex ? "flex" : "realtime"}`);
        return { afterMs: 3_000, result: tiered(line, isFlex ? "flex" : "default") };
      },
    });
    const lines = MODELS.flatMap((model, at) =>
      Array.from({ length: ITEMS }, (_, line) => itemLine(100 * at + line, model, `${model} ${line}`)),
    );
    world.disk.put(INPUT, lines.join("\n"));
    const engine = await world.engine();
    const run = engine.run(INPUT, { out: OUTPUT, sla: 60 });
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 2 * ITEMS } });
    expect(asked.filter((one) => one.endsWith("realtime"))).toEqual([]);
    await world.settle(engine.close());
  });

  it("is not asked where only one request may be in flight", async () => {
    const { world, engine, run, inTier } = await hangingWorld(MODELS, { maxInFlight: 1 });
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: ITEMS } });
    expect(inTier()).toBe(0);
    await world.settle(engine.close());
  });
});
