/** What lots take of memory, and what becomes of tasks when a disk, a run or a listener fails. */
import { describe, expect, it } from "vitest";
import { item, submit, TaskWorld } from "./world.ts";

const items = (from: number, count: number, sla?: number) =>
  Array.from({ length: count }, (_, index) => item(from + index, sla));

describe("lots that are over", () => {
  it("take memory for the lines they have, not for those they could have had", async () => {
    const world = new TaskWorld();
    const tasks = await world.tasks();
    await world.settle(submit(tasks, items(1, 1)));
    const beforeBytes = process.memoryUsage().arrayBuffers;
    for (let post = 2; post < 302; post += 1) await world.settle(submit(tasks, items(post, 1)));
    expect(process.memoryUsage().arrayBuffers - beforeBytes).toBeLessThan(8 * 1024 * 1024);
  });
});
