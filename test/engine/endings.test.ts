/**
 * How runs end early: cancelled in the middle of bad lines, capped without a price.
 */
import { describe, expect, it } from "vitest";
import type { Source } from "../../src/engine/files/input.ts";
import { finish } from "./runs.ts";
import { INPUT, itemLine, mortal, OUTPUT, ok, World, type WorldOptions } from "./world.ts";

describe("a run cancelled while bad lines wait for the disk", () => {
  it.each([1, 5, 20, 40, 80])("answers or cancels every key once, %i ms in", async (afterMs) => {
    const world = new World({ latencyMs: 30, config: { maxInFlight: 4 } });
    const lines = Array.from({ length: 4_000 }, (_, index) =>
      index % 8 === 0 ? itemLine(index + 1) : `{"key":"k${index + 1}","request":{"model":"nobody"}}\n`,
    );
    world.disk.put(INPUT, lines.join(""));
    const engine = await world.engine();
    const run = engine.run(INPUT, { out: OUTPUT });
    await world.settle(run.opened);
    await world.clock.advance(afterMs);
    const sentBefore = world.sent.length;
    run.cancel();
    await world.settle(run.finished);
    const keys = world.output().map((line) => line.key);
    expect(new Set(keys).size).toBe(keys.length);
    expect(keys.length).toBe(4_000);
    expect(world.sent.length - sentBefore).toBeLessThanOrEqual(4);
    await world.settle(engine.close());
  });
});

describe("a run that is cancelled", () => {
  const OPTIONS = { id: "work", out: OUTPUT };
  const OPERATIONS = [1, 3, 6, 12, 30];

  /** Cancels while two requests are in flight, and kills the process so many operations of the disk later. */
  async function cancelledAndKilled(
    source: () => Source,
    count: number,
    operations: number,
    options: WorldOptions = {},
  ): Promise<World> {
    const world = new World({ config: { maxInFlight: 2 }, latencyMs: 50, ...options });
    world.input(count);
    const process = mortal(world.clock);
    const run = (await world.engine(process.clock)).run(source(), OPTIONS);
    await world.clock.advance(70);
    await world.settle(run.cancel());
    world.disk.crashAtOperation(operations, { powerCut: true });
    await world.clock.advance(10);
    process.kill();
    world.kill({ powerCut: true });
    return world;
  }

  it.each(OPERATIONS)(
    "stays so over a kill %i operations later, and sends nothing any more",
    async (after) => {
      const world = await cancelledAndKilled(() => INPUT, 5_000, after);
      const sentBefore = world.sent.length;
      const engine = await world.engine();
      const summary = await world.settle(engine.run(INPUT, OPTIONS).finished);
      expect(world.sent).toHaveLength(sentBefore);
      expect(summary).toMatchObject({ status: "completed", items: 5_000 });
      expect(summary.counts.completed + summary.counts.cancelled).toBe(5_000);
      expect(new Set(world.output().map(({ key }) => key)).size).toBe(5_000);
      expect(world.output()).toHaveLength(5_000);
    },
  );

  it.each([1, 2, 3, 5, 8])("has the lines of its stream so far, also after a kill, %i", async (after) => {
    async function* stream(): AsyncGenerator<Uint8Array> {
      for (let line = 1; line <= 30; line += 1) yield Buffer.from(itemLine(line));
      yield Buffer.from(itemLine(31).slice(0, 20));
      await new Promise(() => undefined);
    }
    const world = await cancelledAndKilled(stream, 1, after);
    const sentBefore = world.sent.length;
    const summary = await world.settle((await world.engine()).run(stream(), OPTIONS).finished);
    expect(world.sent).toHaveLength(sentBefore);
    expect(summary).toMatchObject({ status: "completed", items: 30 });
    expect(world.output()).toHaveLength(30);
  });

  it.each(OPERATIONS)(
    "has a line for each item of an array, whether it had arrived or not, also after a kill, %i",
    async (after) => {
      const items = Array.from({ length: 600 }, (_, index) => ({
        key: `k${index + 1}`,
        model: "alpha:m1",
        input: `[[${index + 1}]]`,
      }));
      const world = await cancelledAndKilled(() => items, 1, after, { diskLatencyMs: 1 });
      const sentBefore = world.sent.length;
      const summary = await world.settle((await world.engine()).run(items, OPTIONS).finished);
      expect(world.sent).toHaveLength(sentBefore);
      expect(summary).toMatchObject({ status: "completed", items: 600 });
      expect(world.output().map(({ key }) => key)).toHaveLength(600);
    },
  );

  it("stays so when it was stopped before, and is cancelled at its next call", async () => {
    const world = new World({ config: { maxInFlight: 2 }, latencyMs: 50 });
    world.input(20);
    const engine = await world.engine();
    const run = engine.run(INPUT, OPTIONS);
    await world.clock.advance(70);
    run.stop();
    await world.settle(run.cancel());
    expect(await world.settle(run.finished)).toMatchObject({ status: "stopped" });
    const sentBefore = world.sent.length;
    const summary = await world.settle(engine.run(INPUT, OPTIONS).finished);
    expect(summary.counts).toMatchObject({ completed: sentBefore, cancelled: 20 - sentBefore });
    expect(world.sent).toHaveLength(sentBefore);
  });

  it("waits for room on the disk to store that", async () => {
    const world = new World({ config: { maxInFlight: 2 }, latencyMs: 50 });
    world.input(20);
    const run = (await world.engine()).run(INPUT, OPTIONS);
    await world.clock.advance(70);
    world.store.failNext("disk_full", 3);
    await world.settle(run.cancel());
    const { completed, cancelled } = (await world.settle(run.finished)).counts;
    expect(completed + cancelled).toBe(20);
    expect(cancelled).toBeGreaterThan(10);
  });

  it("is not cancelled when that cannot be stored", async () => {
    const world = new World({ config: { maxInFlight: 2 }, latencyMs: 50 });
    world.input(20);
    const run = (await world.engine()).run(INPUT, OPTIONS);
    await world.clock.advance(70);
    world.store.failNext("store_failed");
    await expect(world.settle(run.cancel())).rejects.toMatchObject({ code: "store_failed" });
    await expect(world.settle(run.finished)).rejects.toMatchObject({ code: "store_failed" });
    expect(world.output().filter(({ error }) => error !== undefined)).toEqual([]);
    world.kill();
    const again = (await world.engine()).run(INPUT, OPTIONS);
    expect(await world.settle(again.finished)).toMatchObject({ counts: { completed: 20 } });
  });

  it("when it is over already, is what it was", async () => {
    const world = new World();
    world.input(3);
    const run = (await world.engine()).run(INPUT, OPTIONS);
    await world.settle(run.finished);
    await world.settle(run.cancel());
    expect((await world.settle(run.finished)).counts).toMatchObject({ completed: 3, cancelled: 0 });
  });
});

describe("a run that leaves while a request is under way", () => {
  /** The second of three requests is not answered at its first attempt, unless it is waited for longer than any drain. */
  const slow = (): World => {
    const world = new World({
      answer: (line, attempt) =>
        line === 2 && attempt === 1 ? { afterMs: 100_000, result: ok(line) } : ok(line),
    });
    world.input(3);
    return world;
  };
  const underWay = (world: World): number =>
    world.wire.ledger.filter(({ settledMs }) => settledMs === undefined).length;

  it("cuts it when it has waited for it, so that no request for an item is sent beside another", async () => {
    const world = slow();
    const engine = await world.engine();
    const run = engine.run(INPUT, { out: OUTPUT });
    await world.clock.advance(1_000);
    run.stop();
    expect(await world.settle(run.finished)).toMatchObject({ status: "stopped" });
    await world.clock.settle();
    expect(world.clock.nowMs()).toBe(31_000);
    expect(underWay(world)).toBe(0);
    const again = await world.settle(engine.run(INPUT, { out: OUTPUT }).finished);
    expect(again).toMatchObject({ status: "completed", counts: { completed: 3 } });
    expect(world.sent.map(({ line }) => line)).toEqual([1, 2, 3, 2]);
    expect(again.usage.ambiguous_attempts).toBe(1); // nobody knows what became of it
    await world.settle(engine.close());
  });

  it("does not affect the requests of other runs", async () => {
    const world = slow();
    world.input(1, "beta:m1", "/other.jsonl");
    const engine = await world.engine();
    const run = engine.run(INPUT, { out: OUTPUT });
    await world.clock.advance(1_000);
    world.answer = () => ({ afterMs: 60_000, result: ok(1) });
    const other = engine.run("/other.jsonl", { out: "/other.out" });
    await world.clock.advance(1_000);
    expect(underWay(world)).toBe(2);
    run.stop();
    await world.settle(run.finished);
    await world.clock.settle();
    expect(underWay(world)).toBe(1);
    expect(await world.settle(other.finished)).toMatchObject({ counts: { completed: 1 } });
    await world.settle(engine.close());
  });
});

describe("a run that is stopped while a full disk keeps its recorded requests from being sent", () => {
  it("counts only those that were sent, when it is called again", async () => {
    const world = new World({ config: { maxInFlight: 4 }, latencyMs: 50 });
    world.input(12);
    const engine = await world.engine();
    const run = engine.run(INPUT, { out: OUTPUT });
    await world.clock.advance(40);
    world.disk.setFull(0);
    await world.clock.advance(100);
    expect(world.sent).toHaveLength(4); // the next four are recorded, and wait for room
    run.stop();
    world.disk.setFull(Number.POSITIVE_INFINITY);
    const stopped = await world.settle(run.finished);
    expect(stopped).toMatchObject({ status: "stopped", counts: { completed: 4 } });
    const summary = await world.settle(engine.run(INPUT, { out: OUTPUT }).finished);
    expect(summary).toMatchObject({ status: "completed", counts: { completed: 12 } });
    expect(world.sent).toHaveLength(12);
    expect(summary.usage).toMatchObject({ attempts: 12, ambiguous_attempts: 0 });
    await world.settle(engine.close());
  });

  it("sends them under at-most-once delivery, too: nothing about them is in doubt", async () => {
    const world = new World({ config: { maxInFlight: 4, delivery: "at_most_once" }, latencyMs: 50 });
    world.input(12);
    const engine = await world.engine();
    const run = engine.run(INPUT, { out: OUTPUT });
    await world.clock.advance(40);
    world.disk.setFull(0);
    await world.clock.advance(100);
    run.stop();
    world.disk.setFull(Number.POSITIVE_INFINITY);
    await world.settle(run.finished);
    await world.settle(engine.close());
    world.kill();
    const again = await world.engine();
    const summary = await world.settle(again.run(INPUT, { out: OUTPUT }).finished);
    expect(summary).toMatchObject({ status: "completed", counts: { completed: 12 } });
    await world.settle(again.close());
  });
});

describe("a cost cap and a model without a known price", () => {
  it("holds the items unsent, because nothing bounds what they cost", async () => {
    const world = new World();
    world.input(3);
    const engine = await world.engine();
    const summary = await world.settle(engine.run(INPUT, { out: OUTPUT, maxCostUsd: 1 }).finished);
    expect(summary).toMatchObject({ status: "paused", reason: "price_unknown", counts: { submitted: 3 } });
    expect(summary.held).toMatchObject([
      { reason: "price_unknown", provider: "alpha", model: "alpha:m1", items: 3 },
    ]);
    expect(world.sent).toEqual([]);
    await world.settle(engine.close());
  });
});

describe("a file that names thousands of models", () => {
  it("is answered, model by model", { timeout: 120_000 }, async () => {
    const world = new World();
    world.input(1_500, (line) => `alpha:model-${line}x`);
    const engine = await world.engine();
    const summary = await world.settle(engine.run(INPUT, { out: OUTPUT }).finished);
    expect(summary.counts.completed).toBe(1_500);
    await world.settle(engine.close());
  });
});

describe("an array file that changes between two calls", () => {
  it("is refused, although a copy of it was made", async () => {
    const world = new World();
    const array = (keys: readonly string[]): string =>
      `[${keys.map((key, index) => itemLine(index + 1, "alpha:m1", key)).join(",")}]`;
    world.disk.put("/in.json", array(["a", "b"]));
    const engine = await world.engine();
    const run = engine.run("/in.json", { out: OUTPUT });
    await world.settle(run.finished);
    await world.clock.advance(5_000);
    world.disk.put("/in.json", array(["a", "changed", "c"]));
    const again = engine.run("/in.json", { out: OUTPUT });
    await expect(world.settle(again.finished)).rejects.toMatchObject({ code: "input_changed" });
    await world.settle(engine.close());
  });
});

describe("a stream that is continued", () => {
  it("knows the keys that it answered before: the later one gets the error", async () => {
    const world = new World();
    const lines = (count: number): string[] =>
      Array.from({ length: count }, (_, index) => itemLine(index + 1));
    async function* source(
      texts: readonly string[],
      stopAfter = Number.POSITIVE_INFINITY,
    ): AsyncGenerator<Uint8Array> {
      for (const [index, text] of texts.entries()) {
        if (index >= stopAfter) await new Promise(() => undefined);
        yield Buffer.from(text);
      }
    }
    const engine = await world.engine();
    const first = engine.run(source(lines(600), 590), { id: "s", out: OUTPUT });
    await world.settle(first.opened);
    await world.clock.advance(2_000);
    first.stop();
    await world.settle(first.finished).catch(() => undefined);
    const again = engine.run(source([...lines(600), itemLine(601, "alpha:m1", "k3")]), {
      id: "s",
      out: OUTPUT,
    });
    await world.settle(again.finished);
    const answers = world.output().filter((line) => line.key === "k3");
    expect(answers.map((line) => line.error?.code ?? "answered").sort()).toEqual([
      "answered",
      "duplicate_key",
    ]);
    await world.settle(engine.close());
  });
});

describe("thoughts of an answer that never arrived", () => {
  it("are in the line's error", async () => {
    const world = new World();
    world.input(1);
    const message = { content: "", reasoning_content: "so much to think about" };
    const usage = { prompt_tokens: 5, completion_tokens: 64 };
    const body = JSON.stringify({ choices: [{ finish_reason: "length", message }], usage });
    world.answer = () => ({ ok: true, status: 200, headers: {}, body: new TextEncoder().encode(body) });
    await finish(world);
    expect(world.output()[0]).toMatchObject({
      output: null,
      error: { code: "empty_output", reasoning: "so much to think about" },
    });
  });
});

it("Holds are separate for each provider up to a bound, beyond which they count together", async () => {
  const world = new World();
  world.input(150, (line) => `nobody${line}:m1`);
  const summary = await world.settle((await world.engine()).run(INPUT, { out: OUTPUT }).finished);
  const held = summary.held ?? [];
  expect(held).toHaveLength(101);
  expect(held[0]).toMatchObject({ reason: "provider_missing", provider: "nobody1", items: 1 });
  expect(held.at(-1)).toMatchObject({ reason: "provider_missing", items: 50 });
  expect(held.at(-1)).not.toHaveProperty("provider");
});
