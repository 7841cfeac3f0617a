/** What is told of tasks that are final stays so: over the end of their lots, restarts, and being forgotten by memory. */
import { describe, expect, it } from "vitest";
import { StepTimes } from "../../src/tasks/lots/step_times.ts";
import type { OpenedTasks } from "../../src/tasks/open_tasks.ts";
import type { TaskView } from "../../src/tasks/shapes/task_view.ts";
import { openaiAnswer } from "../../src/testing/index.ts";
import { status } from "../engine/world.ts";
import { item, PROJECT, submit, TaskWorld } from "./world.ts";

const items = (from: number, count: number, sla: number) =>
  Array.from({ length: count }, (_, index) => item(from + index, sla));

/** Everything that is shown of a task. */
async function shown(tasks: OpenedTasks, id: string) {
  const view = await tasks.task(PROJECT, id);
  const { items: objects } = await tasks.objects(PROJECT, id, { limit: 1_000 });
  const { etag, bytes } = await tasks.output(PROJECT, id);
  return { view, objects, etag, bytes };
}

/** What is seen of tasks the moment that they are final, before their lots are over. */
function watch(tasks: OpenedTasks, seen: Map<string, unknown>): void {
  tasks.onFinished(async ({ taskId }) => {
    const one = await shown(tasks, taskId);
    expect(one.view.status).toBe("completed");
    seen.set(taskId, seen.get(taskId) ?? one);
  });
}

const slow = () =>
  new TaskWorld({
    latencyMs: 100,
    answer: (line, attempt) =>
      line % 3 === 0 && attempt === 1
        ? status(500)
        : openaiAnswer(`answer ${line}`, { inputTokens: 7 + line, outputTokens: 1 + line / 7 }),
    config: {
      limits: { alpha: { requestsPerMinute: 60 } },
      prices: { "alpha:*": { inputUsdPerMillion: 0.37, outputUsdPerMillion: 1.13 } },
    },
  });

describe("a final task", () => {
  it("is shown as it was first seen, after restarts before and behind the end of its lots", async () => {
    const world = slow();
    const seen = new Map<string, unknown>();
    let tasks = await world.tasks();
    watch(tasks, seen);
    const submitted = await world.settle(
      Promise.all([
        submit(tasks, items(1, 5, 60)), // final long before the lot that it shares
        submit(tasks, items(101, 90, 60)),
        submit(tasks, items(301, 20, 60)), // cancelled, some of it answered
        submit(tasks, [...items(401, 5, 59), ...items(501, 5, 240)]),
      ]),
    );
    await world.clock.advance(20_000);
    await world.settle(tasks.cancel(PROJECT, submitted[2].id));
    await world.clock.advance(20_000);
    const early = new Map(seen);
    expect(early.has(submitted[0].id) && early.has(submitted[2].id)).toBe(true);
    expect(early.size).toBeLessThan(4);
    world.kill();
    await world.clock.advance(5_000);
    tasks = await world.tasks();
    watch(tasks, seen);
    for (const [id, one] of early) expect(await world.settle(shown(tasks, id))).toEqual(one);

    await world.clock.advance(600_000); // their lots are over
    expect(seen.size).toBe(4);
    for (const [id, one] of seen) expect(await world.settle(shown(tasks, id))).toEqual(one);
    world.kill();
    tasks = await world.tasks();
    await world.clock.advance(60_000);
    for (const [id, one] of seen) expect(await world.settle(shown(tasks, id))).toEqual(one);
  });

  it("ended when its last answer was durable, or when it was cancelled", async () => {
    const world = new TaskWorld({
      latencyMs: 2_000,
      config: { limits: { alpha: { requestsPerMinute: 6 } } },
    });
    const tasks = await world.tasks();
    const startMs = world.clock.wallMs();
    const [answered, unsent] = (await world.settle(
      Promise.all([submit(tasks, items(1, 1, 60)), submit(tasks, items(101, 30, 60))]),
    )) as [TaskView, TaskView];
    await world.clock.advance(30_000);
    const cancelledMs = world.clock.wallMs();
    await world.settle(tasks.cancel(PROJECT, unsent.id));
    await world.clock.advance(300_000);
    world.kill();
    const again = await world.tasks();
    const ends = [];
    for (const { id } of [answered, unsent]) {
      const { finishedWallMs = Number.NaN } = await world.settle(again.task(PROJECT, id));
      ends.push(finishedWallMs);
    }
    expect((ends[0] as number) - startMs).toBeGreaterThanOrEqual(2_000);
    expect((ends[0] as number) - startMs).toBeLessThan(5_000);
    expect((ends[1] as number) - cancelledMs).toBeGreaterThanOrEqual(0);
    expect((ends[1] as number) - cancelledMs).toBeLessThanOrEqual(2_500);
  });
});

describe("the times of steps", () => {
  it("are those of what stands in the output, and never fall", () => {
    const times = new StepTimes();
    expect([times.last, times.at(0)]).toEqual([undefined, undefined]);
    times.note(0, 10, 1_000);
    times.note(10, 10, 1_500); // wrote nothing
    times.note(10, 30, 2_000);
    times.note(10, 20, 3_000); // what stood there was damaged, and taken back
    times.note(20, 30, 2_500); // the wall clock was put back
    expect([0, 9, 10, 19, 20, 29, 30].map((offset) => times.at(offset))).toEqual([
      ...[1_000, 1_000, 3_000, 3_000, 3_000, 3_000],
      undefined,
    ]);
    expect(times.last).toBe(3_000);
  });
});
