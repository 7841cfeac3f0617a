/** A task is removed as soon as it is shown as completed. */
import { expect, it } from "vitest";
import { ok } from "../engine/world.ts";
import { item, PROJECT, submit, TaskWorld } from "./world.ts";

it.each([
  ["a small task", [item(1, 60), item(2, 60), item(3, 60)]],
  ["a task of several slas", [item(1, 60), item(2, 120)]],
])("%s is removed while its end is still being written", async (_, items) => {
  const world = new TaskWorld({ commitMs: 20 });
  const tasks = await world.tasks();
  const { id } = await world.settle(submit(tasks, items));
  world.workLog?.expect(); // commits wait for what is about to be posted: the end of a task is a commit of its own
  for (let ms = 0; ms < 2_000; ms += 1) {
    const { status } = await world.settle(tasks.task(PROJECT, id));
    if (status === "completed") break;
    await world.clock.advance(1);
  }
  await world.settle(tasks.remove(PROJECT, id));
  await expect(world.settle(tasks.task(PROJECT, id))).rejects.toMatchObject({ code: "not_found" });
});

it("a task with open items is not removed", async () => {
  const world = new TaskWorld({ answer: (line) => (line === 1 ? "hang" : ok(line)) });
  const tasks = await world.tasks();
  const { id } = await world.settle(submit(tasks, [item(1, 60), item(2, 60)]));
  await world.clock.advance(1_000);
  await expect(world.settle(tasks.remove(PROJECT, id))).rejects.toMatchObject({ code: "conflict" });
});
