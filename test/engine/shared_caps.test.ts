/**
 * Caps that several runs share: by name, in one data folder, over restarts and kills.
 */
import { describe, expect, it } from "vitest";
import { SharedCaps } from "../../src/engine/files/shared_caps.ts";
import { Budget } from "../../src/price/budget.ts";
import { createMemoryStore } from "../../src/store/memory.ts";
import type { Store } from "../../src/store/store.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { INPUT, itemLine, mortal, OUTPUT, ok, World, type WorldOptions } from "./world.ts";

/** An answer takes 0.035 USD; up to 0.13 USD are held for it. */
const PRICES = { "alpha:*": { inputUsdPerMillion: 1_000, outputUsdPerMillion: 5_000 } };
const ANSWER_USD = 0.035;
const CAP = { name: "evals-november", usd: 3 };

function capsOf(store: Store): SharedCaps {
  const nothing = (): void => undefined;
  return new SharedCaps({
    store,
    clock: new FakeClock(),
    ofEngine: undefined,
    pool: undefined,
    onRaised: nothing,
    onMoney: nothing,
  });
}

interface Book {
  billedUsd: number;
}

function worldWithBook(options: WorldOptions = {}): { readonly world: World; readonly book: Book } {
  const book: Book = { billedUsd: 0 };
  const answer: WorldOptions["answer"] = (line) => {
    book.billedUsd += ANSWER_USD;
    expect(book.billedUsd).toBeLessThanOrEqual(CAP.usd + 1e-9); // at every moment
    return ok(line);
  };
  const world = new World({ answer, ...options, config: { prices: PRICES, ...options.config } });
  world.input(100);
  world.disk.put(
    "/second.jsonl",
    Array.from({ length: 100 }, (_, index) => itemLine(1_000 + index)).join(""),
  );
  return { world, book };
}

describe("a cap of a name", () => {
  it("is shared by runs side by side, and used to the last request that fits", async () => {
    const { world, book } = worldWithBook();
    const engine = await world.engine();
    engine.run(INPUT, { out: OUTPUT, cap: CAP });
    engine.run("/second.jsonl", { out: "/second.out", cap: CAP });
    await world.clock.advance(600_000);
    expect(book.billedUsd).toBeGreaterThan(CAP.usd - 0.13);
  });

  it("lets a run at work go on that it held, when another call raises it", async () => {
    const { world } = worldWithBook({ answer: (line) => ok(line) });
    const engine = await world.engine();
    const first = engine.run(INPUT, { out: OUTPUT, cap: { ...CAP, usd: 1 }, onHeld: () => undefined });
    await world.clock.advance(60_000);
    expect(first.progress().held).toMatchObject([{ reason: "cap_reached", next_try: null }]);
    const before = world.sent.length;
    expect(before).toBeLessThan(30);
    engine.run("/second.jsonl", { out: "/second.out", cap: { ...CAP, usd: 100 } });
    expect(await world.settle(first.finished)).toMatchObject({ counts: { completed: 100 } });
    expect(new Set(world.sent.map(({ line }) => line)).size).toBe(world.sent.length); // nothing is sent twice
  });

  it("lets a run go on that is raised while the one item that it did not hold is retried", async () => {
    const lost = { ok: false, failure: "lost", message: "connection reset" } as const;
    let isOut = true;
    const { world } = worldWithBook({ answer: (line) => (isOut ? lost : ok(line)) });
    const cheap = itemLine(1).replace('"max_output_tokens":16', '"max_output_tokens":1');
    world.disk.put(INPUT, cheap + Array.from({ length: 11 }, (_, index) => itemLine(2 + index)).join(""));
    const engine = await world.engine();
    const first = engine.run(INPUT, { out: OUTPUT, cap: { ...CAP, usd: 2 } });
    for (let second = 0; second < 600; second++) {
      await world.clock.advance(1_000);
      const { held, retrying } = first.progress();
      if (retrying > 0 && held.some(({ reason }) => reason === "cap_reached")) break;
    }
    expect(first.progress().state).toBe("paused");
    world.disk.put("/second.jsonl", itemLine(1_000));
    engine.run("/second.jsonl", { out: "/second.out", cap: { ...CAP, usd: 100 } });
    await world.clock.advance(20_000);
    isOut = false;
    expect(await world.settle(first.finished)).toMatchObject({ counts: { completed: 12 } });
  });

  it("that stops runs side by side suffices for all of them when it is raised to what the last one says is enough", async () => {
    const { world } = worldWithBook({ answer: (line) => ok(line) });
    const engine = await world.engine();
    const inputs = [INPUT, "/second.jsonl"];
    const run = (input: string, usd: number) =>
      engine.run(input, { out: `${input}.out`, cap: { ...CAP, usd } }).finished;
    const both = await world.settle(Promise.all(inputs.map((input) => run(input, 1))));
    const enough = both.map(({ held }) => held?.[0]?.enough_usd ?? 0);
    const left = both.reduce((sum, { counts }) => sum + 100 - counts.completed, 0);
    expect(Math.max(...enough)).toBeGreaterThan(left * ANSWER_USD);
    const again = inputs.map((input) => run(input, Math.max(...enough)));
    for (const { counts } of await world.settle(Promise.all(again))) expect(counts.completed).toBe(100);
    expect(world.sent).toHaveLength(200);
  });

  it("suffices for a run after another one of the engine, forgotten ones not counted", async () => {
    const { world } = worldWithBook({ answer: (line) => ok(line) });
    world.disk.put(
      "/third.jsonl",
      Array.from({ length: 50 }, (_, index) => itemLine(2_000 + index)).join(""),
    );
    const engine = await world.engine();
    const run = (input: string) =>
      world.settle(engine.run(input, { out: `${input}.out`, cap: { ...CAP, usd: 1 } }).finished);
    const first = await run(INPUT);
    const enough = async () => (await run("/second.jsonl")).held?.[0]?.enough_usd ?? 0;
    const firstUsd = first.held?.[0]?.enough_usd ?? 0;
    const bothUsd = await enough();
    expect(bothUsd).toBeGreaterThan(firstUsd + 100 * ANSWER_USD);
    expect(await enough()).toBe(bothUsd); // the same items want it, not more of them
    await world.settle(engine.forget(first.task_id));
    expect(await enough()).toBeLessThan(bothUsd - 50 * ANSWER_USD);
    const ended = engine.run("/third.jsonl", { out: "/third.out", cap: { ...CAP, usd: 1 }, finish: true });
    expect((await world.settle(ended.finished)).counts).toMatchObject({ completed: 0, failed: 50 });
    expect(await enough()).toBeLessThan(bothUsd - 50 * ANSWER_USD); // what has ended wants nothing
  });

  it("still counts what runs before took: in other processes, killed on the way, or forgotten", async () => {
    const { world, book } = worldWithBook({ latencyMs: 40, config: { maxInFlight: 5 } });
    const process = mortal(world.clock);
    void (await world.engine(process.clock)).run(INPUT, { out: OUTPUT, cap: CAP }).finished;
    await world.clock.advance(200);
    process.kill();
    world.kill();
    const beforeUsd = book.billedUsd;
    expect(beforeUsd).toBeGreaterThan(0.3);
    const engine = await world.engine();
    const second = engine.run("/second.jsonl", { out: "/second.out", cap: CAP }); // the first does not go on
    await world.clock.advance(600_000);
    const { billedUsd, ambiguousUsd } = second.progress();
    expect(billedUsd + ambiguousUsd).toBeLessThanOrEqual(CAP.usd - beforeUsd + 1e-9);
    expect(book.billedUsd).toBeGreaterThan(CAP.usd - 0.13 - 5 * 0.13); // what was under way is in doubt
    second.stop();
    const { task_id } = await world.settle(second.finished);
    await world.settle(engine.forget(task_id));
    await world.clock.advance(120_000);
    await world.settle(engine.close());
    const spentUsd = book.billedUsd;
    const last = (await world.engine()).run(INPUT, { out: OUTPUT, cap: CAP });
    await world.clock.advance(600_000);
    last.stop();
    expect(book.billedUsd - spentUsd).toBeLessThan(0.13);
  });

  it("counts a run once that is stopped and continued, and goes on when it is raised", async () => {
    const { world } = worldWithBook({ answer: (line) => ok(line), config: { maxInFlight: 2 } });
    const engine = await world.engine();
    for (const advanceMs of [50, 100, 150]) {
      const run = engine.run(INPUT, { out: OUTPUT, cap: { ...CAP, usd: 100 } });
      await world.clock.advance(advanceMs);
      run.stop();
      await world.settle(run.finished);
    }
    await world.settle(engine.close());
    const last = (await world.engine()).run(INPUT, {
      out: OUTPUT,
      cap: { ...CAP, usd: 100 * ANSWER_USD + 0.13 },
    });
    expect(await world.settle(last.finished)).toMatchObject({ counts: { completed: 100 } });
  });

  it("may be one of the whole engine", async () => {
    const { world, book } = worldWithBook({ config: { cap: CAP } });
    const engine = await world.engine();
    engine.run(INPUT, { out: OUTPUT });
    engine.run("/second.jsonl", { out: "/second.out" });
    await world.clock.advance(600_000);
    expect(book.billedUsd).toBeGreaterThan(CAP.usd - 0.13);
  });

  it("is refused with its value when it is not valid", async () => {
    const { world } = worldWithBook();
    const engine = await world.engine();
    expect(() => engine.run(INPUT, { cap: { name: "no spaces", usd: 1 } })).toThrow(
      'run: cap must be { name, usd } with a name of 1 to 64 letters, digits, ".", "_", ":" and "-", got {"name":"no spaces","usd":1}',
    );
    expect(() => engine.run(INPUT, { cap: { name: "a", usd: -1 } })).toThrow(/cost cap must be USD from 0/);
  });
});

describe("what a forgotten task has cost", () => {
  it("stays counted by each of many caps", async () => {
    const store = createMemoryStore();
    const summary = { cost: { billed_usd: 2, ambiguous_usd: 0 }, usage: {} };
    const body = JSON.stringify({ version: 1, status: "completed", summary });
    await store.putTask({ id: "t", name: "t", createdWallMs: 0, body });
    const caps = capsOf(store);
    const names = Array.from({ length: 250 }, (_, index) => `cap-${index}`);
    for (const name of names) await caps.join({ name, usd: 10 }, "t");
    await caps.keep("t");
    await store.deleteTask("t");
    const later = capsOf(store);
    for (const name of names)
      expect((await later.join({ name, usd: 10 }, "another"))().spentUsd, name).toBe(2);
  });
});

it("What a run has spent is counted by its shared cap until its own budget counts it", async () => {
  const store = createMemoryStore();
  const summary = { cost: { billed_usd: 2, ambiguous_usd: 0 }, usage: {} };
  await store.putTask({
    id: "t",
    name: "t",
    createdWallMs: 0,
    body: JSON.stringify({ version: 1, status: "stopped", summary }),
  });
  await capsOf(store).join(CAP, "t");
  const caps = capsOf(store);
  const enter = await caps.join(CAP, "t");
  const cap = (await caps.join(CAP, "another"))();
  expect(cap.spentUsd).toBe(2);
  void new Budget([enter()], { billedUsd: 2, ambiguousUsd: 0 });
  expect(cap.spentUsd).toBe(2);
});
