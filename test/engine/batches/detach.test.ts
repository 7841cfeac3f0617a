import { describe, expect, it } from "vitest";
import { FakeOpenAiBatches } from "../../batch_servers/openai.ts";
import { BatchWorld } from "./batch_world.ts";

const HOUR = 60;
const INPUT = "/in.jsonl";
const OUTPUT = "/out.jsonl";

function openaiWorld(config: object = {}) {
  let fake: FakeOpenAiBatches | undefined;
  const world = new BatchWorld(
    (nowMs) => {
      fake = new FakeOpenAiBatches({ seed: 1, nowMs });
      return { "https://api.openai.test": fake };
    },
    {
      providers: { openai: { baseUrl: "https://api.openai.test/v1", key: "sk-a" } },
      lanes: { deny: ["flex"] },
      ...config,
    },
  );
  return { world, fake: fake as unknown as FakeOpenAiBatches };
}

/** The summary of one call, and how long it took in the world's time. */
async function call(world: BatchWorld, options: object) {
  const { engine } = await world.opened();
  const startedMs = world.clock.nowMs();
  const summary = await world.settle(engine.run(INPUT, { out: OUTPUT, ...options }).finished);
  const tookMs = world.clock.nowMs() - startedMs;
  await world.settle(engine.close());
  return { summary, tookMs };
}

describe("a run with detach", () => {
  it("ends when its batches exist at the provider, leaves no output, and a later call collects them", async () => {
    const { world, fake } = openaiWorld();
    world.input(300, "openai:gpt-5-mini");
    const { summary, tookMs } = await call(world, { sla: 24 * HOUR, detach: true });
    expect(summary).toMatchObject({ status: "detached", counts: { submitted: 300, completed: 0 } });
    const { batches = [] } = summary;
    expect(batches.map(({ id }) => id).sort()).toEqual([...fake.ledger.batches.keys()].sort());
    expect(batches.reduce((sum, { items }) => sum + items, 0)).toBe(300);
    expect(batches[0]).toMatchObject({
      ...{ provider: "openai", model: "openai:gpt-5-mini", state: "running" },
      created_at: expect.stringMatching(/^2026-11-01T00:00:0/),
      deadline: expect.stringMatching(/^2026-11-02T00:00:0/),
    });
    expect(tookMs).toBeLessThan(60_000);
    expect(world.disk.text(OUTPUT)).toBeUndefined();
    const later = await call(world, { sla: 24 * HOUR });
    expect(later.summary).toMatchObject({ status: "completed", counts: { completed: 300 } });
    expect(new Set(world.lines().map(({ key }) => key)).size).toBe(300);
    expect(fake.ledger.batches.size).toBe(batches.length);
  });

  it("detaches again while its batch is at work, and completes when it has ended", async () => {
    const { world } = openaiWorld();
    world.input(300, "openai:gpt-5-mini");
    await call(world, { sla: 24 * HOUR, detach: true });
    expect((await call(world, { sla: 24 * HOUR, detach: true })).summary.status).toBe("detached");
    await world.clock.advance(12 * 3_600_000);
    expect((await call(world, { sla: 24 * HOUR, detach: true })).summary.status).toBe("completed");
  });

  it("answers in realtime what has no time for a batch, and then completes", async () => {
    const { world, fake } = openaiWorld();
    world.input(20, "openai:gpt-5-mini");
    const { summary } = await call(world, { detach: true });
    expect(summary).toMatchObject({ status: "completed", counts: { completed: 20 } });
    expect(fake.ledger.batches.size).toBe(0);
  });

  it("ends as paused, and names its batches, where the rest is held by what only the caller can change", async () => {
    const { world, fake } = openaiWorld();
    world.input(300, "openai:gpt-5-mini");
    const line = { key: "other", request: { model: "groq:llama", contents: [{ parts: [{ text: "x" }] }] } };
    world.disk.put(INPUT, `${world.disk.text(INPUT)}${JSON.stringify(line)}\n`);
    const { summary, tookMs } = await call(world, { sla: 24 * HOUR, detach: true });
    expect(summary).toMatchObject({ status: "paused", reason: "key_missing", counts: { submitted: 301 } });
    expect(summary.batches).toHaveLength(fake.ledger.batches.size);
    expect(tookMs).toBeLessThan(60_000);
  });

  it("is refused together with finish", async () => {
    const { world } = openaiWorld();
    world.input(1, "openai:gpt-5-mini");
    await expect(call(world, { detach: true, finish: true })).rejects.toThrow(/detach leaves items/);
  });
});

describe("a run that is stopped", () => {
  it("cancels nothing, and names the batches that it leaves", async () => {
    const { world, fake } = openaiWorld();
    world.input(300, "openai:gpt-5-mini");
    const { engine } = await world.opened();
    const run = engine.run(INPUT, { out: OUTPUT, sla: 24 * HOUR });
    await world.clock.advance(60_000);
    run.stop();
    const summary = await world.settle(run.finished);
    await world.settle(engine.close());
    expect(summary).toMatchObject({ status: "stopped", reason: "interrupted", counts: { submitted: 300 } });
    const count = fake.ledger.batches.size;
    expect(summary.batches).toHaveLength(count);
    expect((await call(world, { sla: 24 * HOUR })).summary.counts.completed).toBe(300);
    expect(fake.ledger.batches.size).toBe(count);
  });
});

describe("a run whose key was changed", () => {
  it("pauses at once, polls nothing with the other key, and goes on with the first one", async () => {
    const { world } = openaiWorld();
    world.input(300, "openai:gpt-5-mini");
    await call(world, { sla: 24 * HOUR, detach: true });
    const config = (key: string) => ({
      providers: { openai: { baseUrl: "https://api.openai.test/v1", key } },
      lanes: { deny: ["flex"] },
    });
    world.config = config("sk-b");
    const { summary, tookMs } = await call(world, { sla: 24 * HOUR });
    expect(summary).toMatchObject({ status: "paused", reason: "key_changed", counts: { failed: 0 } });
    expect(tookMs).toBeLessThan(10_000);
    world.config = config("sk-a");
    expect((await call(world, { sla: 24 * HOUR })).summary.counts.completed).toBe(300);
  });

  it("pauses when it is cancelled with the other key, and is cancelled with the first one", async () => {
    const { world, fake } = openaiWorld();
    world.input(300, "openai:gpt-5-mini");
    await call(world, { sla: 24 * HOUR, detach: true });
    world.config = openaiConfig("sk-b");
    const { engine } = await world.opened();
    const run = engine.run(INPUT, { out: OUTPUT, sla: 24 * HOUR });
    void run.cancel();
    const paused = await world.settle(run.finished);
    await world.settle(engine.close());
    expect(paused).toMatchObject({
      ...{ status: "paused", reason: "key_changed", held: [{ reason: "key_changed", items: 300 }] },
      counts: { submitted: 300, cancelled: 0 },
    });
    expect(fake.ledger.keptBatches).toHaveLength(1);
    world.config = openaiConfig("sk-a");
    const { summary } = await call(world, { sla: 24 * HOUR });
    expect(summary.counts.completed + summary.counts.cancelled).toBe(300);
  });

  it("pauses at its deadline, and keeps what the batch has answered when the first key is back", async () => {
    const { world } = openaiWorld();
    world.input(300, "openai:gpt-5-mini");
    await call(world, { sla: 24 * HOUR, detach: true });
    await world.clock.advance(25 * HOUR * 60_000);
    world.config = openaiConfig("sk-b");
    const { engine } = await world.opened();
    const run = engine.run(INPUT, { out: OUTPUT, sla: 24 * HOUR });
    const paused = await world.settle(run.finished);
    await world.settle(engine.close());
    expect(paused).toMatchObject({ status: "paused", reason: "key_changed", counts: { expired: 0 } });
    world.config = openaiConfig("sk-a");
    expect((await call(world, { sla: 24 * HOUR })).summary.counts.completed).toBe(300);
  });
});

describe("a cap that runs share", () => {
  it.each(["one process", "a process for each run"])(
    "counts what a detached run may still be billed: %s",
    async (kind) => {
      const { world, fake } = openaiWorld();
      world.input(300, "openai:gpt-5-mini");
      let { engine } = await world.opened();
      const run = async (out: string, options: object) => {
        const summary = await world.settle(engine.run(INPUT, { out, sla: 24 * HOUR, ...options }).finished);
        if (kind === "one process") return summary;
        await world.settle(engine.close());
        ({ engine } = await world.opened());
        return summary;
      };
      // 300 items are at most 0.0206 USD in a batch: enough for one run, and not for two
      const cap = { name: "shared", usd: 0.025 };
      expect(await run(OUTPUT, { cap, detach: true })).toMatchObject({ status: "detached" });
      const second = await run("/other.jsonl", { cap, detach: true, waitMs: 0 });
      expect(second).toMatchObject({ status: "paused", reason: "cap_reached" });
      const collected = await run(OUTPUT, { cap });
      expect(collected).toMatchObject({ counts: { completed: 300 }, cost: { ambiguous_usd: 0 } });
      await world.settle(engine.close());
      expect(collected.cost.billed_usd + second.cost.billed_usd).toBeLessThanOrEqual(cap.usd);
      expect(fake.ledger.sums().nanoUsd).toBeGreaterThan(0);
    },
  );
});

function openaiConfig(key: string) {
  return {
    providers: { openai: { baseUrl: "https://api.openai.test/v1", key } },
    lanes: { deny: ["flex"] },
  };
}
