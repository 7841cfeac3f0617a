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
  it("are left in time when they never end, by one engine alone", async () => {
    expect(await completedOf(1, 300, 12 * 60)).toEqual([300]);
  });

  it("are left so early by three engines that realtime can do at least nine tenths of what all have left, of which each alone would do a third", async () => {
    const completed = await completedOf(3, 300, 12 * 60);
    expect(completed.reduce((sum, each) => sum + each, 0)).toBeGreaterThan(0.9 * 900);
  });
});
