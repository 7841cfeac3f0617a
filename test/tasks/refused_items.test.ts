/** Posted items that are refused for their own sake, while other tasks arrive. */
import { expect, it } from "vitest";
import { ok, type Reply, status } from "../engine/world.ts";
import { item, PROJECT, submit, TaskWorld } from "./world.ts";

it("two items that are refused last end with the next probe, which is an item that was not refused", async () => {
  const world: TaskWorld = new TaskWorld({
    latencyMs: 100,
    answer: (line): Reply =>
      line === 80 || line === 90 ? { afterMs: 2, result: status(404, "model_not_found") } : ok(line),
  });
  const tasks = await world.tasks();
  const items = Array.from({ length: 100 }, (_, index) => item(index + 1, 60));
  const { id } = await world.settle(submit(tasks, items));
  for (let post = 0; post < 50; post += 1) {
    await world.settle(submit(tasks, [item(1_000 + post, 60)]));
    await world.clock.advance(1_500);
  }
  expect(await world.settle(tasks.task(PROJECT, id))).toMatchObject({ counts: { completed: 98, failed: 2 } });
  expect(world.sent.filter(({ line }) => line === 80 || line === 90).length).toBeLessThanOrEqual(7);
  const last = world.sent.at(-1);
  expect(last?.line).toBeGreaterThanOrEqual(1_049);
});
