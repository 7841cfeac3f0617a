import { describe, expect, it } from "vitest";
import type { SubmittedTask } from "../../src/engine/submissions/submitted_task.ts";
import type { TaskObject } from "../../src/work/task.ts";
import { ok, status, World } from "./world.ts";

const item = (line: number, sla?: number) => ({
  model: "alpha:m1",
  input: `[[${line}]] hello`,
  ...(sla === undefined ? {} : { sla }),
});

async function objectsOf(task: SubmittedTask): Promise<TaskObject[]> {
  const objects: TaskObject[] = [];
  for await (const object of task) objects.push(object);
  return objects;
}

describe("what submit returns", () => {
  it("is finished when every object is final, after the task is accepted", async () => {
    const world = new World({ latencyMs: 5_000 });
    const engine = await world.engine();
    const submitted = engine.submit([item(1), item(2, 60), item(3, 120)]);
    const task = await world.settle(submitted);
    expect(task).toMatchObject({ status: "submitted", counts: { submitted: 2, completed: 1 } });
    const finished = await world.settle(submitted.finished);
    expect(finished).toMatchObject({ status: "completed", task_id: task.task_id, counts: { completed: 3 } });
    expect(finished).toEqual(await world.settle(engine.task(task.task_id)));
  });

  it("keeps the process from ending until it is answered, and while somebody waits for the end or the next object", async () => {
    const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
    const world = new World({ latencyMs: 5_000 });
    const engine = await world.engine();
    // Timers of the runner, which reports the test before this one, end meanwhile.
    while (timers() > 0) await new Promise(setImmediate);
    const before = timers();
    const submitted = engine.submit([item(1, 60), item(2, 60)]);
    expect(timers()).toBe(before + 1);
    await world.settle(submitted);
    expect(timers()).toBe(before);
    const { finished } = submitted;
    expect(timers()).toBe(before + 1);
    const first = submitted[Symbol.asyncIterator]().next();
    await Promise.resolve();
    expect(timers()).toBe(before + 2);
    await world.settle(Promise.all([finished, first]));
    expect(timers()).toBe(before); // the reader has left after one object
  });

  it("yields each object once, when it is final, in the order in which they end", async () => {
    const world = new World({
      answer: (line) => (line === 2 ? status(400) : { afterMs: (10 - line) * 1_000, result: ok(line) }),
    });
    const engine = await world.engine();
    const submitted = engine.submit([1, 2, 3, 4, 5].map((line) => item(line, line % 2 === 0 ? 60 : 120)));
    const objects = await world.settle(objectsOf(submitted));
    expect(objects.map(({ status: how, output }) => output?.text ?? how)).toEqual([
      "failed",
      "answer 5",
      "answer 4",
      "answer 3",
      "answer 1",
    ]);
    const task = await world.settle(submitted.finished);
    const byId = (one: TaskObject, other: TaskObject) => one.object_id.localeCompare(other.object_id);
    expect([...objects].sort(byId)).toEqual([...task.objects].sort(byId));
  });

  it("yields all objects of a long list, all of them final", async () => {
    const world = new World({ commitMs: 3 });
    const engine = await world.engine();
    const submitted = engine.submit(Array.from({ length: 2_000 }, (_, index) => item(index + 1, 60)));
    const objects = await world.settle(objectsOf(submitted));
    expect(new Set(objects.map(({ object_id }) => object_id)).size).toBe(2_000);
    expect(objects.filter((object) => object.status !== "completed")).toEqual([]);
  });

  it("goes on when the reader of its objects leaves", async () => {
    const world = new World();
    const engine = await world.engine();
    const submitted = engine.submit([1, 2, 3, 4].map((line) => item(line, 60)));
    const left = (async () => {
      for await (const object of submitted) return object.status;
      return undefined;
    })();
    expect(await world.settle(left)).toBe("completed");
    expect(await world.settle(submitted.finished)).toMatchObject({ counts: { completed: 4 } });
  });

  it("rejects everywhere if the list is refused, and leaves no rejection unhandled", async () => {
    const world = new World();
    const engine = await world.engine();
    const submitted = engine.submit([]);
    const refused = { code: "usage" };
    await expect(submitted).rejects.toMatchObject(refused);
    await expect(submitted.finished).rejects.toMatchObject(refused);
    await expect(objectsOf(submitted)).rejects.toMatchObject(refused);
  });

  it.each<readonly [string, (task: SubmittedTask) => Promise<unknown>]>([
    ["its objects", objectsOf],
    ["its end", (task) => task.finished],
  ])("rejects where only %s are read, and leaves no rejection unhandled", async (_what, reading) => {
    const unhandled: unknown[] = [];
    const note = (reason: unknown): void => void unhandled.push(reason);
    process.on("unhandledRejection", note);
    try {
      const engine = await new World().engine();
      await expect(reading(engine.submit([item(1, 60), item(2, 0)]))).rejects.toMatchObject({
        code: "usage",
      });
      await new Promise((resolve) => setImmediate(resolve)); // Node reports them after a turn of its event loop
    } finally {
      process.off("unhandledRejection", note);
    }
    expect(unhandled).toEqual([]);
  });

  it("rejects as closed if the engine is closed before, and the next engine finishes the task", async () => {
    const world = new World({ answer: () => "hang" });
    const engine = await world.engine();
    const submitted = engine.submit([item(1, 60)]);
    const { task_id } = await world.settle(submitted);
    const ends = Promise.allSettled([submitted.finished, objectsOf(submitted)]);
    await world.settle(engine.close());
    expect(await world.settle(ends)).toMatchObject([
      { status: "rejected", reason: { code: "closed" } },
      { status: "rejected", reason: { code: "closed" } },
    ]);
    world.answer = (line) => ok(line);
    const next = await world.engine();
    await world.clock.advance(60_000);
    expect(await world.settle(next.task(task_id))).toMatchObject({ status: "completed" });
  });
});
