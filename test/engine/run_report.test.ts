import { describe, expect, it } from "vitest";
import { INPUT, OUTPUT, World } from "./world.ts";

const CONFIGURED = { inputUsdPerMillion: 1, outputUsdPerMillion: 2, asOf: "2026-11-01" };

describe("the summary of a run", () => {
  it("names the source and the day of the price of each model that was sent", async () => {
    const openai = { baseUrl: "http://openai.test/v1", key: "k" };
    const alpha = { baseUrl: "http://alpha.test/v1", key: "k" };
    const world = new World({
      config: { providers: { openai, alpha }, prices: { "alpha:priced*": CONFIGURED } },
    });
    const models = ["openai:gpt-6-sol", "alpha:priced-1", "alpha:m1"];
    world.input(6, (line) => models[line % 3] as string);
    const engine = await world.engine();
    const { cost } = await world.settle(engine.run(INPUT, { out: OUTPUT }).finished);
    expect(new Set(cost.prices)).toEqual(
      new Set([
        {
          model: "openai:gpt-6-sol",
          source: "genai-prices 0.1.8",
          as_of: "2026-09-23",
          matched_model: "gpt-6-sol",
          is_exact: true,
        },
        {
          model: "alpha:priced-1",
          source: "config",
          as_of: "2026-11-01",
          matched_model: "alpha:priced*",
          is_exact: true,
        },
        { model: "alpha:m1", source: null, as_of: null, matched_model: null, is_exact: false },
      ]),
    );
    expect(cost.price_source.split("; ").sort()).toEqual([
      "config, 2026-11-01",
      "genai-prices 0.1.8, 2026-09-23",
      "no known price",
    ]);
  });

  it("keeps its prices when the finished run is asked for again", async () => {
    const world = new World({ config: { prices: { "alpha:*": CONFIGURED } } });
    world.input(2);
    const engine = await world.engine();
    const { cost } = await world.settle(engine.run(INPUT, { out: OUTPUT }).finished);
    await world.settle(engine.close());
    const again = await world.engine();
    expect((await world.settle(again.run(INPUT, { out: OUTPUT }).finished)).cost).toEqual(cost);
    expect(cost.price_source).toBe("config, 2026-11-01");
  });

  it("names no source when there was nothing to price", async () => {
    const world = new World();
    world.disk.put(INPUT, "no json\n");
    const engine = await world.engine();
    const { cost } = await world.settle(engine.run(INPUT, { out: OUTPUT }).finished);
    expect(cost).toMatchObject({ prices: [], price_source: "nothing to price" });
  });
});
