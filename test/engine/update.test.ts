/**
 * An input that has grown or changed: lines that are as they were keep their answers, all else runs.
 */
import { describe, expect, it } from "vitest";
import { createRandom } from "../../src/testing/index.ts";
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
  it("asks for new and changed lines alone, in whatever order the input is now", async () => {
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

  it("keeps lines of keys that are gone until they are pruned", async () => {
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

  it("answers a key again that was gone and comes back changed, and not when it comes back as it was", async () => {
    const world = await answered([1, 2]);
    world.disk.put(INPUT, lines(1));
    await finish(world, PRUNE);
    world.disk.put(INPUT, lines(1, 2));
    expect(await finish(world, UPDATE)).toMatchObject({ requests_sent: 1, items: 2 });
    expect(await finish(world, UPDATE)).toMatchObject({ requests_sent: 0, items: 2 });
  });

  it("keeps errors of lines that are as they were under their new numbers, and reads broken lines anew", async () => {
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

  it("is asked for where the input changed and nobody said so", async () => {
    const world = await answered([1, 2]);
    const before = world.disk.text(OUTPUT);
    world.disk.put(INPUT, lines(1, 3));
    expect(await endOf(world, INPUT)).toMatchObject({
      code: "input_changed",
      message:
        "/in.jsonl is not the file that this run began with; put it back, call the run with update to answer what is new, or start over with another output",
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
