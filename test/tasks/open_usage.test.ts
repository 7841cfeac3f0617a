/** What open tasks took so far is spent: it is shown, bounds new work, and is what their end notes. */
import { describe, expect, it } from "vitest";
import type { OpenedTasks } from "../../src/tasks/open_tasks.ts";
import type { ProjectUsage } from "../../src/tasks/usage/spending.ts";
import { createRandom, openaiAnswer } from "../../src/testing/index.ts";
import { ok } from "../engine/world.ts";
import { item, PROJECT, submit, TaskWorld } from "./world.ts";

const prices = { "alpha:m1": { inputUsdPerMillion: 100, outputUsdPerMillion: 100 } };
/** 10 input and 5 output tokens. */
const ANSWER_USD = 0.0015;

const items = (from: number, count: number, sla = 60) =>
  Array.from({ length: count }, (_, index) => ({ ...item(from + index, sla), max_tokens: 10 }));

/** It costs, and is asked for twice. */
const empty = openaiAnswer("", { inputTokens: 10, outputTokens: 0 });

/** The first so many lines are answered, the others hang. */
const upTo = (last: number) => (line: number) => (line <= last ? ok(line) : ("hang" as const));

async function usedBy(world: TaskWorld): Promise<{ readonly items: number; readonly usd: number }> {
  const { items, usd } = await allUsedBy(world);
  return { items, usd };
}

async function allUsedBy(world: TaskWorld): Promise<Record<"items" | "usd" | "billedUsd", number>> {
  const days = (await world.settle(
    world.spending?.days(PROJECT, "2025-12-01", "2026-12-31") ?? Promise.resolve([]),
  )) as readonly ProjectUsage[];
  return {
    items: days.reduce((sum, day) => sum + day.items, 0),
    billedUsd: days.reduce((sum, { billedUsd }) => sum + billedUsd, 0),
    usd: days.reduce((sum, { billedUsd, ambiguousUsd }) => sum + billedUsd + ambiguousUsd, 0),
  };
}

async function monthOf(world: TaskWorld): Promise<{ readonly spentUsd: number; readonly heldUsd: number }> {
  const month = await world.settle(world.spending?.month(PROJECT) ?? Promise.reject(new Error("no tasks")));
  return month;
}

/** Used so far by open tasks, in all views of it. */
async function expectUsed(world: TaskWorld, count: number): Promise<void> {
  const used = await usedBy(world);
  expect(used.items).toBe(count);
  expect(used.usd).toBeCloseTo(count * ANSWER_USD, 9);
  expect((await monthOf(world)).spentUsd).toBeCloseTo(count * ANSWER_USD, 9);
}

describe.each([
  ["a posted task", (first: number, count: number) => items(first, count)],
  ["a large task", (first: number, count: number) => [...items(first, count), ...items(900, 1, 90)]],
])("the usage of %s that is open", (_, itemsOf) => {
  it.each([undefined, 1])(
    "counts as its items end, and once when it is final (cap: %s USD)",
    async (capUsd) => {
      const world = new TaskWorld({ config: { prices }, answer: upTo(4) });
      world.capUsd = capUsd;
      const tasks = await world.tasks();
      const all = itemsOf(1, 8);
      const { id } = await world.settle(submit(tasks, all));
      const { heldUsd: admittedUsd } = await monthOf(world);
      expect(admittedUsd).toBeGreaterThan(0);
      await world.clock.advance(5_000);
      await expectUsed(world, 4);
      const { heldUsd } = await monthOf(world);
      expect(heldUsd).toBeCloseTo((admittedUsd * (all.length - 4)) / all.length, 9);
      world.answer = (line) => ok(line);
      await world.clock.advance(7_200_000);
      const { status: end, usage } = await world.settle(tasks.task(PROJECT, id));
      const spentUsd = expect.closeTo(usage.billedUsd + usage.ambiguousUsd, 9); // requests that hung are in doubt
      expect([end, await usedBy(world)]).toEqual(["completed", { items: all.length, usd: spentUsd }]);
      expect(await monthOf(world)).toMatchObject({ spentUsd, heldUsd: 0 });
    },
  );

  it.each([undefined, 1])(
    "counts after kills, with what it may still take held (cap: %s USD)",
    async (capUsd) => {
      const world = new TaskWorld({ config: { prices }, answer: upTo(4) });
      world.capUsd = capUsd;
      const all = itemsOf(1, 8);
      await world.settle(submit(await world.tasks(), all));
      const { heldUsd: admittedUsd } = await monthOf(world);
      await world.clock.advance(5_000);
      for (let kill = 0; kill < 2; kill += 1) {
        world.kill();
        await world.settle(world.tasks());
        await world.clock.advance(1_000);
        const { items: count, usd } = await usedBy(world);
        expect(count).toBe(4);
        expect(usd).toBeGreaterThan(4 * ANSWER_USD - 1e-9);
        const { spentUsd, heldUsd } = await monthOf(world);
        expect(spentUsd).toBeCloseTo(usd, 9);
        expect(heldUsd).toBeCloseTo((admittedUsd * (all.length - 4)) / all.length, 9); // the others are sent again
      }
      world.answer = (line) => ok(line);
      await world.clock.advance(7_200_000);
      expect((await usedBy(world)).items).toBe(all.length);
      const before = await usedBy(world);
      world.kill();
      await world.settle(world.tasks());
      await world.clock.advance(5_000);
      expect(await usedBy(world)).toEqual(before);
      expect((await monthOf(world)).heldUsd).toBe(0);
    },
  );
});

describe.each([
  ["a posted task", (count: number) => items(1, count)],
  ["a large task", (count: number) => [...items(1, count - 1), ...items(count, 1, 90)]],
])("what %s holds", (_, itemsOf) => {
  it("is for the items that are run again only, over a restart", async () => {
    const world = new TaskWorld({ config: { prices }, answer: (line) => (line === 3 ? empty : ok(line)) });
    world.capUsd = 1;
    const tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, itemsOf(20)));
    const { heldUsd: admittedUsd } = await monthOf(world);
    await world.clock.advance(60_000);
    expect((await monthOf(world)).heldUsd).toBe(0);
    world.answer = () => "hang";
    await world.settle(tasks.retry(PROJECT, id, ["empty_output"]));
    const { heldUsd } = await monthOf(world);
    expect(heldUsd).toBeGreaterThan(0);
    expect(heldUsd).toBeLessThan(admittedUsd / 10);
    await world.clock.advance(5_000);
    for (let kill = 0; kill < 2; kill += 1) {
      const { spentUsd } = await monthOf(world);
      world.kill();
      await world.settle(world.tasks());
      expect((await monthOf(world)).spentUsd).toBeGreaterThanOrEqual(spentUsd); // before a run reads anything
      expect((await monthOf(world)).heldUsd).toBeCloseTo(heldUsd, 9);
      await world.clock.advance(5_000);
      expect((await monthOf(world)).heldUsd).toBeCloseTo(heldUsd, 9);
    }
    world.answer = (line) => ok(line);
    await world.clock.advance(7_200_000);
    expect((await monthOf(world)).heldUsd).toBe(0);
  });

  it("does not grow with retries of its items while others are open", async () => {
    const world = new TaskWorld({ config: { prices }, answer: (line) => (line === 1 ? "hang" : empty) });
    let tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, itemsOf(10)));
    const { heldUsd: admittedUsd } = await monthOf(world);
    await world.clock.advance(5_000);
    const { heldUsd } = await monthOf(world);
    expect(heldUsd).toBeCloseTo(admittedUsd / 10, 9);
    for (let round = 0; round < 4; round += 1) {
      const { items: count } = await world.settle(tasks.retry(PROJECT, id, ["empty_output"]));
      expect(count).toBe(9);
      expect((await monthOf(world)).heldUsd).toBeGreaterThan(heldUsd * 2);
      await world.clock.advance(60_000);
      expect((await monthOf(world)).heldUsd).toBeLessThan(heldUsd * 2);
      if (round !== 1) continue;
      world.kill();
      tasks = await world.settle(world.tasks());
    }
    world.answer = (line) => ok(line);
    await world.clock.advance(7_200_000);
    expect((await monthOf(world)).heldUsd).toBe(0);
  });
});

describe.each([
  ["a posted task", (count: number) => items(1, count)],
  ["a posted task of one item", () => items(1, 1)],
  ["a large task", (count: number) => [...items(1, count - 1), ...items(count, 1, 90)]],
])("what the open items of %s took", (_, itemsOf) => {
  it("is spent: requests that a kill has cut off, over further kills too", async () => {
    const world = new TaskWorld({ config: { prices }, answer: () => "hang" });
    const tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, itemsOf(6)));
    await world.clock.advance(5_000);
    const sent = world.sent.length;
    expect(sent).toBeGreaterThan(0);
    let spentUsd = 0;
    for (let kill = 1; kill <= 3; kill += 1) {
      world.kill();
      const again = await world.settle(world.tasks());
      const month = await monthOf(world);
      expect(month.spentUsd).toBeGreaterThan(spentUsd);
      const { usd } = await usedBy(world);
      expect(usd).toBeCloseTo(month.spentUsd, 9);
      await world.clock.advance(5_000);
      expect((await monthOf(world)).spentUsd).toBeCloseTo(month.spentUsd, 9);
      ({ spentUsd } = month);
      if (kill === 3) await finished(world, again, id);
    }
  });

  it("is spent: answers that could not be used", async () => {
    const world = new TaskWorld({
      config: { prices },
      answer: (_line, attempt) => (attempt === 1 ? empty : "hang"),
    });
    const tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, itemsOf(6)));
    await world.clock.advance(30_000);
    const count = itemsOf(6).length;
    expect((await monthOf(world)).spentUsd).toBeCloseTo(count * 0.001, 9);
    expect(await usedBy(world)).toEqual({ items: 0, usd: expect.closeTo(count * 0.001, 9) });
    await finished(world, tasks, id);
  });
});

/** All is answered; the usage of the project is what its task says, before a restart and after it. */
async function finished(world: TaskWorld, tasks: OpenedTasks, id: string): Promise<void> {
  world.answer = (line) => ok(line);
  await world.clock.advance(7_200_000);
  const { usage, counts } = await world.settle(tasks.task(PROJECT, id));
  expect(counts.submitted).toBe(0);
  for (const isRestarted of [false, true]) {
    if (isRestarted) world.kill();
    if (isRestarted) await world.settle(world.tasks());
    const spentUsd = expect.closeTo(usage.billedUsd + usage.ambiguousUsd, 9);
    expect(await monthOf(world)).toMatchObject({ spentUsd, heldUsd: 0 });
  }
}

describe("new work", () => {
  it("is refused when it fits only without what open tasks have taken", async () => {
    const world = new TaskWorld({ config: { prices }, answer: upTo(6) });
    world.capUsd = 1;
    let tasks = await world.tasks();
    await world.settle(submit(tasks, items(1, 8)));
    await world.clock.advance(5_000);
    await expectUsed(world, 6);
    world.capUsd = 0.0105;
    for (const kill of [false, true]) {
      if (kill) world.kill();
      if (kill) tasks = await world.settle(world.tasks());
      const { spentUsd, heldUsd } = await monthOf(world);
      await expect(world.settle(submit(tasks, items(11, 2)))).rejects.toMatchObject({
        code: "budget_exceeded",
        details: { spentUsd, heldUsd },
      });
    }
  });
});

describe("the usage of a task", () => {
  it("that was cancelled while open and removed is counted once", async () => {
    const world = new TaskWorld({ config: { prices }, answer: upTo(4), latencyMs: 10 });
    const tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, items(1, 8)));
    await world.clock.advance(5_000);
    await expectUsed(world, 4);
    await world.settle(tasks.cancel(PROJECT, id));
    await world.clock.advance(3_700_000);
    const { status: end, usage } = await world.settle(tasks.task(PROJECT, id));
    expect(end).toBe("completed");
    const used = await usedBy(world);
    expect(used).toEqual({ items: 8, usd: expect.closeTo(usage.billedUsd + usage.ambiguousUsd, 9) });
    await world.settle(tasks.remove(PROJECT, id));
    expect(await usedBy(world)).toEqual(used);
    expect(await monthOf(world)).toMatchObject({ heldUsd: 0 });
  });

  it.each([false, true])(
    "that is retried while it is open is counted in full (killed: %s)",
    async (isKilled) => {
      const answer = (line: number) => (line <= 2 ? ok(line) : line <= 4 ? empty : ("hang" as const));
      const world = new TaskWorld({ config: { prices }, answer });
      let tasks = await world.tasks();
      const { id } = await world.settle(submit(tasks, items(1, 6)));
      await world.clock.advance(5_000);
      expect((await usedBy(world)).items).toBe(4);
      world.answer = upTo(4);
      await world.settle(tasks.retry(PROJECT, id, ["empty_output"]));
      await world.clock.advance(5_000);
      if (isKilled) {
        world.kill();
        tasks = await world.settle(world.tasks());
      }
      const before = await world.settle(tasks.task(PROJECT, id));
      expect(before.status).toBe("submitted");
      expect(await allUsedBy(world)).toMatchObject({
        items: 6, // two ended twice
        billedUsd: expect.closeTo(before.usage.billedUsd, 9),
      });
      world.answer = (line) => ok(line);
      await world.clock.advance(7_200_000);
      const { usage, counts } = await world.settle(tasks.task(PROJECT, id));
      expect(counts.completed).toBe(6);
      expect(await usedBy(world)).toEqual({
        items: 8,
        usd: expect.closeTo(usage.billedUsd + usage.ambiguousUsd, 9),
      });
    },
  );

  it("never falls, and is in the end what its tasks say, whatever is killed and retried when", async () => {
    for (let seed = 1; seed <= 6; seed += 1) {
      const random = createRandom(seed);
      const world = new TaskWorld({
        config: { prices },
        latencyMs: 500,
        answer: (line) => (random() < 0.3 ? empty : ok(line)),
      });
      let tasks = await world.tasks();
      const ids: string[] = [];
      let last = 0;
      for (let step = 0; step < 8; step += 1) {
        const chance = random();
        if (chance < 0.4) ids.push((await world.settle(submit(tasks, items(1 + step * 10, 6)))).id);
        else if (chance < 0.7)
          for (const id of ids) await world.settle(tasks.retry(PROJECT, id, ["empty_output"]));
        else {
          world.kill();
          tasks = await world.settle(world.tasks());
        }
        await world.clock.advance(Math.floor(random() * 1_200));
        const { usd } = await usedBy(world);
        expect(usd).toBeGreaterThanOrEqual(last - 1e-9);
        last = usd;
      }
      await world.clock.advance(7_200_000);
      let usd = 0;
      for (const id of ids) {
        const { usage } = await world.settle(tasks.task(PROJECT, id));
        usd += usage.billedUsd + usage.ambiguousUsd;
      }
      expect([seed, (await usedBy(world)).usd]).toEqual([seed, expect.closeTo(usd, 9)]);
      expect(await monthOf(world)).toMatchObject({ heldUsd: 0, spentUsd: expect.closeTo(usd, 9) });
    }
  });
});
