/** A file that is removed while a task begins to work on it. */
import { describe, expect, it } from "vitest";
import { itemLine } from "../engine/world.ts";
import { chunked } from "./files.ts";
import { PROJECT, submit, TaskWorld, textOf } from "./world.ts";

const text = itemLine(1) + itemLine(2);

async function uploaded() {
  const world = new TaskWorld({ commitMs: 3 });
  world.hasFileStore = true;
  const tasks = await world.tasks();
  const { fileStore: files } = world;
  if (files === undefined) throw new Error("no files");
  const chunks = chunked(text);
  const { id } = await world.settle(files.put(PROJECT, { name: "in.jsonl", purpose: "batch", chunks }));
  return { world, tasks, files, id };
}

describe("a file that is removed while a task is submitted on it", () => {
  for (let turns = 0; turns < 40; turns += 4)
    it(`is kept for the task, or the task refused, ${turns} turns apart`, async () => {
      for (const isFirst of [true, false]) {
        const { world, tasks, files, id } = await uploaded();
        const later = async (): Promise<void> => {
          for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
        };
        const submitting = (async () => {
          if (!isFirst) await later();
          return submit(tasks, [{ file_id: id, sla: 60 }]);
        })();
        const removing = (async () => {
          if (isFirst) await later();
          await files.remove(PROJECT, id);
        })();
        const [task, removed] = await world.settle(Promise.allSettled([submitting, removing]));
        expect([task?.status, removed?.status].sort()).toEqual(["fulfilled", "rejected"]);
        if (task?.status === "rejected") expect(task.reason).toMatchObject({ code: "not_found" });
        if (removed?.status === "rejected") expect(removed.reason).toMatchObject({ code: "conflict" });
        if (task?.status !== "fulfilled") continue;
        await world.clock.advance(10_000);
        const view = await world.settle(tasks.task(PROJECT, task.value.id));
        expect(view.counts).toMatchObject({ completed: 2 });
      }
    });
});
describe("a task whose file was removed after it was completed", () => {
  it("can still be looked at, also after a restart", async () => {
    const { world, tasks: first, files, id } = await uploaded();
    const { id: taskId } = await world.settle(submit(first, [{ file_id: id, sla: 60 }]));
    await world.clock.advance(10_000);
    const before = await world.settle(first.objects(PROJECT, taskId, { limit: 10 }));
    await world.settle(files.remove(PROJECT, id));
    world.kill();
    const tasks = await world.tasks();
    expect(await world.settle(tasks.objects(PROJECT, taskId, { limit: 10 }))).toEqual(before);
    expect((await world.settle(textOf(tasks, taskId))).trimEnd().split("\n")).toHaveLength(2);
  });
});
