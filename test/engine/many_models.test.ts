/**
 * Files in which each line names another model: hundreds of lanes of one provider, each with a shard of one item (I16).
 */
import { afterEach, describe, expect, it, vi } from "vitest";
import { Lane } from "../../src/engine/lane.ts";
import { INPUT, OUTPUT, World } from "./world.ts";

const MODELS = 400;
const eachItsOwn = (line: number): string => `alpha:m${line}`;

afterEach(() => {
  vi.restoreAllMocks();
});

describe("a file of hundreds of models", () => {
  it("has a place that is free wake the lanes whose turn it is, not all that wait for it", async () => {
    const world = new World({ config: { maxInFlight: 4 } });
    world.input(MODELS, eachItsOwn);
    const engine = await world.engine();
    const pumped = vi.spyOn(Lane.prototype, "pump");
    const { counts } = await world.settle(engine.run(INPUT, { out: OUTPUT }).finished);
    expect(counts.completed).toBe(MODELS);
    expect(pumped.mock.calls.length).toBeLessThan(8 * MODELS);
    await world.settle(engine.close());
  });
});
