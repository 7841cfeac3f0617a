/** The price of a task covers its cost, is what was promised when it was accepted, and is what its usage is charged. */
import { describe, expect, it } from "vitest";
import type { OpenedTasks } from "../../src/tasks/open_tasks.ts";
import type { RequestItem } from "../../src/tasks/shapes/requests.ts";
import { item, PROJECT, submit, TaskWorld } from "./world.ts";

const SLA = 1_440;
const prices = { "alpha:m1": { inputUsdPerMillion: 100, outputUsdPerMillion: 100 } };

const kinds: readonly (readonly [string, (world: TaskWorld) => readonly RequestItem[]])[] = [
  ["a small task", () => [item(1, SLA), item(2, SLA), item(3, SLA)]],
  [
    "a file",
    (world) => {
      world.file("f1", 3);
      return [{ file_id: "f1", sla: SLA } as unknown as RequestItem];
    },
  ],
];

async function factorsOf(world: TaskWorld, tasks: OpenedTasks, id: string): Promise<readonly number[]> {
  const { items } = await world.settle(tasks.objects(PROJECT, id, { limit: 10 }));
  return items.map(({ usage }) => usage.price_factor);
}

/** Of all that was charged, over its list price. */
async function chargedShare(world: TaskWorld): Promise<number> {
  const days =
    (await world.settle(world.spending?.days(PROJECT, "2025-12-01", "2026-12-31") ?? Promise.resolve([]))) ??
    [];
  const sum = (of: (day: (typeof days)[number]) => number): number =>
    days.reduce((all, day) => all + of(day), 0);
  return sum((day) => day.usd) / sum((day) => day.listUsd);
}

describe.each(kinds)("%s", (_, itemsOf) => {
  it("is sold at list price where no lane is cheaper", async () => {
    const world = new TaskWorld({ config: { prices } });
    const tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, itemsOf(world)));
    await world.clock.advance(60_000);
    expect(await factorsOf(world, tasks, id)).toEqual([1, 1, 1]);
    expect(await chargedShare(world)).toBeCloseTo(1, 9);
  });

  it.each([{ sellBelowCost: true }, { projects: { [PROJECT]: { sellBelowCost: true } } }])(
    "is sold by the rate card with %j",
    async (terms) => {
      const world = new TaskWorld({ config: { prices, ...terms } });
      const tasks = await world.tasks();
      const { id } = await world.settle(submit(tasks, itemsOf(world)));
      await world.clock.advance(60_000);
      expect(await factorsOf(world, tasks, id)).toEqual([0.5, 0.5, 0.5]);
      expect(await chargedShare(world)).toBeCloseTo(0.5, 9);
    },
  );

  it.each([
    [{ sellBelowCost: true }, { sellBelowCost: false }, 0.5],
    [{}, { sellBelowCost: true }, 1],
  ])("that was accepted with %j keeps its price after a restart with %j", async (before, after, factor) => {
    const world = new TaskWorld({ config: { prices, ...before }, answer: () => "hang" });
    const { id } = await world.settle(submit(await world.tasks(), itemsOf(world)));
    world.kill();
    world.reconfigure({ prices, ...after });
    const answering = new TaskWorld();
    world.answer = answering.answer;
    const tasks = await world.settle(world.tasks());
    await world.clock.advance(120_000);
    expect(await factorsOf(world, tasks, id)).toEqual([factor, factor, factor]);
    expect(await chargedShare(world)).toBeCloseTo(factor, 9);
  });
});

it("tasks of one model that were promised different factors are each charged their own", async () => {
  const world = new TaskWorld({ config: { prices, sellBelowCost: true }, answer: () => "hang" });
  let tasks = await world.tasks();
  await world.settle(submit(tasks, [item(1, SLA)]));
  world.kill();
  world.reconfigure({ prices, sellBelowCost: false });
  tasks = await world.settle(world.tasks());
  await world.settle(submit(tasks, [item(2, SLA)]));
  world.kill();
  world.answer = new TaskWorld().answer;
  await world.settle(world.tasks()); // reads both in one group
  await world.clock.advance(120_000);
  expect(await chargedShare(world)).toBeCloseTo(0.75, 9);
});
