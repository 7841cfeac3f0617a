/**
 * What simulations of files say: lanes, money, deadlines, samples.
 */
import { describe, expect, it } from "vitest";
import type { ConfigOptions } from "../../src/engine/config/config.ts";
import type { FileSimulation } from "../../src/simulation/file_simulation.ts";
import { type SimulateOptions, simulateFile } from "../../src/simulation/simulate_file.ts";
import { INPUT, World } from "../engine/world.ts";

const LATENCY = { p50: 1_000, p90: 3_000, p99: 9_000 };

async function simulated(
  items: number,
  options: SimulateOptions,
  config: ConfigOptions = {},
  model = "openai:gpt-5-mini",
): Promise<FileSimulation> {
  const world = new World({
    config: { providers: { openai: { key: "none" } }, ...config },
    allowsBatches: true,
  });
  world.input(items, model);
  const { engine, core } = await world.opened();
  const said = await simulateFile(core, INPUT, { latency: LATENCY, ...options });
  await world.settle(engine.close());
  return said;
}

function sharesOf({ lanes }: FileSimulation): Readonly<Record<string, number>> {
  return Object.fromEntries(lanes.map(({ lane, items }) => [lane, items]));
}

describe("a simulation of a file", () => {
  it("says the same for the same seed, and something else for another", async () => {
    const [first, again, other] = await Promise.all(
      [1, 1, 2].map((seed) => simulated(800, { seed, seeds: 1, sla: 1_440 })),
    );
    expect(first).toEqual(again);
    expect(other?.seconds).not.toEqual(first?.seconds);
  });

  it("puts work with a day into batches at half the price", async () => {
    const said = await simulated(
      1_000,
      { sla: 1_440 },
      { lanes: { deny: ["flex"], priors: { batch: { p50: 60, p90: 90, p99: 120 } } } },
    );
    expect(sharesOf(said)).toEqual({ batch: 1_000 });
    expect(said.billed_usd.median).toBeCloseTo(said.list_usd / 2, 9);
    expect(said.seconds.low).toBeGreaterThan(20);
    expect(said.at_risk).toBe(0);
  });

  it("puts embeddings into batches that have them, without output, and else into realtime", async () => {
    const model = "openai:text-embedding-3-small";
    const prices = { [model]: { inputUsdPerMillion: 1, outputUsdPerMillion: 1_000 } };
    const of = async (batches: object): Promise<FileSimulation> => {
      const world = new World({
        config: {
          providers: { openai: { key: "none", batches } },
          prices,
          lanes: { priors: { batch: { p50: 60, p90: 90, p99: 120 } } },
        },
        allowsBatches: true,
      });
      const line = JSON.stringify({ key: "k", kind: "embedding", model, input: "a short text" });
      world.disk.put(INPUT, `${line}\n`.repeat(500));
      const { engine, core } = await world.opened();
      const said = await simulateFile(core, INPUT, { latency: LATENCY, sla: 1_440 });
      await world.settle(engine.close());
      return said;
    };
    const batched = await of({});
    expect(sharesOf(batched)).toEqual({ batch: 500 });
    expect(batched.list_usd).toBeLessThan(0.01); // no output, which would cost 256 USD
    expect(batched.billed_usd.median).toBeCloseTo(batched.list_usd / 2, 9);
    expect(sharesOf(await of({ endpoints: ["chat"] }))).toEqual({ realtime: 500 });
  });

  it("leaves a batch that is too slow in time for realtime to answer the rest", async () => {
    const slow = { lanes: { deny: ["flex"], priors: { batch: { p50: 600, p90: 86_400, p99: 864_000 } } } };
    const said = await simulated(1_000, { sla: 60, seeds: 20 }, slow);
    expect(said.at_risk).toBe(0);
    expect(said.seconds.high).toBeLessThan(3_600);
    const { realtime = 0, batch = 0 } = sharesOf(said);
    expect(realtime).toBeGreaterThan(50);
    expect(batch).toBeGreaterThan(200);
    expect(realtime + batch).toBe(1_000);
  });

  it("puts what realtime cannot do by the deadline into batches", async () => {
    const config = { limits: { openai: { requestsPerMinute: 1 } } };
    const day = { sla: 1_440, lanes: { deny: ["flex"] } };
    const said = await simulated(3_000, { ...day, seeds: 5 }, config);
    const { batch = 0 } = sharesOf(said);
    expect(batch).toBeGreaterThan(2_500);
    expect(said.at_risk).toBeLessThan(500); // of 1,560 without batches
  });

  it("puts work into flex where batches are denied, and into realtime where both are", async () => {
    const flex = await simulated(600, { sla: 60, lanes: { deny: ["batch"] } });
    expect(sharesOf(flex)).toEqual({ flex: 600 });
    expect(flex.requests).toBeGreaterThan(600); // some are refused
    expect(flex.billed_usd.median).toBeCloseTo(flex.list_usd / 2, 9);
    expect(sharesOf(await simulated(600, { sla: 60, policy: "fastest" }))).toEqual({ realtime: 600 });
    expect(sharesOf(await simulated(600, {}))).toEqual({ realtime: 600 });
  });

  it("stops where the cap on cost is reached", async () => {
    const whole = await simulated(500, {});
    const capped = await simulated(500, { maxCostUsd: whole.billed_usd.median / 2 });
    expect(capped.billed_usd.high).toBeLessThanOrEqual(whole.billed_usd.median / 2);
    expect(capped.billed_usd.high).toBeGreaterThan((whole.billed_usd.median / 2) * 0.97);
    expect(capped.left_items.median).toBeGreaterThan(240);
    expect(capped.left_items.median).toBeLessThan(260);
  });

  it("counts the tokens of a part of a long file, and says how far that may be off", async () => {
    const said = await simulated(120_000, { seeds: 1 });
    expect(said.items).toBeGreaterThan(119_900);
    expect(said.items).toBeLessThan(120_100);
    expect(said.sampled_share).toBeLessThan(0.5);
    expect(said.sampling_error).toBeLessThan(0.05);
  });
});
