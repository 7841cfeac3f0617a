/** When open tasks say that they will end, and what that says of their deadlines. */
import { describe, expect, it } from "vitest";
import type { EngineCore } from "../../src/engine/core.ts";
import type { NewWork } from "../../src/engine/lanes/forecasts.ts";
import type { Run } from "../../src/engine/runs/run.ts";
import { ExpectedEnds } from "../../src/tasks/large/expected_ends.ts";
import { Lot } from "../../src/tasks/lots/lot.ts";
import type { LotRecord } from "../../src/tasks/lots/lot_record.ts";
import type { Lots } from "../../src/tasks/lots/lots.ts";
import type { OpenedTasks } from "../../src/tasks/open_tasks.ts";
import type { TaskView } from "../../src/tasks/shapes/task_view.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { item, PROJECT, submit, TaskWorld } from "./world.ts";

const MINUTE_MS = 60_000;

const LOT: LotRecord = {
  id: "0b9d6a52-5df4-4a38-9b1c-54c9a4f7a001",
  project: PROJECT,
  slaMinutes: 60,
  acceptedWallMs: 0,
  isSealed: true,
  lines: 600,
  items: 600,
  volumeTokens: 0,
  itemLines: [],
  itemOffsets: [],
  works: [{ model: "alpha:m1", items: 600, inputTokens: 6_000 }],
};

const items = (from: number, count: number, sla: number) =>
  Array.from({ length: count }, (_, index) => item(from + index, sla));

/** An account that bears 60 requests a minute, so that a thousand items take a while. */
const slow = (requestsPerMinute = 60) =>
  new TaskWorld({ latencyMs: 100, config: { limits: { alpha: { requestsPerMinute } } } });

const look = (world: TaskWorld, tasks: OpenedTasks, { id }: TaskView) =>
  world.settle(tasks.task(PROJECT, id));

/** Minutes until its expected end. */
function minutesLeft(world: TaskWorld, { expectedEndWallMs }: TaskView): number {
  return ((expectedEndWallMs ?? Number.NaN) - world.clock.wallMs()) / MINUTE_MS;
}

describe("an open task", () => {
  it("has an expected end from its submission on, whether it shares a lot, runs, or waits for its turn", async () => {
    const world = slow();
    const tasks = await world.tasks();
    const shared = await world.settle(submit(tasks, items(1, 120, 60)));
    const large = await world.settle(submit(tasks, [...items(1_001, 60, 120), ...items(2_001, 60, 180)]));
    expect(minutesLeft(world, shared)).toBeGreaterThan(0.9);
    expect(minutesLeft(world, shared)).toBeLessThan(3.5);
    expect(minutesLeft(world, large)).toBeGreaterThan(minutesLeft(world, shared));
    for (let second = 0; second < 100; second += 1) {
      await world.clock.advance(1_000);
      for (const one of [shared, large]) {
        const seen = await look(world, tasks, one);
        if (seen.status !== "submitted") continue;
        expect(minutesLeft(world, seen)).toBeGreaterThanOrEqual(0);
        expect(minutesLeft(world, seen)).toBeLessThan(7);
      }
    }
    await world.clock.advance(10 * MINUTE_MS);
    const over = await look(world, tasks, shared);
    expect(over.status).toBe("completed");
    expect(over).not.toHaveProperty("expectedEndWallMs");
    expect(over).not.toHaveProperty("isSlaAtRisk");
  });

  it("of a lot that it shares ends when its own lines are done, not with those behind them", async () => {
    const world = slow();
    const tasks = await world.tasks();
    const submitted = await world.settle(
      Promise.all([submit(tasks, items(1, 30, 60)), submit(tasks, items(1_001, 600, 60))]),
    );
    const [first, second] = submitted as [TaskView, TaskView];
    await world.clock.advance(5_000);
    const views = [await look(world, tasks, first), await look(world, tasks, second)] as const;
    expect(minutesLeft(world, views[0])).toBeLessThan(2);
    expect(minutesLeft(world, views[1])).toBeGreaterThan(7);
  });

  it("has one after a restart, too, also before its lot was sealed or begun", async () => {
    const world = slow(6);
    const tasks = await world.tasks();
    const early = await world.settle(submit(tasks, items(1, 14, 60)));
    await world.clock.advance(12_000); // what answers take is kept by then
    const late = await world.settle(submit(tasks, items(101, 12, 60)));
    const large = await world.settle(submit(tasks, [...items(201, 6, 60), ...items(301, 6, 90)]));
    world.kill();
    const again = await world.tasks();
    for (const one of [early, late, large]) {
      const seen = await look(world, again, one);
      expect(minutesLeft(world, seen)).toBeGreaterThan(0.5);
      expect(minutesLeft(world, seen)).toBeLessThan(10);
    }
  });

  it("says that its sla is at risk as long as its expected end is behind a deadline of its items", async () => {
    const world = slow(6_000);
    let tasks = await world.tasks();
    const shared = await world.settle(submit(tasks, items(1, 300, 30)));
    const mixed = await world.settle(submit(tasks, [...items(1_001, 300, 30), ...items(2_001, 1, 4_000)]));
    expect([shared.isSlaAtRisk, mixed.isSlaAtRisk]).toEqual([false, false]);
    world.kill();
    world.reconfigure({ limits: { alpha: { requestsPerMinute: 6 } } }); // 600 items in 30 minutes no more
    tasks = await world.tasks();
    await world.clock.advance(1_000);
    const seen = await look(world, tasks, shared);
    expect(seen.isSlaAtRisk).toBe(true);
    expect(seen.expectedEndWallMs).toBeGreaterThan(seen.deadlineWallMs ?? Number.POSITIVE_INFINITY);
    expect((await look(world, tasks, mixed)).isSlaAtRisk).toBe(true);
    world.kill();
    world.reconfigure({ limits: { alpha: { requestsPerMinute: 6_000 } } });
    tasks = await world.tasks();
    await world.clock.advance(1_000);
    expect((await look(world, tasks, shared)).isSlaAtRisk ?? false).toBe(false);
  });

  it("has another version whenever its expected end is another, and keeps one that still holds", async () => {
    const world = slow(6);
    const tasks = await world.tasks();
    const task = await world.settle(submit(tasks, items(1, 60, 60)));
    const seen = new Map<string, TaskView>();
    for (let second = 0; second < 300; second += 1) {
      await world.clock.advance(1_000);
      const view = await look(world, tasks, task);
      expect(seen.get(view.version) ?? view).toEqual(view);
      seen.set(view.version, view);
    }
    expect(seen.size).toBeLessThan(120); // about one for each answer, and few for the estimate alone
  });
});

describe("an open task of a model that was never answered", () => {
  it.each([
    ["a small task", items(1, 200, 60)],
    ["a large task", [...items(1, 100, 60), ...items(201, 100, 61)]],
  ])("%s has no expected end before its first answer, and is not at risk for that", async (_name, given) => {
    const world = new TaskWorld({ latencyMs: 30_000, config: { limits: { alpha: { concurrency: 20 } } } });
    const tasks = await world.tasks();
    const posted = await world.settle(submit(tasks, given));
    for (let second = 0; second < 25; second += 5) {
      const { expectedEndWallMs, isSlaAtRisk } = await look(world, tasks, posted);
      expect({ expectedEndWallMs, isSlaAtRisk }).toEqual({
        expectedEndWallMs: undefined,
        isSlaAtRisk: false,
      });
      await world.clock.advance(5_000);
    }
    await world.clock.advance(9_000);
    const left = minutesLeft(world, await look(world, tasks, posted));
    expect(left).toBeGreaterThan(4);
    expect(left).toBeLessThan(6);
  });

  it("is at risk when answers of a minute would come after its deadline", async () => {
    const world = new TaskWorld({ latencyMs: 30_000, config: { limits: { alpha: { concurrency: 20 } } } });
    const tasks = await world.tasks();
    const posted = await world.settle(submit(tasks, items(1, 200, 5)));
    expect([posted.expectedEndWallMs, posted.isSlaAtRisk]).toEqual([undefined, true]);
  });
});

describe("an expected end", () => {
  it("is that of the hundred lanes with the most items, of a lot that names more models (I16)", () => {
    const clock = new FakeClock();
    const works = Array.from({ length: 1_000 }, (_, index) => ({
      model: `alpha:m${index}`,
      items: 1 + (index % 500),
      inputTokens: 10,
    }));
    const lot = new Lot({ ...LOT, works }, "/data/lots/one.jsonl");
    const asked: NewWork[] = [];
    const core = {
      storage: { clock },
      sending: {
        sender: {
          models: { of: (model: string) => ({ key: model }) },
          loads: { meanOutputTokensOf: () => 0 },
        },
        backlog: { unreadItems: () => 0 },
        lanes: {
          all: () => [],
          isStopped: () => false,
          forecasts: {
            expectedDone: (work: NewWork) => {
              asked.push(work);
              return { atMs: clock.nowMs() + work.items * 1_000, isKnown: true };
            },
          },
        },
      },
    } as unknown as EngineCore;
    const lots = { hasPosted: () => false, openLots: [lot] } as unknown as Lots;
    const part = { lotId: LOT.id, firstLine: 1, lines: 600, items: 600, slaMinutes: 60 };
    const wallMs = clock.wallMs() + 500_000;
    expect(new ExpectedEnds(core, lots).endOf(lot, part, 600, [])).toEqual({ wallMs, isKnown: true });
    expect(asked).toHaveLength(100);
    expect(Math.min(...asked.map(({ items }) => items))).toBe(451);
  });

  it("comes no sooner than the rate allows at which the project's work has gone for ten seconds", async () => {
    const clock = new FakeClock();
    const lot = new Lot({ ...LOT, acceptedWallMs: clock.wallMs() }, "/data/lots/one.jsonl");
    lot.begin({ look: () => ({ itemsPerSecond: 2 }) } as unknown as Run); // all that is asked of it
    lot.goLive(() => 600);
    const sender = { models: { of: () => ({ key: "alpha" }) }, loads: { meanOutputTokensOf: () => 0 } };
    const lanes = { forecasts: { expectedDone: () => ({ atMs: clock.nowMs(), isKnown: true }) } };
    const core = { storage: { clock }, sending: { sender, lanes } } as unknown as EngineCore;
    const ends = new ExpectedEnds(core, { hasPosted: () => false, openLots: [lot] } as unknown as Lots);
    const part = { lotId: LOT.id, firstLine: 1, lines: 600, items: 600, slaMinutes: 60 };
    const left: number[] = [];
    for (let second = 0; second <= 10; second += 1) {
      left.push((ends.endOf(lot, part, 600, [])?.wallMs ?? Number.NaN) - clock.wallMs());
      await clock.advance(1_000);
    }
    expect([left[0], left[9], left[10]]).toEqual([0, 0, 300_000]);
  });
});
