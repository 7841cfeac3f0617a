/** Caps bound what posted tasks spend through restarts, in whatever state the last process left the tasks. */
import { describe, expect, it } from "vitest";
import { ok } from "../engine/world.ts";
import { item, PROJECT, submit, TaskWorld } from "./world.ts";

const prices = { "alpha:m1": { inputUsdPerMillion: 100, outputUsdPerMillion: 100 } };
/** 10 input and 5 output tokens. */
const ANSWER_USD = 0.0015;

const items = (from: number, count: number) =>
  Array.from({ length: count }, (_, index) => ({ ...item(from + index, 600), max_tokens: 10 }));

const capped = (usd: number) => ({ prices, cap: { name: "all", usd } });

/** Billed and in doubt, of all tasks that are left. */
async function takenUsd(world: TaskWorld): Promise<number> {
  const days = await world.settle(
    world.spending?.days(PROJECT, "2025-12-01", "2026-12-31") ?? Promise.resolve([]),
  );
  return days.reduce((sum, { billedUsd, ambiguousUsd }) => sum + billedUsd + ambiguousUsd, 0);
}

describe("the cap of an engine", () => {
  it("counts what tasks of earlier processes took, also of those that were removed", async () => {
    const world = new TaskWorld({ config: capped(0.015) });
    let tasks = await world.tasks();
    for (const first of [1, 3]) {
      const { id } = await world.settle(submit(tasks, items(first, 2)));
      await world.clock.advance(5_000);
      await world.settle(tasks.remove(PROJECT, id));
      world.kill();
      tasks = await world.settle(world.tasks());
    }
    const { id } = await world.settle(submit(tasks, items(11, 10)));
    await world.clock.advance(60_000);
    const view = await world.settle(tasks.task(PROJECT, id));
    expect(view.held).toMatchObject([{ reason: "cap_reached", cap: "all" }]);
    expect(view.counts.completed).toBeGreaterThan(0);
    expect((4 + view.counts.completed) * ANSWER_USD).toBeLessThanOrEqual(0.015);
    expect(world.sent).toHaveLength(4 + view.counts.completed);
    world.kill();
    world.reconfigure(capped(1));
    tasks = await world.settle(world.tasks());
    await world.clock.advance(60_000);
    expect(await world.settle(tasks.task(PROJECT, id))).toMatchObject({ counts: { completed: 10 } });
    expect(await takenUsd(world)).toBeCloseTo(14 * ANSWER_USD, 9);
  });

  it("counts under another name from the tasks that are open then", async () => {
    const world = new TaskWorld({ config: capped(0.015) });
    await world.settle(submit(await world.tasks(), items(1, 8)));
    await world.clock.advance(5_000);
    const before = world.sent.length;
    world.kill();
    world.reconfigure({ cap: { name: "next", usd: before * ANSWER_USD } }); // all of it was taken by the open task
    let tasks = await world.settle(world.tasks());
    const { id } = await world.settle(submit(tasks, items(11, 1)));
    await world.clock.advance(60_000);
    expect(world.sent).toHaveLength(before);
    world.kill();
    world.reconfigure({ cap: { name: "next", usd: 1 } });
    await world.settle(world.tasks());
    await world.clock.advance(60_000);
    world.kill();
    world.reconfigure({ cap: { name: "third", usd: 0.006 } }); // for one request
    tasks = await world.settle(world.tasks());
    expect(await world.settle(tasks.task(PROJECT, id))).toMatchObject({ status: "completed" });
    await world.settle(submit(tasks, items(21, 1)));
    await world.clock.advance(60_000);
    expect(world.sent).toHaveLength(10);
  });

  it("counts what items of open tasks took, requests that were cut off included", async () => {
    const world = new TaskWorld({ config: capped(1), answer: (line) => (line <= 4 ? ok(line) : "hang") });
    let tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, items(1, 8)));
    await world.clock.advance(5_000);
    expect((await world.settle(tasks.task(PROJECT, id))).counts.completed).toBe(4);
    const sent = world.sent.length;
    world.answer = (line) => ok(line);
    for (const kills of [1, 2]) {
      world.kill();
      world.reconfigure(capped(4 * ANSWER_USD + 0.001 * kills)); // a request costs more
      tasks = await world.settle(world.tasks());
      await world.clock.advance(60_000);
      const { held, counts } = await world.settle(tasks.task(PROJECT, id));
      expect(held).toMatchObject([{ reason: "cap_reached", items: 4 }]);
      expect(counts).toMatchObject({ completed: 4, submitted: 4 });
      expect(world.sent).toHaveLength(sent);
    }
    world.kill();
    world.reconfigure(capped(1));
    tasks = await world.settle(world.tasks());
    await world.clock.advance(60_000);
    expect(await world.settle(tasks.task(PROJECT, id))).toMatchObject({ counts: { completed: 8 } });
  });
});

describe("the month's cap of a project", () => {
  it("bounds open tasks when a process starts with a lower one, and lets them go on with a higher one", async () => {
    const world = new TaskWorld({ config: { prices }, answer: (line) => (line <= 4 ? ok(line) : "hang") });
    world.capUsd = 1;
    let tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, items(1, 8)));
    await world.clock.advance(5_000);
    const sent = world.sent.length;
    world.answer = (line) => ok(line);
    world.kill();
    world.capUsd = 4 * ANSWER_USD + 0.002;
    tasks = await world.settle(world.tasks());
    await world.clock.advance(60_000);
    const { held, counts } = await world.settle(tasks.task(PROJECT, id));
    expect(held).toMatchObject([{ reason: "cap_reached", items: 4 }]);
    expect(counts).toMatchObject({ completed: 4, submitted: 4 });
    expect(world.sent).toHaveLength(sent);
    world.kill();
    world.capUsd = undefined;
    tasks = await world.settle(world.tasks());
    await world.clock.advance(60_000);
    expect(await world.settle(tasks.task(PROJECT, id))).toMatchObject({ counts: { completed: 8 } });
  });
});
