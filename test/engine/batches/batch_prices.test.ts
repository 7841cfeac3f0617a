/** Which batches a run uses by what the configuration says that they cost, and what `perigee simulate` says of it. */
import { describe, expect, it } from "vitest";
import { batchConfig, vainBatches } from "../../../src/engine/config/batch_options.ts";
import type { ConfigOptions } from "../../../src/engine/config/config.ts";
import { simulateFile } from "../../../src/simulation/simulate_file.ts";
import { simulate } from "../../../src/testing/index.ts";
import { INPUT, World } from "../world.ts";

const ITEMS = 120;

function configOf(priceFactor: number): ConfigOptions {
  return {
    providers: {
      box: { baseUrl: "http://box.test/v1", key: "k", batches: { wire: "compatible", priceFactor } },
    },
    prices: { "box:*": { inputUsdPerMillion: 1, outputUsdPerMillion: 4 } },
  };
}

describe("batches whose price factor is configured", () => {
  it.each([
    [0.3, "batch"],
    [1, "batch"],
    [1.5, "realtime"],
  ] as const)("at a factor of %f have the work of a run: %s", async (priceFactor, lane) => {
    const config = configOf(priceFactor);
    const items = Array.from({ length: ITEMS }, (_, index) => ({ model: "box:llama", input: `q ${index}` }));
    const { summary, requests } = await simulate({
      config,
      providers: { box: {} },
      items,
      run: { sla: 1_440 },
    });
    expect(new Set(requests.map((request) => request.lane))).toEqual(new Set([lane]));
    const share = summary.cost.billedUsd / summary.cost.listUsd;
    expect(share).toBeCloseTo(lane === "batch" ? priceFactor : 1, 6);

    const world = new World({ config, allowsBatches: true });
    world.input(ITEMS, "box:llama");
    const { engine, core } = await world.opened();
    const said = await simulateFile(core, INPUT, { sla: 1_440, seeds: 1 });
    await world.settle(engine.close());
    expect(said.lanes).toMatchObject([{ lane, items: ITEMS }]);
    expect((said.billed_usd.median ?? 0) / said.list_usd).toBeCloseTo(share, 3);
  });

  it.each([
    [600, "realtime"],
    [1, "batch"],
  ] as const)(
    "have work that costs nothing only where realtime cannot do it: at %d requests a minute %s",
    async (perMinute, lane) => {
      const config: ConfigOptions = {
        ...configOf(0.5),
        limits: { box: { requestsPerMinute: perMinute } },
        prices: { "box:*": { inputUsdPerMillion: 0, outputUsdPerMillion: 0 } },
      };
      const items = Array.from({ length: 600 }, (_, index) => ({ model: "box:llama", input: `q ${index}` }));
      const { summary, requests } = await simulate({
        config,
        providers: { box: {} },
        items,
        run: { sla: 480 },
      });
      expect(summary.counts).toMatchObject({ completed: 600 });
      expect(requests.some((request) => request.lane === "batch")).toBe(lane === "batch");

      const world = new World({ config, allowsBatches: true });
      world.input(600, "box:llama");
      const { engine, core } = await world.opened();
      const said = await simulateFile(core, INPUT, { sla: 480, seeds: 1 });
      await world.settle(engine.close());
      expect(said.lanes.map((one) => one.lane)).toContain(lane);
      if (lane === "realtime") expect(said.lanes).toHaveLength(1);
    },
  );

  it("are named to the operator where they would cost more than realtime, and so are deferred requests", () => {
    const box = { name: "box", baseUrl: "http://box.test/v1", protocol: "openai" } as const;
    const gemini = { name: "gemini", baseUrl: "http://gemini.test", protocol: "gemini" } as const;
    const given = batchConfig([box, gemini], (name) =>
      name === "box"
        ? { batches: { wire: "compatible", priceFactor: 1.5 } }
        : { deferred: { priceFactor: 1.2 } },
    );
    expect(vainBatches(given, [box, gemini])).toEqual([
      "providers.box.batches has no effect: its priceFactor of 1.5 is above 1, so batches would cost more than realtime",
      "providers.gemini.deferred has no effect: its priceFactor of 1.2 is above 1, so deferred requests would cost more than realtime",
    ]);
  });
});
