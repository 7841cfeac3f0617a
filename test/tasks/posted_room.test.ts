/** Room in the backlog and money that open posted tasks hold: as much as they have left, through retries and restarts. */
import { describe, expect, it } from "vitest";
import type { OpenedTasks } from "../../src/tasks/open_tasks.ts";
import { ok, status } from "../engine/world.ts";
import { item, PROJECT, submit, TaskWorld } from "./world.ts";

const items = (from: number, count: number) =>
  Array.from({ length: count }, (_, index) => item(from + index, 60));

/** The most items that still have room beside what is open: tried with tasks that are refused one after the other. */
async function roomOf(world: TaskWorld, tasks: OpenedTasks, max: number): Promise<number> {
  for (let count = max; count > 0; count -= 1) {
    const submitting = submit(tasks, items(1_000, count)).then(
      () => true,
      (error: { readonly code: string }) => {
        expect(error.code).toBe("too_many");
        return false;
      },
    );
    if (await world.settle(submitting)) return count;
  }
  return 0;
}

/** Odd items are answered or refused at once, even ones when the test says so. */
function halfAnswered(): TaskWorld {
  const world = new TaskWorld({
    config: { prices: { "alpha:m1": { inputUsdPerMillion: 1, outputUsdPerMillion: 1 } } },
    answer: (line) => (line >= 1_000 || line % 2 === 0 ? "hang" : line === 1 ? status(400, "bad") : ok(line)),
  });
  world.backlog = { projectItems: 20 };
  return world;
}

describe("the room of an open posted task", () => {
  it("is what it has left after a restart, too", async () => {
    const world = halfAnswered();
    await world.settle(submit(await world.tasks(), items(1, 10)));
    await world.clock.advance(2_000); // 5 of the 10 have ended
    world.kill();
    const tasks = await world.settle(world.tasks());
    expect(await roomOf(world, tasks, 18)).toBe(15);
  });

  it("is free when its last item has ended in the process after", async () => {
    const world = halfAnswered();
    await world.settle(submit(await world.tasks(), items(1, 10)));
    await world.clock.advance(2_000);
    world.kill();
    world.answer = (line) => (line < 1_000 ? ok(line) : "hang");
    const tasks = await world.settle(world.tasks());
    await world.clock.advance(60_000);
    expect(await world.settle(submit(tasks, items(1_000, 1)))).toMatchObject({ status: "submitted" });
    expect(await roomOf(world, tasks, 19)).toBe(19);
  });

  it("is free when the rest of it expires in the process after", async () => {
    const world = halfAnswered();
    await world.settle(submit(await world.tasks(), items(1, 10)));
    await world.clock.advance(2_000);
    world.kill();
    const tasks = await world.settle(world.tasks());
    await world.clock.advance(3_700_000);
    expect(await world.settle(submit(tasks, items(1_000, 1)))).toMatchObject({ status: "submitted" });
    expect(await roomOf(world, tasks, 19)).toBe(19);
  });

  it.each(["while others of it are at work", "after a restart"])(
    "grows by items that are run again %s, and is all free at its end",
    async (when) => {
      const world = halfAnswered();
      let tasks = await world.tasks();
      const { id } = await world.settle(submit(tasks, items(1, 10)));
      await world.clock.advance(2_000);
      if (when === "after a restart") {
        world.kill();
        tasks = await world.settle(world.tasks());
      }
      world.answer = () => "hang";
      expect(await world.settle(tasks.retry(PROJECT, id, ["invalid_request"]))).toMatchObject({ items: 1 });
      expect(await roomOf(world, tasks, 16)).toBe(14);
      await world.settle(tasks.cancel(PROJECT, id));
      await world.clock.advance(3_700_000);
      expect(await world.settle(submit(tasks, items(2_000, 1)))).toMatchObject({ status: "submitted" });
      expect(await roomOf(world, tasks, 19)).toBe(19);
    },
  );
});

describe("the money of an open posted task", () => {
  const heldUsd = async (world: TaskWorld): Promise<number> =>
    (await world.settle(Promise.resolve(world.spending?.month(PROJECT))))?.heldUsd ?? Number.NaN;

  it("is held once after a restart, and free when its last item is noted", async () => {
    const world = halfAnswered();
    world.capUsd = 1;
    await world.settle(submit(await world.tasks(), items(1, 10)));
    const before = await heldUsd(world);
    expect(before).toBeGreaterThan(0);
    await world.clock.advance(2_000);
    world.kill();
    world.answer = ok;
    await world.settle(world.tasks());
    expect(await heldUsd(world)).toBeCloseTo(before / 2, 9); // for the items that are open
    await world.clock.advance(60_000);
    expect(await heldUsd(world)).toBe(0);
  });

  it("is free at its end when items of it were run again while others were at work", async () => {
    const world = halfAnswered();
    world.capUsd = 1;
    const tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, items(1, 10)));
    await world.clock.advance(2_000);
    const before = await heldUsd(world);
    await world.settle(tasks.retry(PROJECT, id, ["invalid_request"]));
    expect(await heldUsd(world)).toBeGreaterThan(before);
    await world.settle(tasks.cancel(PROJECT, id));
    await world.clock.advance(3_700_000);
    expect(await heldUsd(world)).toBe(0);
  });
});
