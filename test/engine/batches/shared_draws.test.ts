/** Engines that share the limits of a provider and have work with its batches: each must leave them so early that realtime can do what all of them have left. */
import { describe, expect, it } from "vitest";
import { FakeClock } from "../../../src/testing/index.ts";
import { FakeOpenAiBatches } from "../../batch_servers/openai.ts";
import { MemoryPool } from "../memory_pool.ts";
import { BatchWorld } from "./batch_world.ts";

const RATE = 2;

/** Completed items of each engine: both have as many, under one limit, with batches that never end. */
async function completedOf(count: number, items: number, sla: number): Promise<number[]> {
  const clock = new FakeClock({ wallMs: Date.UTC(2026, 10, 1) });
  const limitPool = new MemoryPool(clock);
  const worlds = Array.from(
    { length: count },
    (_, index) =>
      new BatchWorld(
        (nowMs) => ({
          "https://api.openai.test": new FakeOpenAiBatches({
            ...{ seed: index + 1, nowMs, realtime: { requestsPerMinute: RATE } },
            batchFaults: () => ({ isStalled: true }),
          }),
        }),
        {
          providers: { openai: { baseUrl: "https://api.openai.test/v1", key: "sk-a" } },
          limits: { openai: { requestsPerMinute: RATE } },
          lanes: { deny: ["flex"] },
        },
        { clock, limitPool },
      ),
  );
  const runs = [];
  for (const world of worlds) {
    world.input(items, "openai:gpt-5-mini");
    const { engine } = await world.opened();
    runs.push(engine.run("/in.jsonl", { out: "/out.jsonl", sla }).finished);
  }
  const summaries = await clock.runUntilSettled(Promise.all(runs));
  for (const world of worlds) {
    const tiers = world.lines().map(({ cost }) => cost?.tier);
    expect(tiers.filter((tier) => tier === "batch")).toEqual([]);
  }
  return summaries.map(({ counts }) => counts.completed);
}

describe("batches of engines that share a limit", () => {
  it.each([1, 3])("are left in time for all when they never end: %i engines", async (count) => {
    expect(await completedOf(count, 300, 12 * 60)).toEqual(Array.from({ length: count }, () => 300));
  });
});
