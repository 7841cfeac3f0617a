/**
 * Runs that wait for their own money, and the others beside them.
 */
import { describe, expect, it } from "vitest";
import { INPUT, itemLine, OUTPUT, ok, status, World } from "./world.ts";

/** An item of the world takes 0.035 USD, and up to 0.13 USD are held for it. */
const PRICES = { prices: { "alpha:*": { inputUsdPerMillion: 1_000, outputUsdPerMillion: 5_000 } } };

function lines(first: number, count: number): string {
  return Array.from({ length: count }, (_, index) => itemLine(first + index)).join("");
}

/** Answers the lines from 1,000 on at once, and the first ones slowly. */
function worldWith(slowLines: number): World {
  return new World({
    config: PRICES,
    answer: (line) => ({ afterMs: line <= slowLines ? 100_000 : 10, result: ok(line) }),
  });
}

describe("a run that waits for its own money", () => {
  it.each([
    ["a few items", 5],
    ["more items than a lane keeps open", 3_000],
  ])("and has %s holds up no other run of its lane", async (_, count) => {
    const world = worldWith(1);
    world.input(count, "alpha:m1", "/capped.jsonl");
    world.disk.put(INPUT, lines(10_001, 20));
    world.disk.put("/rich.jsonl", lines(20_001, 20));
    const engine = await world.engine();
    const capped = engine.run("/capped.jsonl", { out: "/capped.out", maxCostUsd: 0.2 });
    await world.clock.advance(1_000);
    expect(world.sent).toHaveLength(1);
    const free = engine.run(INPUT, { out: OUTPUT });
    const rich = engine.run("/rich.jsonl", { out: "/rich.out", maxCostUsd: 100 });
    expect(await world.settle(free.finished)).toMatchObject({ counts: { completed: 20 } });
    expect(await world.settle(rich.finished)).toMatchObject({ counts: { completed: 20 } });
    expect(world.clock.nowMs()).toBeLessThan(10_000);
    const summary = await world.settle(capped.finished);
    expect(world.clock.nowMs()).toBeLessThan(110_000);
    expect(summary.counts.completed).toBeGreaterThanOrEqual(2);
    expect(summary).toMatchObject({ status: "paused", reason: "cap_reached", counts: { failed: 0 } });
    expect(summary.counts.completed + summary.counts.submitted).toBe(count);
    expect(summary.cost.list_usd).toBeLessThanOrEqual(0.2);
  });

  it("for another attempt holds up no other run either", async () => {
    const world = new World({
      config: PRICES,
      answer: (line, attempt) => {
        if (line === 2 && attempt === 1) return status(503);
        return { afterMs: line <= 3 ? 100_000 : 10, result: ok(line) };
      },
    });
    world.input(3, "alpha:m1", "/capped.jsonl");
    world.disk.put(INPUT, lines(10_001, 20));
    const engine = await world.engine();
    const capped = engine.run("/capped.jsonl", { out: "/capped.out", maxCostUsd: 0.3 });
    await world.clock.advance(5_000);
    expect(world.sent.map(({ line }) => line)).toEqual([1, 2, 3]);
    const free = engine.run(INPUT, { out: OUTPUT });
    expect(await world.settle(free.finished)).toMatchObject({ counts: { completed: 20 } });
    expect(world.clock.nowMs()).toBeLessThan(10_000);
    expect(await world.settle(capped.finished)).toMatchObject({
      counts: { completed: 3 },
      usage: { attempts: 4 },
    });
  });

  it("goes on before the others once its money is back", async () => {
    const world = new World({
      config: { ...PRICES, maxInFlight: 2 },
      answer: (line) => ({ afterMs: line === 1 ? 100_000 : 5_000, result: ok(line) }),
    });
    world.input(2, "alpha:m1", "/capped.jsonl");
    world.disk.put(INPUT, lines(10_001, 100));
    const engine = await world.engine();
    const capped = engine.run("/capped.jsonl", { out: "/capped.out", maxCostUsd: 0.2 });
    await world.clock.advance(1_000);
    const free = engine.run(INPUT, { out: OUTPUT });
    await world.settle(capped.finished);
    const [second] = world.sent.filter(({ line }) => line === 2);
    expect(second?.atMs).toBeGreaterThanOrEqual(100_000);
    expect(second?.atMs).toBeLessThan(106_000);
    expect(await world.settle(free.finished)).toMatchObject({ counts: { completed: 100 } });
  });
});

describe("two models that share the one place of their provider, and a cap with another provider", () => {
  it("end, when one of them leaves its turn because no money is left for it", async () => {
    const prices = { inputUsdPerMillion: 1_000, outputUsdPerMillion: 5_000 };
    const world = new World({
      config: { limits: { alpha: { concurrency: 1 } }, prices: { "alpha:*": prices, "beta:*": prices } },
      latencyMs: 2_000,
      commitMs: 5,
      answer: (line, attempt) => (attempt === 1 && [2, 5, 6].includes(line) ? status(500) : ok(line)),
    });
    const models = ["alpha:m2", "beta:m1", "alpha:m1", "alpha:m2", "beta:m1", "alpha:m1"];
    const tokens = [16, 64, 32, 32, 16, 64];
    const lines = models.map((model, index) =>
      itemLine(index + 1, model).replace('tokens":16', `tokens":${tokens[index]}`),
    );
    world.disk.put(INPUT, lines.join(""));
    const engine = await world.engine();
    const run = engine.run(INPUT, { out: OUTPUT, maxCostUsd: 0.32 });
    const { counts } = await world.settle(run.finished);
    expect(counts.completed + counts.failed + counts.submitted).toBe(6);
  });
});

describe("two projects whose models share the one place of their provider, one of them under a cap", () => {
  const prices = { inputUsdPerMillion: 1_000, outputUsdPerMillion: 5_000 };

  interface Given {
    /** Of the capped lines, from 1 on. */
    readonly capped: readonly string[];
    /** Of the others, from 101 on. */
    readonly free: readonly string[];
    /** Capped lines that fail once. */
    readonly failsOnce: number;
    /** A capped line that may cost more than the cap. */
    readonly tooDear?: number;
  }

  async function finished({ capped, free, failsOnce, tooDear }: Given) {
    const world = new World({
      config: { limits: { alpha: { concurrency: 1 } }, prices: { "alpha:*": prices, "beta:*": prices } },
      latencyMs: 2_000,
      answer: (line, attempt) => (attempt === 1 && line === failsOnce ? status(500) : ok(line)),
    });
    const cappedLines = capped.map((model, index) => {
      const line = itemLine(index + 1, model);
      return index + 1 === tooDear ? line.replace('tokens":16', 'tokens":200') : line;
    });
    world.disk.put("/capped.jsonl", cappedLines.join(""));
    world.disk.put("/free.jsonl", free.map((model, index) => itemLine(101 + index, model)).join(""));
    const engine = await world.engine();
    const runs = [
      engine.run("/free.jsonl", { out: "/free.out", project: "free" }),
      engine.run("/capped.jsonl", { out: "/capped.out", project: "capped", maxCostUsd: 0.3 }),
    ];
    return world.settle(Promise.all(runs.map((run) => run.finished)));
  }

  it("end, when a lane's turn leads only to items that the cap holds", async () => {
    const [free, capped] = await finished({
      capped: ["alpha:m2", "beta:m1", "beta:m1", "alpha:m1", "beta:m1"],
      free: ["alpha:m2", "alpha:m1", "alpha:m1", "alpha:m2", "alpha:m2", "alpha:m1", "alpha:m2"],
      failsOnce: 3,
    });
    expect(free).toMatchObject({ status: "completed", counts: { completed: 7 } });
    expect(capped).toMatchObject({ status: "paused", reason: "cap_reached" });
  });

  it("end, when the cap holds the last item of a lane while another one waits for its next attempt", async () => {
    const [free, capped] = await finished({
      capped: ["alpha:m3", "alpha:m3", "alpha:m2"],
      free: ["alpha:m1", "alpha:m2"],
      failsOnce: 1,
      tooDear: 2,
    });
    expect(free).toMatchObject({ status: "completed", counts: { completed: 2 } });
    expect(capped).toMatchObject({ reason: "cap_reached", counts: { failed: 0, submitted: 1 } });
  });
});

describe("money of what was not sent", () => {
  it.each([
    ["a first attempt", () => ok(0)],
    ["another attempt", (_: number, attempt: number) => (attempt === 1 ? status(503) : ok(0))],
  ])("because the disk filled up before %s is available to the next call", async (_, answer) => {
    const world = new World({ config: { ...PRICES, maxInFlight: 4 }, answer });
    world.input(8);
    const options = { out: OUTPUT, maxCostUsd: 0.45 }; // the eighth is sent while 0.375 are spent or held
    const engine = await world.engine();
    const run = engine.run(INPUT, options);
    await world.clock.advance(5);
    world.disk.setFull(10);
    await world.clock.advance(5_000);
    run.stop();
    await world.clock.advance(500);
    world.disk.setFull(Number.POSITIVE_INFINITY);
    expect(await world.settle(run.finished)).toMatchObject({ status: "stopped" });
    await world.settle(engine.close());
    const again = (await world.engine()).run(INPUT, options);
    expect(await world.settle(again.finished)).toMatchObject({ counts: { completed: 8, failed: 0 } });
  });
});
