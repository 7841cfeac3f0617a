import { describe, expect, it } from "vitest";
import type { QuoteOptions } from "../../../src/engine/runs/quote.ts";
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

  it.each(["upload", "create"])(
    "is answered in realtime where the key may make no batches (%s)",
    async (kind) => {
      const denied = { status: 403, code: "insufficient_permissions", message: "Missing scopes: api.batch" };
      const { world, fake } = openaiWorld({
        faults: (call) => (call.kind === kind ? denied : undefined),
      });
      world.input(50, "openai:gpt-5-mini");
      const summary = await world.run({ sla: 24 * HOUR });
      expect(summary.counts).toMatchObject({ completed: 50 });
      expect(new Set(world.lines().map(({ cost }) => cost?.tier))).toEqual(new Set(["default"]));
      expect(fake.ledger.batches.size).toBe(0);
      expect(world.notices.join()).toContain("no other batch is tried there for some hours");
    },
  );
});

describe("a run whose tier costs as much as batches", () => {
  const tiered = async (flexShedShare: number) => {
    const { world, fake } = openaiWorld({ realtime: { flexShedShare } });
    world.config = {
      providers: { openai: { baseUrl: "https://api.openai.test/v1", key: "sk-a" } },
      lanes: { priors: { batch: { p50: 600, p90: 1_200, p99: 3_600 } } },
    };
    world.input(300, "openai:gpt-5-mini");
    const fromMs = world.clock.nowMs();
    const { counts } = await world.run({ sla: 24 * HOUR });
    expect(counts.completed).toBe(300);
    const tiers = world.lines().map(({ cost }) => cost?.tier);
    const batched = tiers.filter((tier) => tier === "batch").length;
    const flexed = tiers.filter((tier) => tier === "flex").length;
    return { batched, flexed, hours: (world.clock.nowMs() - fromMs) / 3_600_000, fake };
  };

  it("uses the tier while it answers, because it is done earlier", async () => {
    expect(await tiered(0.3)).toMatchObject({ batched: 0, flexed: 300 });
  });

  it("goes with batches where the tier refuses everything, and so does what was tried there", async () => {
    const { batched, flexed } = await tiered(1);
    expect(flexed).toBe(0);
    expect(batched).toBe(300);
  });
});

describe("a run under the policy `balanced`", () => {
  const stalled = { batchFaults: () => ({ isStalled: true as const }) };

  it.each([
    ["balanced", 12],
    ["cheapest", 23],
  ] as const)(
    "sends what batches have not finished in realtime: %s after %i of 24 hours at the latest",
    async (policy, hours) => {
      const { world, fake } = openaiWorld(stalled);
      world.input(300, "openai:gpt-5-mini");
      const fromMs = world.clock.wallMs();
      const { counts } = await world.run({ sla: 24 * HOUR, policy });
      expect(counts.completed).toBe(300);
      expect(fake.ledger.batches.size).toBeGreaterThan(0);
      const passed = (world.clock.wallMs() - fromMs) / 3_600_000;
      expect(passed).toBeGreaterThan(hours - 12);
      expect(passed).toBeLessThan(hours + 1);
    },
  );
});

describe("a quote", () => {
  it("uses the lanes that its call names, and no others", async () => {
    const { world } = openaiWorld();
    world.input(300, "openai:gpt-5-mini");
    const { engine } = await world.opened();
    const billed = async (options: QuoteOptions) => {
      const { slas } = await world.settle(engine.quote("/in.jsonl", { slas: [24 * HOUR], ...options }));
      return slas[0]?.billed_usd ?? 0;
    };
    const cheapest = await billed({});
    const realtime = await billed({ lanes: { deny: ["batch"] } });
    expect(cheapest / realtime).toBeLessThan(0.6); // half, and what batches are expected to leave
    expect(await billed({ policy: "fastest" })).toBe(realtime);
    await expect(billed({ lanes: { deny: ["bath"] } })).rejects.toThrow('"bath"');
    await expect(billed({ minOnTime: 0.2 })).rejects.toThrow("minOnTime");
    await world.settle(engine.close());
  });
});
