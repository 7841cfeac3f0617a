/** Times that are shown of a task fit each other, however the wall clock was set while it was open. */
import { expect, it } from "vitest";
import { item, PROJECT, submit, TaskWorld } from "./world.ts";

const MINUTE_MS = 60_000;

const CLOCKS = [
  ["30 minutes ahead when it is accepted", 30, false],
  ["50 minutes behind when it is accepted", -50, false],
  ["30 minutes ahead when it is accepted, and set right at a restart", 30, true],
  ["50 minutes behind when it is accepted, and set right at a restart", -50, true],
] as const;
const KINDS = [
  ["small", 5],
  ["large", 6],
] as const;

it.each(KINDS.flatMap(([kind, sla]) => CLOCKS.map((clock) => [kind, ...clock, sla] as const)))(
  "A %s task whose clock is %s shows when it ended beside its own times",
  async (_kind, _clock, minutes, isRestarted, sla) => {
    const world = new TaskWorld({ latencyMs: 5_000, config: { limits: { alpha: { concurrency: 1 } } } });
    let tasks = await world.tasks();
    await world.settle(submit(tasks, [item(9, 5)])); // so that it is known how long answers take
    await world.clock.advance(20_000);
    world.clock.jumpWall(minutes * MINUTE_MS);
    const sinceMs = world.clock.nowMs();
    const [{ id }, cancelled] = [
      await world.settle(submit(tasks, [item(1, 5), item(2, sla)])),
      await world.settle(submit(tasks, [item(3, 5), item(4, 5), item(5, sla), item(6, sla)])),
    ];
    await world.clock.advance(1_000);
    if (isRestarted) world.kill();
    world.clock.jumpWall(-minutes * MINUTE_MS);
    if (isRestarted) tasks = await world.tasks();
    await world.clock.advance(1_000);
    const open = await world.settle(tasks.task(PROJECT, cancelled.id));
    expect(open.isSlaAtRisk).toBe(false);
    expect((open.expectedEndWallMs ?? 0) - open.createdWallMs).toBeGreaterThan(0);
    expect((open.expectedEndWallMs ?? 0) - open.createdWallMs).toBeLessThan(5 * MINUTE_MS);
    await world.clock.advance(11_000);
    const cancelledMs = world.clock.nowMs();
    await world.settle(tasks.cancel(PROJECT, cancelled.id));
    await world.clock.advance(60_000);
    for (const [each, earliestMs] of [
      [id, 9_000],
      [cancelled.id, cancelledMs - sinceMs - 100],
    ] as const) {
      const {
        createdWallMs,
        deadlineWallMs,
        finishedWallMs = 0,
        status,
      } = await world.settle(tasks.task(PROJECT, each));
      expect(status).toBe("completed");
      expect(finishedWallMs - createdWallMs).toBeGreaterThan(earliestMs);
      expect(finishedWallMs - createdWallMs).toBeLessThan(world.clock.nowMs() - sinceMs);
      expect(finishedWallMs).toBeLessThan(deadlineWallMs ?? 0);
      const { items } = await world.settle(tasks.objects(PROJECT, each, { limit: 9 }));
      const { counts } = await world.settle(tasks.task(PROJECT, each));
      for (const end of ["completed", "cancelled"] as const)
        expect(items.filter(({ status: own }) => own === end)).toHaveLength(counts[end]);
    }
  },
);

it("A large task that ends after its clock was set right is used today, whatever its own times say", async () => {
  for (const days of [40, -40]) {
    const world = new TaskWorld({ latencyMs: 5_000 });
    const tasks = await world.tasks();
    const today = new Date(world.clock.wallMs()).toISOString().slice(0, 10);
    world.clock.jumpWall(days * 1_440 * MINUTE_MS);
    await world.settle(submit(tasks, [item(1, 5), item(2, 6)]));
    await world.clock.advance(1_000);
    world.clock.jumpWall(-days * 1_440 * MINUTE_MS);
    await world.clock.advance(60_000);
    const used = await world.settle(
      world.spending?.days(PROJECT, "2025-10-01", "2026-06-30") ?? Promise.resolve([]),
    );
    expect(used.map(({ day, items }) => [day, items])).toEqual([[today, 2]]);
  }
});
