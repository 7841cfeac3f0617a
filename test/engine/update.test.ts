/**
 * An input that has grown or changed: lines that are as they were keep their answers, all else runs.
 */
import { describe, expect, it } from "vitest";
import { createRandom, openaiAnswer } from "../../src/testing/index.ts";
import { endOf, finish } from "./runs.ts";
import { INPUT, itemLine, mortal, OUTPUT, ok, status, World } from "./world.ts";

const OPTIONS = { out: OUTPUT };
const UPDATE = { ...OPTIONS, update: true };
const PRUNE = { ...UPDATE, prune: true };

/** Items by key number; a changed one asks with a hundred added. */
const lines = (...numbers: readonly number[]): string =>
  numbers.map((each) => itemLine(each, "alpha:m1", `k${each % 100}`)).join("");

const texts = (world: World): Record<string, string | undefined> =>
  Object.fromEntries(world.output().map(({ key, output }) => [String(key), output?.text]));

async function answered(numbers: readonly number[], options: object = OPTIONS): Promise<World> {
  const world = new World();
  world.disk.put(INPUT, lines(...numbers));
  await finish(world, options);
  return world;
}

describe("update", () => {
  it("requests only new and changed lines, in any order of the input", async () => {
    const world = await answered([1, 2, 3, 4]);
    world.disk.put(INPUT, lines(5, 4, 102, 1, 3, 6));
    const summary = await finish(world, UPDATE);
    expect(summary).toMatchObject({
      status: "completed",
      items: 6,
      requests_sent: 3,
      counts: { completed: 6 },
    });
    expect(
      world.sent
        .slice(4)
        .map(({ line }) => line)
        .sort(),
    ).toEqual([102, 5, 6]);
    expect(texts(world)).toEqual({
      k1: "answer 1",
      k2: "answer 102",
      k3: "answer 3",
      k4: "answer 4",
      k5: "answer 5",
      k6: "answer 6",
    });
    expect(world.output()).toHaveLength(6);
    expect(summary.usage.attempts).toBe(7);
    expect(await finish(world, OPTIONS)).toMatchObject({ requests_sent: 0, items: 6 });
  });

  it("keeps answers of every script byte for byte, where they are and where they move to", async () => {
    const text = (line: number): string => `${line}: Grüße, 概要, 🙂`;
    const world = new World({
      answer: (line) => openaiAnswer(text(line), { inputTokens: 9, outputTokens: 5 }),
    });
    world.disk.put(INPUT, lines(1, 2, 3, 4));
    await finish(world, OPTIONS);
    world.disk.put(INPUT, lines(4, 102, 3, 1));
    expect(await finish(world, UPDATE)).toMatchObject({ status: "completed", requests_sent: 1 });
    expect(texts(world)).toEqual({ k1: text(1), k2: text(102), k3: text(3), k4: text(4) });
  });

  it("keeps lines of keys that are no longer in the input until they are pruned", async () => {
    const world = await answered([1, 2, 3]);
    world.disk.put(INPUT, lines(3, 4));
    expect(await finish(world, UPDATE)).toMatchObject({
      items: 4,
      requests_sent: 1,
      counts: { completed: 4 },
    });
    expect(Object.keys(texts(world)).sort()).toEqual(["k1", "k2", "k3", "k4"]);
    const pruned = await finish(world, PRUNE);
    expect(pruned).toMatchObject({ items: 2, requests_sent: 0, usage: { attempts: 4 } });
    expect(Object.keys(texts(world)).sort()).toEqual(["k3", "k4"]);
  });

  it("answers a key again that was removed and is in the input again with a change, and not without a change", async () => {
    const world = await answered([1, 2]);
    world.disk.put(INPUT, lines(1));
    await finish(world, PRUNE);
    world.disk.put(INPUT, lines(1, 2));
    expect(await finish(world, UPDATE)).toMatchObject({ requests_sent: 1, items: 2 });
    expect(await finish(world, UPDATE)).toMatchObject({ requests_sent: 0, items: 2 });
  });

  it("keeps the answer of a key that was not in the input for a while, and requests it again with a change", async () => {
    const world = await answered([1, 2, 3, 4]);
    world.disk.put(INPUT, lines(4, 1));
    await finish(world, UPDATE);
    world.disk.put(INPUT, lines(1, 5, 4));
    expect(await finish(world, UPDATE)).toMatchObject({ requests_sent: 1, items: 5 });
    world.disk.put(INPUT, lines(103, 2, 1, 5, 4));
    expect(await finish(world, UPDATE)).toMatchObject({ requests_sent: 1, items: 5 });
    expect(world.sent.map(({ line }) => line)).toEqual([1, 2, 3, 4, 5, 103]);
    expect(texts(world)).toMatchObject({ k2: "answer 2", k3: "answer 103" });
  });

  it("keeps errors of lines that are as they were under their new numbers, and reads broken lines again", async () => {
    const world = new World();
    world.answer = (line) => (line === 2 ? status(400, "bad") : ok(line));
    world.disk.put(INPUT, `${lines(1, 2)}broken\n`);
    await finish(world);
    world.disk.put(INPUT, lines(7, 1, 2, 8));
    const summary = await finish(world, UPDATE);
    expect(summary).toMatchObject({ items: 4, requests_sent: 2, counts: { completed: 3, failed: 1 } });
    const error = world.output().find(({ key }) => key === "k2")?.error;
    expect(error).toMatchObject({ code: "invalid_request", line: 3 });
  });

  it.each([{ ordered: false }, { ordered: true }])(
    "names no line in errors of keys that are gone, until they come back (%o)",
    async (order) => {
      const world = new World();
      world.answer = (line) => (line === 5 ? status(400, "bad") : ok(line));
      world.disk.put(INPUT, lines(1, 2, 3, 4, 5));
      await finish(world, { ...OPTIONS, ...order });
      const errorOf = () => world.output().find(({ key }) => key === "k5")?.error;
      expect(errorOf()).toMatchObject({ line: 5 });
      world.disk.put(INPUT, lines(1, 2, 3, 4));
      const engine = await world.engine();
      const run = engine.run(INPUT, { ...UPDATE, ...order });
      expect(await world.settle(run.finished)).toMatchObject({ items: 5, counts: { failed: 1 } });
      const groups = await world.settle(run.errors());
      expect(groups).toMatchObject([{ code: "invalid_request", count: 1, first_line: null }]);
      expect(groups[0]?.message).toContain("bad");
      await world.settle(engine.close());
      expect(errorOf()).not.toHaveProperty("line");
      world.disk.put(INPUT, lines(1, 2, 3, 4, 5));
      await finish(world, { ...UPDATE, ...order });
      expect(errorOf()).toMatchObject({ line: 5 });
    },
  );

  it("does not retry failed lines of keys that are no longer in the input", async () => {
    const world = new World();
    world.answer = (line) => (line === 3 ? status(400, "bad") : ok(line));
    world.disk.put(INPUT, lines(1, 2, 3));
    await finish(world);
    world.disk.put(INPUT, lines(1, 2));
    await finish(world, UPDATE);
    const again = await finish(world, { ...OPTIONS, retryFailed: ["invalid_request"] });
    expect(again).toMatchObject({ requests_sent: 0, items: 3, counts: { completed: 2, failed: 1 } });
    expect(Object.keys(texts(world)).sort()).toEqual(["k1", "k2", "k3"]);
  });

  it("goes on with what a stopped run had open", async () => {
    const world = new World({ config: { maxInFlight: 1 } });
    world.disk.put(INPUT, lines(1, 2, 3, 4));
    const engine = await world.engine();
    const run = engine.run(INPUT, OPTIONS);
    await world.clock.advance(15);
    run.stop();
    await world.settle(run.finished);
    await world.settle(engine.close());
    const sent = world.sent.length;
    world.disk.put(INPUT, lines(5, 1, 2, 3, 4));
    expect(await finish(world, UPDATE)).toMatchObject({ counts: { completed: 5 }, requests_sent: 5 - sent });
    expect(world.output()).toHaveLength(5);
  });

  it("keeps an output in order", async () => {
    const ordered = { ...OPTIONS, ordered: true };
    const world = await answered([1, 2, 3], ordered);
    world.disk.put(INPUT, lines(3, 4, 1));
    await finish(world, { ...ordered, update: true });
    expect(world.output().map(({ key }) => key)).toEqual(["k3", "k4", "k1", "k2"]);
  });

  it("is named in the error where the input changed without update", async () => {
    const world = await answered([1, 2]);
    const before = world.disk.text(OUTPUT);
    world.disk.put(INPUT, lines(1, 3));
    expect(await endOf(world, INPUT)).toMatchObject({
      code: "input_changed",
      message:
        "/in.jsonl is not the file that this run began with; put it back, call run with update to answer the new lines, or start over with another output",
    });
    expect(world.disk.text(OUTPUT)).toBe(before);
  });

  it("has one line a key after a kill at any moment, and pays nothing twice", async () => {
    for (let operation = 1; operation <= 31; operation += 3) {
      const world = await answered([1, 2, 3, 4]);
      world.disk.put(INPUT, lines(4, 102, 1, 5));
      const process = mortal(world.clock);
      const engine = await world.engine(process.clock);
      world.disk.crashAtOperation(operation, { powerCut: operation % 2 === 0 });
      engine.run(INPUT, PRUNE).finished.catch(() => undefined);
      await world.clock.settle();
      process.kill();
      world.kill({ powerCut: operation % 2 === 0, random: createRandom(operation) });
      await finish(world, PRUNE);
      expect(world.output(), `operation ${operation}`).toHaveLength(4);
      expect(texts(world), `operation ${operation}`).toEqual({
        k1: "answer 1",
        k2: "answer 102",
        k4: "answer 4",
        k5: "answer 5",
      });
      const again = world.sent.slice(4).map(({ line }) => line);
      expect(again.filter((line) => line === 1 || line === 4)).toEqual([]);
    }
  }, 120_000);
});

describe("money of lines that are no longer in the input", () => {
  const prices = { "*": { inputUsdPerMillion: 1, outputUsdPerMillion: 2, asOf: "2026-11-01" } };

  it("stays in the summary over further updates, retries and a repair", async () => {
    const world = new World({ config: { prices } });
    world.disk.put(INPUT, lines(1, 2, 3, 4));
    const one = await finish(world, OPTIONS);
    const eachUsd = one.cost.billed_usd / 4;
    world.disk.put(INPUT, lines(3, 4, 5));
    const grown = await finish(world, PRUNE); // 1 and 2 are gone
    expect(grown.cost.billed_usd).toBeCloseTo(5 * eachUsd, 12);
    world.disk.put(INPUT, lines(4, 5, 106));
    world.answer = (line) => (line === 106 ? status(400, "bad") : ok(line));
    const update = await finish(world, PRUNE); // 3 is gone, too
    expect(update.cost.billed_usd).toBeCloseTo(5 * eachUsd, 12);
    world.answer = (line) => ok(line);
    const retried = await finish(world, { ...OPTIONS, retryFailed: ["invalid_request"] });
    expect(retried.cost.billed_usd).toBeCloseTo(6 * eachUsd, 12); // what was refused cost nothing
    world.disk.put(OUTPUT, "");
    await endOf(world, INPUT, OPTIONS); // reported as changed
    const repaired = await finish(world, OPTIONS);
    expect(repaired).toMatchObject({ items: 3, counts: { completed: 3 }, requests_sent: 3 });
    expect(repaired.cost.billed_usd).toBeCloseTo(9 * eachUsd, 12);
    expect(repaired.usage.attempts).toBe(world.sent.length);
  });
});

describe("an update that could do nothing, or harm", () => {
  it("of a stream is refused with what to do, also where the run has finished", async () => {
    const refused = {
      code: "usage",
      message:
        "the source is a stream, which cannot be compared with the one before: write it to a file, and call the run with the file and update",
    };
    const world = new World();
    const stream = () => [Buffer.from(lines(1, 2))];
    expect(await endOf(world, stream(), UPDATE)).toMatchObject(refused);
    await finish(world, OPTIONS, stream());
    expect(await endOf(world, stream(), UPDATE)).toMatchObject(refused);
    expect(world.sent).toHaveLength(2);
    expect(world.output()).toHaveLength(2);
  });

  it("that would only prune is refused", async () => {
    const world = await answered([1, 2]);
    await expect(async () => (await world.engine()).run(INPUT, { ...OPTIONS, prune: true })).rejects.toThrow(
      "run: prune works only with update: set update as well",
    );
  });

  it("sends a changed line whose last request may have been answered, where delivery is at most once", async () => {
    const world = new World({ config: { delivery: "at_most_once" } });
    world.answer = (line) => (line === 2 ? status(500) : ok(line));
    world.disk.put(INPUT, lines(1, 2));
    expect(await finish(world, OPTIONS)).toMatchObject({ errors: { ambiguous: 1 } });
    world.disk.put(INPUT, lines(1, 102));
    const summary = await finish(world, UPDATE);
    expect(summary).toMatchObject({ counts: { completed: 2 }, requests_sent: 1, usage: { attempts: 3 } });
  });

  it("of a run that was stopped with requests under way is refused where delivery is at most once", async () => {
    const world = new World({ config: { maxInFlight: 2, delivery: "at_most_once" }, latencyMs: 50 });
    world.disk.put(INPUT, lines(1, 2, 3));
    const process = mortal(world.clock);
    void (await world.engine(process.clock)).run(INPUT, OPTIONS).finished;
    await world.clock.advance(20);
    process.kill();
    world.kill();
    world.disk.put(INPUT, lines(1, 2, 3, 4));
    expect(await endOf(world, INPUT, UPDATE)).toMatchObject({
      code: "conflict",
      message:
        "2 requests were under way when the run stopped, and delivery is at_most_once: put the input back and finish the run without update, which ends them, or set delivery to at_least_once",
    });
    world.disk.put(INPUT, lines(1, 2, 3));
    expect(await finish(world, OPTIONS)).toMatchObject({ errors: { ambiguous: 2 } });
    world.disk.put(INPUT, lines(1, 2, 3, 4));
    expect(await finish(world, UPDATE)).toMatchObject({ requests_sent: 1, items: 4 });
    const sentOf = (line: number): number => world.sent.filter((one) => one.line === line).length;
    expect([1, 2, 3, 4].map(sentOf)).toEqual([1, 1, 1, 1]);
  });
});
