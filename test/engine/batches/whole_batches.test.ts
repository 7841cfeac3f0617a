import { describe, expect, it } from "vitest";
import type { FakeOpenAiOptions } from "../../batch_servers/openai.ts";
import { FakeOpenAiBatches } from "../../batch_servers/openai.ts";
import { BatchWorld } from "./batch_world.ts";

const HOUR = 60;

function openaiWorld(options: Partial<FakeOpenAiOptions> = {}) {
  let fake: FakeOpenAiBatches | undefined;
  const world = new BatchWorld(
    (nowMs) => {
      fake = new FakeOpenAiBatches({ seed: 1, nowMs, ...options });
      return { "https://api.openai.test": fake };
    },
    {
      providers: { openai: { baseUrl: "https://api.openai.test/v1", key: "sk-a" } },
      lanes: { deny: ["flex"] },
    },
  );
  return { world, fake: fake as unknown as FakeOpenAiBatches };
}

describe("a run whose deadline leaves time for a batch", () => {
  it("is answered by one batch at half of the list price", async () => {
    const { world, fake } = openaiWorld();
    world.input(300, "openai:gpt-5-mini");
    const summary = await world.run({ sla: 24 * HOUR });
    expect(summary.counts).toMatchObject({ completed: 300 });
    const lines = world.lines();
    expect(lines.map(({ key }) => key).sort()).toEqual(
      Array.from({ length: 300 }, (_, i) => `k${i + 1}`).sort(),
    );
    expect(fake.ledger.batches.size).toBe(1);
  });
});
