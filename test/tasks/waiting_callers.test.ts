import { describe, expect, it } from "vitest";
import type { RequestItem } from "../../src/tasks/shapes/requests.ts";
import { ok } from "../engine/world.ts";
import { item, PROJECT, submit, TaskWorld } from "./world.ts";

describe("a caller that waits for items without sla", () => {
  const submitted = async (world: TaskWorld, items: readonly RequestItem[]) => {
    const tasks = await world.tasks();
    const startMs = world.clock.nowMs();
    const view = await world.settle(submit(tasks, items));
    return { tasks, view, waitedMs: world.clock.nowMs() - startMs };
  };
  const items = (count: number): RequestItem[] =>
    Array.from({ length: count }, (_, index) => item(index + 1));

  it("is answered after half a minute in which the provider was down; the items go on without it", async () => {
    let isDown = true;
    const world = new TaskWorld({
      answer: (line) => (isDown ? { ok: false, failure: "not_sent", message: "refused" } : ok(line)),
    });
    const { tasks, view, waitedMs } = await submitted(world, items(3));
    expect(view).toMatchObject({ status: "submitted", counts: { submitted: 3 } });
    expect(waitedMs).toBeGreaterThanOrEqual(30_000);
    expect(waitedMs).toBeLessThan(45_000);
    isDown = false;
    await world.clock.advance(60_000);
    expect(await world.settle(tasks.task(PROJECT, view.id))).toMatchObject({
      status: "completed",
      counts: { completed: 3 },
    });
  });

  it("is answered after ten minutes where answers may take longer, which arrive all the same", async () => {
    const world = new TaskWorld({
      config: { attemptMsMax: 1_800_000 },
      answer: (line) => ({ afterMs: line === 1 ? 1_000 : 900_000, result: ok(line) }),
    });
    const { tasks, view, waitedMs } = await submitted(world, items(2));
    expect(waitedMs).toBeGreaterThanOrEqual(600_000);
    expect(waitedMs).toBeLessThan(601_000);
    expect(view).toMatchObject({ status: "submitted", counts: { submitted: 1, completed: 1 } });
    await world.clock.advance(600_000);
    expect(await world.settle(tasks.task(PROJECT, view.id))).toMatchObject({ counts: { completed: 2 } });
    expect(world.sent).toHaveLength(2);
  });

  it("waits no longer once another process takes the work over, also where nothing was released before", async () => {
    const world = new TaskWorld({ answer: () => "hang" });
    world.file("f1", 3);
    const tasks = await world.tasks();
    const large = { items: [{ file_id: "f1" }], hasOutputFile: true };
    const waiting = [submit(tasks, items(2)), tasks.submit(PROJECT, large)];
    await world.clock.advance(1_000);
    expect(world.sent.length).toBe(5);
    const startMs = world.clock.nowMs();
    tasks.releaseAll();
    for (const each of [...waiting, submit(tasks, items(2)), tasks.submit(PROJECT, large)])
      expect(await world.settle(each)).toMatchObject({ status: "submitted" });
    expect(world.clock.nowMs() - startMs).toBeLessThan(100);
  });

  it("is looked for with one timer each for small and large tasks, however often they are released", async () => {
    const world = new TaskWorld({ answer: () => "hang" });
    const tasks = await world.tasks();
    const before = world.clock.pendingTimers;
    tasks.release();
    tasks.release();
    await world.clock.advance(1_000);
    expect(world.clock.pendingTimers - before).toBe(2);
    tasks.releaseAll();
    tasks.releaseAll();
    await world.clock.advance(1_000);
    expect(world.clock.pendingTimers - before).toBe(0);
  });
});
