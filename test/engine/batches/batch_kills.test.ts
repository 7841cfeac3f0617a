import { describe, expect, it } from "vitest";
import type { ConfigOptions } from "../../../src/engine/config/config.ts";
import { killTrial, stepTrial } from "./kill_trials.ts";
import { EMBEDDINGS, PRICED_WIRES, WIRES, worldOf } from "./wires.ts";

/** `TEST_LIMIT_SEEDS` draws more. */
const SEEDS = Number(process.env["TEST_LIMIT_SEEDS"] ?? 6);

describe.each([...WIRES, ...PRICED_WIRES])("kills beside batches of $name", (wire) => {
  const seeds = Array.from({ length: SEEDS }, (_, index) => index + 1);
  it.each(seeds)("make one batch of each submission, and bill each item once: seed %i", async (seed) => {
    expect(await killTrial(wire, seed)).toEqual([]);
  });

  it.each([1, 2, 3])("do so for lines with the provider's own body: seed %i", async (seed) => {
    expect(await killTrial(wire, seed, 60, 4, { format: "raw" })).toEqual([]);
  });

  it.each(["before", "after"] as const)("do so exactly %s each write and each call", async (when) => {
    let steps = 0;
    for (let nth = 1; ; nth += 1) {
      const wrong = await stepTrial(wire, nth, when, 20);
      if (wrong === undefined) break;
      expect(wrong).toEqual([]);
      steps = nth;
    }
    expect(steps).toBeGreaterThan(10);
  });
});

describe("kills beside batches of embeddings", () => {
  it.each([1, 2, 3])("make one batch of them, and bill each text once: seed %i", async (seed) => {
    expect(await killTrial(EMBEDDINGS, seed)).toEqual([]);
  });

  it.each(["before", "after"] as const)("do so exactly %s each write and each call", async (when) => {
    let steps = 0;
    for (let nth = 1; ; nth += 1) {
      const wrong = await stepTrial(EMBEDDINGS, nth, when, 20);
      if (wrong === undefined) break;
      expect(wrong).toEqual([]);
      steps = nth;
    }
    expect(steps).toBeGreaterThan(10);
  });
});

describe.each(PRICED_WIRES)("batches of $name", (wire) => {
  it("are made only where the configuration says what they cost", async () => {
    const batchesOf = async (config: ConfigOptions) => {
      const { world, fake } = worldOf(wire, {}, config);
      world.input(100, wire.model);
      expect((await world.run({ sla: 1_440 })).counts.completed).toBe(100);
      return fake.ledger.batches.size;
    };
    const { baseUrl, name } = wire;
    expect(await batchesOf({ providers: { [name]: { baseUrl, key: "sk-a" } } })).toBe(0);
    expect(await batchesOf({})).toBe(1);
  });
});
