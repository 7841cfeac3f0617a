/** What posted tasks used: counted at once, stored a moment later, and once each, whenever the process ends. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EndedTasks } from "../../src/log/ended_tasks.ts";
import { WORK_KINDS } from "../../src/log/work_kinds.ts";
import { openWorkLog } from "../../src/log/work_log.ts";
import { createMemoryStore } from "../../src/store/memory.ts";
import { NO_PROJECT_USAGE } from "../../src/tasks/usage/project_usage.ts";
import { UsageMark } from "../../src/tasks/usage/usage_mark.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { outcomeOf, text } from "../../src/testing/work_log_calls.ts";
import { item, PROJECT, submit, TaskWorld } from "./world.ts";

async function usedItems(world: TaskWorld): Promise<number> {
  const days = await world.settle(Promise.resolve(world.spending?.days(PROJECT, "2025-12-01", "2026-12-31")));
  return (days ?? []).reduce((sum, { items }) => sum + items, 0);
}

describe("the usage of a posted task", () => {
  it("counts as soon as the task is final", async () => {
    const world = new TaskWorld({ latencyMs: 10 });
    const tasks = await world.tasks();
    await world.settle(submit(tasks, [item(1, 60), item(2, 60)]));
    await world.clock.advance(400);
    expect(await usedItems(world)).toBe(2);
  });

  it.each([300, 500, 3_000])(
    "counts once when the process is killed %i ms after it was accepted",
    async (afterMs) => {
      const world = new TaskWorld({ latencyMs: 10 });
      let tasks = await world.tasks();
      await world.settle(submit(tasks, [item(1, 60)]));
      await world.settle(submit(tasks, [item(2, 60), item(3, 60)]));
      await world.clock.advance(afterMs);
      for (let kill = 0; kill < 3; kill += 1) {
        world.kill();
        tasks = await world.settle(world.tasks());
        await world.clock.advance(5_000);
        expect(await usedItems(world)).toBe(3);
      }
      await world.settle(submit(tasks, [item(4, 60)]));
      await world.clock.advance(5_000);
      expect(await usedItems(world)).toBe(4);
    },
  );

  it("counts when the task is removed at once, and the process killed", async () => {
    const world = new TaskWorld({ latencyMs: 10 });
    const tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, [item(1, 60)]));
    await world.clock.advance(400);
    await world.settle(tasks.remove(PROJECT, id));
    world.kill();
    await world.settle(world.tasks());
    expect(await usedItems(world)).toBe(1);
  });
});

describe("on a full disk, the usage of a posted task", () => {
  const killsMs = Array.from({ length: 70 }, (_, index) => 10 * index);
  it.each(killsMs)("counts once when the process is killed after %i ms", async (afterMs) => {
    const world = new TaskWorld({ latencyMs: 10, commitMs: 15 });
    await world.settle(submit(await world.tasks(), [item(1, 60), item(2, 60), item(3, 60)]));
    await world.clock.advance(afterMs);
    world.kill();
    world.store.failNext("disk_full", 5);
    await world.settle(world.tasks());
    await world.clock.advance(120_000);
    expect(await usedItems(world)).toBe(3);
    world.kill();
    await world.settle(world.tasks());
    await world.clock.advance(5_000);
    expect(await usedItems(world)).toBe(3);
  });
});

describe("a posted task", () => {
  const fullMs = Array.from({ length: 70 }, (_, index) => 10 * index);
  it.each(fullMs)(
    "ends, and is told and counted once, when the disk is full %i ms after it was accepted",
    async (afterMs) => {
      const world = new TaskWorld({ latencyMs: 10, commitMs: 15 });
      const tasks = await world.tasks();
      const ended: string[] = [];
      tasks.onFinished(async ({ taskId }) => void ended.push(taskId));
      const { id } = await world.settle(submit(tasks, [item(1, 60), item(2, 60)]));
      await world.clock.advance(afterMs);
      world.store.failNext("disk_full", 5);
      await world.clock.advance(120_000);
      expect(await world.settle(tasks.task(PROJECT, id))).toMatchObject({ status: "completed" });
      expect(ended).toEqual([id]);
      expect(await usedItems(world)).toBe(2);
    },
  );
});

describe("the usage of a posted task that is cancelled", () => {
  const cancelsMs = [0, 5, 20, 100, 240, 250, 255, 260, 300, 1_000];
  it.each(cancelsMs)("counts once when it is cancelled after %i ms", async (afterMs) => {
    const world = new TaskWorld({ answer: () => "hang", commitMs: 15 });
    const tasks = await world.tasks();
    const ended: string[] = [];
    tasks.onFinished(async ({ taskId }) => void ended.push(taskId));
    const { id } = await world.settle(submit(tasks, [item(1, 1), item(2, 1)]));
    await world.clock.advance(afterMs);
    await world.settle(tasks.cancel(PROJECT, id));
    await world.clock.advance(120_000);
    expect(await usedItems(world)).toBe(2);
    expect(ended).toEqual([id]);
  });

  it.each(cancelsMs)("counts once when it is cancelled %i ms after a restart", async (afterMs) => {
    const world = new TaskWorld({ answer: () => "hang", commitMs: 15 });
    const { id } = await world.settle(submit(await world.tasks(), [item(1, 1), item(2, 1)]));
    world.kill();
    const tasks = await world.settle(world.tasks());
    await world.clock.advance(afterMs);
    await world.settle(tasks.cancel(PROJECT, id));
    await world.clock.advance(120_000);
    expect(await usedItems(world)).toBe(2);
  });
});

describe("the mark of what is in the sums", () => {
  it("gives each final task to the next process once, in whatever order tasks are noted and whenever it is read", async () => {
    const steps = fc.array(fc.record({ tasks: fc.integer({ min: 1, max: 3 }), noted: fc.array(fc.nat(8)) }), {
      maxLength: 8,
    });
    await fc.assert(
      fc.asyncProperty(steps, async (all) => {
        const store = createMemoryStore();
        const [log, noted] = [{ ended: new EndedTasks() }, new Set<number>()];
        const mark = await UsageMark.open(log, store, "cap");
        const entries: [number, number][] = [];
        for (const [index, step] of all.entries()) {
          for (let task = 0; task < step.tasks; task += 1) entries.push([entries.length + 1, index + 1]);
          for (const [task, sequence] of entries.slice(-step.tasks)) log.ended.add(task, sequence);
          const tasks = new Set(
            step.noted.filter((task) => task > 0 && task <= entries.length && !noted.has(task)),
          );
          const used = { ...NO_PROJECT_USAGE, billedUsd: tasks.size };
          const next = mark.next({ tasks, days: new Map([["p", new Map([["2026-01-01", used]])]]) });
          await store.change([next.change]);
          next.taken();
          for (const task of tasks) noted.add(task);
        }
        const after = { ended: new EndedTasks() };
        for (const [task, sequence] of entries) after.ended.add(task, sequence);
        const next = await UsageMark.open(after, store, "cap");
        expect(next.unnoted()).toEqual(entries.map(([task]) => task).filter((task) => !noted.has(task)));
        expect(next.takenUsd).toBe(noted.size);
        expect((await UsageMark.open(after, store, "another")).takenUsd).toBe(0);
      }),
    );
  });
});

describe("the work log", () => {
  it("keeps the entries that say that tasks are final until these are noted", async () => {
    const [store, clock] = [createMemoryStore(), new FakeClock()];
    const options = { store, clock, cutFloorBytes: 2_000, restatedBytesMin: 1_000 };
    const log = await openWorkLog(options);
    const post = async (id: string): Promise<void> => {
      const work = { id, kind: WORK_KINDS.posted, project: "p", items: 1, createdWallMs: 0, body: "{}" };
      const { task, durable } = log.accept(work);
      await durable;
      await log.end(outcomeOf(task, 0), text("answer"));
    };
    for (let count = 0; count < 50; count += 1) await post(`a${count}`);
    expect(log.logBytes).toBeGreaterThan(5_000);
    await log.close();
    const again = await openWorkLog(options);
    expect([...again.ended.posted]).toHaveLength(50);
    again.ended.posted.forget(Number.POSITIVE_INFINITY);
    const { task, durable } = again.accept({
      id: "b",
      kind: 1,
      project: "p",
      items: 1,
      createdWallMs: 0,
      body: "{}",
    });
    await durable;
    for (let count = 0; count < 20; count += 1) await again.rewrite(task, "{}");
    expect(again.logBytes).toBeLessThan(4_000);
  });
});
