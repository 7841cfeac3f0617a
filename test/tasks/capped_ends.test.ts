/** What a task or run says of its end under a cap that does not suffice. */
import { describe, expect, it } from "vitest";
import type { TaskView } from "../../src/tasks/shapes/task_view.ts";
import { INPUT, OUTPUT, World } from "../engine/world.ts";
import { item, PROJECT, submit, TaskWorld } from "./world.ts";

const prices = { "alpha:m1": { inputUsdPerMillion: 100, outputUsdPerMillion: 100 } };
/** 10 input and 5 output tokens. */
const ANSWER_USD = 0.0015;
const limits = { alpha: { requestsPerMinute: 60 } };

const items = (from: number, count: number, sla = 60) =>
  Array.from({ length: count }, (_, index) => ({ ...item(from + index, sla), max_tokens: 10 }));

/** The speed of the model is known. */
async function warm(usd: number, config = {}) {
  const world = new TaskWorld({
    latencyMs: 300,
    config: { prices, limits, cap: { name: "all", usd }, ...config },
  });
  const tasks = await world.tasks();
  await world.settle(submit(tasks, items(9_001, 2)));
  await world.clock.advance(65_000);
  return { world, tasks };
}

const said = ({ expectedEndWallMs, isSlaAtRisk }: TaskView) => [expectedEndWallMs !== undefined, isSlaAtRisk];
const UNKNOWN = [false, true];
const KNOWN = [true, false];

describe.each([
  ["a small task", (from: number, count: number) => items(from, count)],
  ["a large task", (from: number, count: number) => [...items(from + 1, count - 1), ...items(from, 1, 61)]],
])("%s", (_name, itemsOf) => {
  it("has no expected end from its first answer on when a cap does not suffice for it", async () => {
    const { world, tasks } = await warm(32 * ANSWER_USD);
    const task = await world.settle(submit(tasks, itemsOf(1, 40)));
    expect(said(task)).toEqual(UNKNOWN);
    let isHeld = false;
    for (let second = 0; second < 60; second += 1) {
      await world.clock.advance(second < 10 ? 100 : 1_000);
      const view = await world.settle(tasks.task(PROJECT, task.id));
      expect(said(view)).toEqual(UNKNOWN);
      isHeld ||= view.held.length > 0;
    }
    expect(isHeld).toBe(true);
  });

  it("has one under a cap that suffices", async () => {
    const { world, tasks } = await warm(80 * ANSWER_USD);
    const task = await world.settle(submit(tasks, itemsOf(1, 40)));
    for (let second = 0; second < 30; second += 1) {
      const view = await world.settle(tasks.task(PROJECT, task.id));
      expect(said(view)).toEqual(KNOWN);
      await world.clock.advance(1_000);
    }
  });

  it("has none when what is due before it uses the cap up, and leaves that its end", async () => {
    const { world, tasks } = await warm(80 * ANSWER_USD);
    const first = await world.settle(submit(tasks, items(1, 40, 30)));
    await world.clock.advance(1_000);
    const second = await world.settle(submit(tasks, itemsOf(101, 50)));
    await world.clock.advance(1_000);
    for (let look = 0; look < 20; look += 1) {
      expect(said(await world.settle(tasks.task(PROJECT, first.id)))).toEqual(KNOWN);
      expect(said(await world.settle(tasks.task(PROJECT, second.id)))).toEqual(UNKNOWN);
      await world.clock.advance(1_000);
    }
  });
});

it("A task under a used-up cap has no expected end in its first answer", async () => {
  const { world, tasks } = await warm(6 * ANSWER_USD); // an item may take up to 0.0056
  const task = await world.settle(submit(tasks, items(1, 3)));
  await world.clock.advance(10_000);
  expect((await world.settle(tasks.task(PROJECT, task.id))).held).toMatchObject([{ reason: "cap_reached" }]);
  expect(said(await world.settle(submit(tasks, items(11, 1))))).toEqual(UNKNOWN);
});

it.each([
  [30 * ANSWER_USD, false],
  [60 * ANSWER_USD, true],
])("A run under a cap of %d USD has a time of arrival: %s", async (maxCostUsd, isKnown) => {
  const world = new World({ latencyMs: 300, config: { prices, limits } });
  world.input(50);
  const run = (await world.engine()).run(INPUT, { out: OUTPUT, maxCostUsd, waitMs: 3_600_000 });
  run.finished.catch(() => undefined);
  for (let second = 0; second < 20; second += 1) {
    await world.clock.advance(1_000);
    expect(run.progress().etaMs !== undefined).toBe(isKnown);
  }
});
