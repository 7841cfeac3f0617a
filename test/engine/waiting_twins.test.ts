/** Lines that wait for the answer to another line with the same request: whatever becomes of that one, each of them ends once, and none is lost. */
import { describe, expect, it } from "vitest";
import { FakeOpenAiBatches } from "../batch_servers/openai.ts";
import { BatchWorld } from "./batches/batch_world.ts";
import { CachedWorld, cacheInMemory, type Line } from "./cached_world.ts";
import { INPUT, OUTPUT, ok, status } from "./world.ts";

const PRICES = { "alpha:*": { inputUsdPerMillion: 1_000, outputUsdPerMillion: 5_000, asOf: "2026-11-01" } };
const LIMITED = { temperature: 0, max_tokens: 5 };

function ends(lines: readonly Line[]): readonly unknown[] {
  return lines.map(({ cached, error, output }) => cached ?? error?.code ?? output?.text);
}

describe("a line that others wait for", () => {
  it("is held by a cap with them, and answers them when the same run goes on with more", async () => {
    const world = new CachedWorld({ config: { prices: PRICES } });
    world.write([1, 2, 1, 1], LIMITED);
    const first = await world.run("held", { maxCostUsd: 1e-6 });
    expect(first.summary).toMatchObject({
      status: "paused",
      reason: "cap_reached",
      counts: { submitted: 4 },
    });
    expect(world.sent.length).toBe(0);
    const second = await world.run("held", { maxCostUsd: 10 });
    expect(second.summary).toMatchObject({ status: "completed", requests_sent: 2 });
    expect(ends(second.lines)).toEqual(["answer 1", "answer 2", true, true]);
  });

  it("is held by an unknown price with them, and all of them end with that where the run is to finish", async () => {
    const world = new CachedWorld();
    world.write([1, 1, 1], LIMITED);
    const { summary, lines } = await world.run("unknown", { maxCostUsd: 1, finish: true });
    expect(summary).toMatchObject({ status: "completed", counts: { failed: 3 } });
    expect(new Set(ends(lines))).toEqual(new Set(["price_unknown"]));
    expect(world.sent.length).toBe(0);
  });

  it("is held by an account with them, and answers them when the account works again", async () => {
    const world = new CachedWorld({ answer: () => status(401) });
    world.write([1, 1, 1]);
    const first = await world.run("paused", { waitMs: 0 });
    expect(first.summary).toMatchObject({ status: "paused", counts: { submitted: 3 } });
    world.answer = () => ok(1);
    const second = await world.run("paused");
    expect(second.summary.status).toBe("completed");
    expect(ends(second.lines).filter((end) => end === true).length).toBe(2);
  });

  it("is cancelled by itself, and the next of them is asked in its place", async () => {
    const world = new CachedWorld();
    world.write([1, 1, 1]);
    const { lines } = await world.run("skipped", { skip: (line) => line === 1 });
    expect(ends(lines)).toEqual(["cancelled", "answer 1", true]);
    expect(world.sent.length).toBe(1);
  });

  it("never answers before the deadline, and all of them expire with it", async () => {
    const world = new CachedWorld({ answer: () => "hang" });
    world.write([1, 1, 1]);
    const { summary, lines } = await world.run("late", { sla: 1 });
    expect(summary.status).toBe("completed");
    expect(lines.length).toBe(3);
    expect(new Set(ends(lines))).toEqual(new Set(["expired"]));
  });

  it("is under way when its run is cancelled, and they are cancelled at once", async () => {
    const world = new CachedWorld({ latencyMs: 1_000 });
    world.write([1, 1, 1]);
    const engine = await world.engine();
    const run = engine.run(INPUT, { out: OUTPUT, cache: { dir: "/cache" } });
    await world.clock.advance(200);
    await world.settle(run.cancel());
    await world.settle(run.finished);
    await world.settle(engine.close());
    expect([...ends(world.output() as unknown as Line[])].sort()).toEqual([
      "answer 1",
      "cancelled",
      "cancelled",
    ]);
  });

  it("was answered just before a kill, and they are answered with that and not asked", async () => {
    const world = new CachedWorld({ commitMs: 50 });
    world.write([1, 1, 1, 1]);
    const options = { out: OUTPUT, cache: { dir: "/cache" } };
    (await world.engine()).run(INPUT, options);
    while (world.cache.kept.size === 0) await world.clock.advance(1); // the others are not durable yet
    world.kill();
    const engine = await world.engine();
    const summary = await world.settle(engine.run(INPUT, options).finished);
    expect(summary).toMatchObject({ status: "completed", cached: 3, counts: { completed: 4 } });
    expect(world.output().length).toBe(4);
    expect(world.sent.length).toBe(1);
  });

  it("is in a batch of a run that was left, and answers them when the batch is collected", async () => {
    const fake: { server?: FakeOpenAiBatches } = {};
    const world = new BatchWorld(
      (nowMs) => {
        fake.server = new FakeOpenAiBatches({ seed: 1, nowMs });
        return { "https://api.openai.test": fake.server };
      },
      {
        providers: { openai: { baseUrl: "https://api.openai.test/v1", key: "sk-a" } },
        lanes: { deny: ["flex"] },
      },
    );
    world.openAnswers = cacheInMemory().open;
    world.input(600, "openai:gpt-5-mini", (line) => `prompt ${line % 300}`);
    const options = { sla: 24 * 60, cache: { dir: "/cache" }, coalesce: true };
    const first = await world.run({ ...options, detach: true });
    expect(first).toMatchObject({ status: "detached", counts: { submitted: 600 } });
    const second = await world.run(options);
    expect(second).toMatchObject({ status: "completed", cached: 300, counts: { completed: 600 } });
    expect(new Set(world.lines().map(({ key }) => key)).size).toBe(600);
    const { engine } = await world.opened();
    const third = await world.settle(engine.run(INPUT, { ...options, out: "/other.jsonl" }).finished);
    await world.settle(engine.close());
    expect(third).toMatchObject({ cached: 600, requests_sent: 0 });
  });
});

describe("a line that is answered from the cache", () => {
  it("ends once, also when the deadline passes before that is durable", async () => {
    const world = new CachedWorld();
    world.write([1, 2, 3]);
    await world.run("first");
    const slow = new CachedWorld({ commitMs: 500 });
    slow.openAnswers = async (options) => {
      const cache = await world.cache.open(options);
      const find: typeof cache.find = (...wanted) =>
        slow.clock.sleep(59_800 - slow.clock.nowMs()).then(() => cache.find(...wanted)); // the sla is a minute
      return { ...cache, find };
    };
    slow.write([1, 2, 3, 4]); // the last one is not answered in time
    const { summary, lines } = await slow.run("late", { sla: 1 });
    expect(lines.map(({ key }) => key)).toEqual(["k1", "k2", "k3", "k4"]);
    expect(summary).toMatchObject({ cached: 3, counts: { completed: 3, expired: 1 } });
  });
});
