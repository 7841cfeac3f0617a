/** What callers of tasks are answered while the disk is full. */
import { describe, expect, it } from "vitest";
import type { OpenedTasks } from "../../src/tasks/open_tasks.ts";
import { ok, status } from "../engine/world.ts";
import { item, PROJECT, submit, TaskWorld } from "./world.ts";

const SMALL = [item(1, 60)];
const LARGE = [item(1, 60), item(2, 90)];

/** Resolves with the code of the refusal, and after how long it came. */
async function refusal(
  world: TaskWorld,
  call: Promise<unknown>,
): Promise<{ code: unknown; afterMs: number }> {
  const sinceMs = world.clock.nowMs();
  const code = await world.settle(
    call.then(
      () => "answered",
      (error: { readonly code?: unknown }) => error.code,
    ),
  );
  return { code, afterMs: world.clock.nowMs() - sinceMs };
}

describe.each([
  ["small", SMALL],
  ["large", LARGE],
])("on a full disk, a %s task", (_, items) => {
  const changes = [
    ["that is cancelled", 60_000, (tasks: OpenedTasks, id: string) => tasks.cancel(PROJECT, id)],
    ["that is removed", 10, (tasks: OpenedTasks, id: string) => tasks.remove(PROJECT, id)],
  ] as const;
  it.each(changes)(
    "%s is refused with disk_full at once, and done when there is room",
    async (__, latencyMs, change) => {
      const world = new TaskWorld({ latencyMs });
      const tasks = await world.tasks();
      const { id } = await world.settle(submit(tasks, items));
      await world.clock.advance(5_000);
      world.store.failNext("disk_full", 10);
      for (let time = 0; time < 2; time += 1) {
        const { code, afterMs } = await refusal(world, change(tasks, id));
        expect(code).toBe("disk_full");
        expect(afterMs).toBeLessThan(1_000);
      }
      expect(
        (
          await refusal(
            world,
            change(
              tasks,
              id.replace(/^./, (char) => (char === "0" ? "1" : "0")),
            ),
          )
        ).code,
      ).toBe("not_found");
      let last: unknown = "disk_full";
      for (let time = 0; time < 20 && last === "disk_full"; time += 1) {
        await world.clock.advance(5_000);
        last = (await refusal(world, change(tasks, id))).code;
      }
      expect(["answered", "not_found"]).toContain(last); // a removal that was begun goes on
    },
  );

  it("that is posted is refused with disk_full at once, leaves nothing, and is taken when there is room", async () => {
    const world = new TaskWorld();
    const tasks = await world.tasks();
    world.store.failNext("disk_full", 2);
    for (let time = 0; time < 2; time += 1) {
      const { code, afterMs } = await refusal(world, submit(tasks, items));
      expect(code).toBe("disk_full");
      expect(afterMs).toBeLessThan(1_000);
      expect(world.isFull).toBe(true);
    }
    let last: unknown = "disk_full";
    for (let time = 0; time < 5 && last === "disk_full"; time += 1) {
      await world.clock.advance(1_000);
      last = (await refusal(world, submit(tasks, items))).code;
    }
    expect(last).toBe("answered");
    await world.clock.advance(60_000);
    expect((await world.settle(tasks.list(PROJECT, { limit: 10 }))).items).toHaveLength(1);
    expect(world.sent).toHaveLength(items.length);
    expect(world.isFull).toBe(false);
  });

  it("whose items are run again is refused with disk_full at once, and they run once when there is room", async () => {
    const world = new TaskWorld({ answer: () => status(400, "bad") });
    const tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, items));
    await world.clock.advance(60_000);
    const sent = world.sent.length;
    world.answer = (line) => ok(line);
    world.store.failNext("disk_full", 10);
    for (let time = 0; time < 2; time += 1) {
      const { code, afterMs } = await refusal(world, tasks.retry(PROJECT, id, ["invalid_request"]));
      expect(code).toBe("disk_full");
      expect(afterMs).toBeLessThan(1_000);
    }
    for (let time = 0; time < 20; time += 1) {
      await world.clock.advance(5_000);
      await refusal(world, tasks.retry(PROJECT, id, ["invalid_request"]));
    }
    await world.clock.advance(60_000);
    expect((await world.settle(tasks.task(PROJECT, id))).counts.completed).toBe(items.length);
    expect(world.sent).toHaveLength(sent + items.length);
  });
});

describe.each([
  ["a small", SMALL],
  ["a large", LARGE],
])("a store that fails as %s task is posted", (_, items) => {
  it("is a failure of the engine, of which the service is told", async () => {
    const world = new TaskWorld();
    const opened = await world.opened();
    const told: string[] = [];
    opened.core.recording.failures.add(({ code }) => told.push(code));
    const tasks = await world.tasksOn(opened);
    world.store.failNext("store_failed");
    expect((await refusal(world, submit(tasks, items))).code).toBe("store_failed");
    expect(told).toContain("store_failed");
  });
});
