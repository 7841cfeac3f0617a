/** An engine that closes over posted tasks: it waits for answers as long as it says, and leaves nothing behind. */
import { expect, it } from "vitest";
import { item, submit, TaskWorld } from "./world.ts";

it("an engine that has closed over posted items whose requests hang has no timer left", async () => {
  const world = new TaskWorld({ answer: () => "hang" });
  const opened = await world.opened();
  const tasks = await world.tasksOn(opened);
  await world.settle(submit(tasks, [item(1, 60), item(2, 60)]));
  await world.clock.advance(2_000);
  const startMs = world.clock.nowMs();
  await world.settle(tasks.close().then(() => opened.engine.close()));
  expect(world.clock.nowMs() - startMs).toBeLessThan(31_000);
  await world.clock.advance(60_000);
  expect(world.clock.pendingTimers).toBe(0);
});
