/** Times that are shown of a task fit each other, however the wall clock was set while it was open. */
import { expect, it } from "vitest";
import { item, PROJECT, submit, TaskWorld } from "./world.ts";

const MINUTE_MS = 60_000;

it.each([
  ["30 minutes ahead when it is accepted", 30, false],
  ["50 minutes behind when it is accepted", -50, false],
  ["30 minutes ahead when it is accepted, and set right at a restart", 30, true],
  ["50 minutes behind when it is accepted, and set right at a restart", -50, true],
])(
  "A small task whose clock is %s shows when it ended beside its own times",
  async (_, minutes, isRestarted) => {
    const world = new TaskWorld({ latencyMs: 5_000, config: { limits: { alpha: { concurrency: 1 } } } });
    let tasks = await world.tasks();
    world.clock.jumpWall(minutes * MINUTE_MS);
    const sinceMs = world.clock.nowMs();
    const [{ id }, cancelled] = [
      await world.settle(submit(tasks, [item(1, 5), item(2, 5)])),
      await world.settle(submit(tasks, [item(3, 5), item(4, 5), item(5, 5), item(6, 5)])),
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
    }
  },
);
