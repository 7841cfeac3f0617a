/** What an answer about a task says of its counts and of its objects is of one moment. */
import { expect, it } from "vitest";
import type { OpenedTasks } from "../../src/tasks/open_tasks.ts";
import { item, PROJECT, submit, TaskWorld } from "./world.ts";

it.each([
  ["a posted task", [60]],
  ["a task of several slas", [60, 30]],
] as const)(
  "shows objects of %s as its view counts them, however many end before they are read",
  async (_kind, slas) => {
    const world = new TaskWorld({ config: { limits: { alpha: { concurrency: 2 } } }, latencyMs: 10 });
    const tasks: OpenedTasks = await world.tasks();
    const items = Array.from({ length: 20 }, (_, index) => item(index + 1, slas[index % slas.length]));
    let view = await world.settle(submit(tasks, items));
    const seen = new Set<number>();
    for (;;) {
      await world.clock.advance(25);
      const { items: objects } = await world.settle(tasks.objects(PROJECT, view, { limit: 100 }));
      const counted = { submitted: 0, completed: 0, failed: 0, expired: 0, cancelled: 0 };
      for (const { status } of objects) counted[status] += 1;
      expect(counted).toEqual(view.counts);
      seen.add(counted.completed);
      if (view.status !== "submitted") break;
      view = await world.settle(tasks.task(PROJECT, view.id));
    }
    expect(seen.size).toBeGreaterThan(3);
  },
);
