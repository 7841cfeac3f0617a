/** Tasks that are cancelled, retried and removed by many callers at once. */
import { describe, expect, it } from "vitest";
import { EVERY_PROJECT } from "../../src/store/records.ts";
import { createRandom } from "../../src/testing/index.ts";
import { ok } from "../engine/world.ts";
import { item, PROJECT, submit, TaskWorld } from "./world.ts";

const items = (count: number, slas: readonly number[]) =>
  Array.from({ length: count }, (_, index) => item(index + 1, slas[index % slas.length]));

/** How a call ends, whenever that is. */
async function settled(call: Promise<unknown>): Promise<PromiseSettledResult<unknown>> {
  const [end] = await Promise.allSettled([call]);
  return end;
}

describe("a task that is cancelled, retried and removed by many at once", () => {
  it.each([
    ["of one sla", [60]],
    ["in lots of its own", [60, 90]],
  ])("is erased by one of them, and for the others it works or is not found: %s", async (_where, slas) => {
    let erased = 0;
    for (let seed = 1; seed <= 60; seed += 1) {
      const random = createRandom(seed);
      const upTo = (most: number): number => Math.floor(random() * (most + 1));
      const world = new TaskWorld({
        commitMs: 1 + upTo(6),
        answer: (line) => ({ afterMs: line * 7, result: ok(line) }),
      });
      const opened = await world.opened();
      const tasks = await world.tasksOn(opened);
      const { id } = await world.settle(submit(tasks, items(20, slas)));
      await world.clock.advance(upTo(400));
      const removals: Promise<PromiseSettledResult<unknown>>[] = [];
      const calls: Promise<PromiseSettledResult<unknown>>[] = [];
      for (let each = 0; each < 6; each += 1) {
        calls.push(settled(tasks.cancel(PROJECT, id)));
        await world.clock.advance(upTo(8));
        calls.push(settled(tasks.retry(PROJECT, id, ["cancelled"])));
        await world.clock.advance(upTo(8));
        removals.push(settled(tasks.remove(PROJECT, id)));
        await world.clock.advance(upTo(8));
      }
      const ended = await world.settle(Promise.all([...calls, ...removals]));
      for (const one of ended)
        if (one.status === "rejected")
          expect(["not_found", "conflict"], `seed ${seed}: ${one.reason}`).toContain(one.reason.code);
      const found = await settled(world.settle(tasks.task(PROJECT, id)));
      const succeeded = ended.slice(calls.length).filter(({ status }) => status === "fulfilled").length;
      expect(succeeded, `seed ${seed}`).toBe(found.status === "rejected" ? 1 : 0);
      erased += succeeded;
      await world.clock.advance(120_000);
      expect(world.faults, `seed ${seed}`).toEqual([]);
      if (succeeded === 0) continue;
      for (const collection of ["erasure", "lot", "open_lot"])
        expect(
          await world.settle(opened.core.storage.store.records(EVERY_PROJECT, { collection, limit: 1 })),
        ).toEqual([]);
    }
    expect(erased).toBeGreaterThan(10);
  });
});

it("a task whose lot is missing in the store is not removed: store_failed says so", async () => {
  const world = new TaskWorld();
  const before = await world.tasks();
  const { id } = await world.settle(submit(before, items(4, [60, 90])));
  await world.clock.advance(10_000);
  world.kill();
  const opened = await world.opened();
  const tasks = await world.tasksOn(opened);
  await world.settle(
    opened.core.storage.store.change([{ kind: "delete", collection: "lot", id: `${id}-0` }]),
  );
  await expect(world.settle(tasks.remove(PROJECT, id))).rejects.toMatchObject({ code: "store_failed" });
});
