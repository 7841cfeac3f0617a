/**
 * What `perigee simulate` says, against runs of the engine itself in virtual time, at the same limits and latencies.
 */
import { describe, expect, it } from "vitest";
import type { WireResult } from "../../src/dispatch/transport.ts";
import type { ConfigOptions } from "../../src/engine/config/config.ts";
import type { FileSimulation } from "../../src/simulation/file_simulation.ts";
import { type SimulateOptions, simulateFile } from "../../src/simulation/simulate_file.ts";
import { openaiAnswer } from "../../src/testing/index.ts";
import { finish } from "../engine/runs.ts";
import { INPUT, OUTPUT, ok, World } from "../engine/world.ts";

interface Trial {
  readonly name: string;
  readonly items: number;
  readonly latencyMs: number;
  readonly config: ConfigOptions;
  readonly model?: (line: number) => string;
}

const prices = { "alpha:*": { inputUsdPerMillion: 1, outputUsdPerMillion: 2 } };

/** The prompts count 15 tokens. */
const answer = (line: number): WireResult =>
  openaiAnswer(`answer ${line}`, { inputTokens: 15, outputTokens: 5 });

/** What the engine takes, and what the simulation says of it. */
async function both(
  trial: Trial,
  sla?: number,
): Promise<{ realMs: number; realUsd: number; said: FileSimulation }> {
  const { items, latencyMs, config, model } = trial;
  const world = new World({ config: { prices, ...config }, latencyMs, answer });
  world.input(items, model);
  const summary = await finish(world, { out: OUTPUT, ...(sla === undefined ? {} : { sla }) });
  const said = await simulation(world, config, {
    sla,
    latency: { p50: latencyMs, p90: latencyMs, p99: latencyMs },
    outputTokens: 5,
  });
  return { realMs: world.clock.nowMs(), realUsd: summary.cost.billed_usd, said };
}

/** In an engine that has learnt nothing. */
async function simulation(
  world: World,
  config: ConfigOptions,
  options: SimulateOptions,
): Promise<FileSimulation> {
  const fresh = new World({ config: { prices, ...config } });
  fresh.disk.put(INPUT, world.disk.text(INPUT) ?? "");
  const { engine, core } = await fresh.opened();
  const said = await simulateFile(core, INPUT, { ...options, seeds: 1 });
  await fresh.settle(engine.close());
  return said;
}

describe("a simulation of a file", () => {
  it.each<Trial>([
    { name: "places in flight", items: 1_500, latencyMs: 2_000, config: { maxInFlight: 40 } },
    { name: "places that grow from 64", items: 3_000, latencyMs: 2_500, config: {} },
    {
      name: "requests a minute",
      items: 2_000,
      latencyMs: 800,
      config: { limits: { alpha: { requestsPerMinute: 600 } } },
    },
    {
      name: "tokens a minute",
      items: 1_500,
      latencyMs: 500,
      config: { limits: { "alpha:m1": { tokensPerMinute: 9_000 } } },
    },
    {
      name: "two models that share a limit",
      items: 1_200,
      latencyMs: 500,
      config: { limits: { alpha: { requestsPerMinute: 400 } } },
      model: (line) => (line % 3 === 0 ? "alpha:m2" : "alpha:m1"),
    },
  ])("takes as long as the engine bound by $name, within 5 %", async (trial) => {
    const { realMs, realUsd, said } = await both(trial);
    expect(said.items).toBe(trial.items);
    expect(said.seconds.median).toBeGreaterThan((realMs / 1_000) * 0.95);
    expect(said.seconds.median).toBeLessThan((realMs / 1_000) * 1.05);
    expect(said.billed_usd.median).toBeGreaterThan(realUsd * 0.95);
    expect(said.billed_usd.median).toBeLessThan(realUsd * 1.05);
  });

  it("misses as many deadlines as the engine where the limits leave no time", async () => {
    const config = { limits: { alpha: { requestsPerMinute: 300 } } };
    const trial = { name: "", items: 1_000, latencyMs: 500, config };
    const world = new World({ config, latencyMs: 500, answer: ok });
    world.input(trial.items);
    const { counts } = await finish(world, { out: OUTPUT, sla: 2 });
    const said = await simulation(world, config, {
      sla: 2,
      latency: { p50: 500, p90: 500, p99: 500 },
      outputTokens: 5,
    });
    const missed = trial.items - counts.completed;
    expect(said.at_risk).toBe(1);
    expect(missed).toBeGreaterThan(300);
    expect(Math.abs(said.missed_items.median - missed)).toBeLessThan(trial.items * 0.05);
  });
});
