/** What lots take of memory, and what becomes of tasks when a disk, a run or a listener fails. */
import { describe, expect, it } from "vitest";
import { Lot } from "../../src/tasks/lots/lot.ts";
import type { LotRecord } from "../../src/tasks/lots/lot_record.ts";
import { item, PROJECT, submit, TaskWorld, textOf } from "./world.ts";

const items = (from: number, count: number, sla?: number) =>
  Array.from({ length: count }, (_, index) => item(from + index, sla));

const PART = { lotId: "0b9d6a52-5df4-4a38-9b1c-54c9a4f7a001", lines: 1, items: 1, slaMinutes: null };

describe("a lot that tasks share", () => {
  const record = (lines: number): LotRecord => ({
    id: "0b9d6a52-5df4-4a38-9b1c-54c9a4f7a001",
    project: PROJECT,
    slaMinutes: null,
    acceptedWallMs: 0,
    isSealed: true,
    lines,
    items: lines,
    volumeTokens: 0,
    itemLines: [],
    itemOffsets: [],
  });

  it("takes memory for the lines it has, not for those it could have had", () => {
    const beforeBytes = process.memoryUsage().arrayBuffers;
    const lots = Array.from({ length: 1_000 }, () => new Lot(record(1), "/data/lots/one.jsonl"));
    for (const lot of lots) expect(lot.index.statusOf(1)).toBeUndefined();
    expect(process.memoryUsage().arrayBuffers - beforeBytes).toBeLessThan(1024 * 1024); // 154 MB with 4,096 each
    expect(lots).toHaveLength(1_000);
  });

  it("takes none for its lines while it waits and nobody looks at it", () => {
    const beforeBytes = process.memoryUsage().arrayBuffers;
    const lots = Array.from({ length: 250 }, () => new Lot(record(4_096), "/data/lots/one.jsonl"));
    for (const lot of lots)
      lot.add({ taskId: "one", firstLine: 1, lines: 4_096, open: 4_096, isCancelled: false });
    expect(process.memoryUsage().arrayBuffers - beforeBytes).toBeLessThan(1024 * 1024); // 38 MB before
    expect(lots[0]?.memberOf({ id: "one", parts: [{ ...PART, firstLine: 1 }] })?.lines).toBe(4_096);
    expect(lots[0]?.memberOf({ id: "other", parts: [{ ...PART, firstLine: 1 }] })).toBeUndefined();
  });
});

describe.each([2, -2])("a wall clock that is set by %i hours while a task is open", (hours) => {
  it.each([
    ["within its process", false],
    ["before the next process", true],
  ])("moves no deadline (%s)", async (_when, isKilled) => {
    const world = new TaskWorld({ answer: () => "hang" });
    let tasks = await world.tasks();
    const task = await world.settle(submit(tasks, items(1, 3, 5)));
    if (isKilled) world.kill();
    world.clock.jumpWall(hours * 3_600_000);
    if (isKilled) tasks = await world.tasks();
    await world.clock.advance(4.9 * 60_000);
    expect(await world.settle(tasks.task(PROJECT, task.id))).toMatchObject({ counts: { submitted: 3 } });
    await world.clock.advance(12_000);
    expect(await world.settle(tasks.task(PROJECT, task.id))).toMatchObject({ counts: { expired: 3 } });
  });
});

describe("items that were accepted a moment ago", () => {
  it.each([2, -2])("count for their deadline when the clock jumps by %s h", async (hours) => {
    const world = new TaskWorld({ answer: () => "hang" });
    const opened = await world.opened();
    const tasks = await world.tasksOn(opened);
    await world.settle(submit(tasks, items(1, 3, 60)));
    world.clock.jumpWall(hours * 3_600_000);
    const within = (minutes: number): number =>
      opened.core.sending.backlog.unreadItems(PROJECT, world.clock.nowMs() + minutes * 60_000);
    expect([59, 61].map(within)).toEqual([0, 3]);
  });
});

describe("a disk that fails", () => {
  it("for want of room leaves no object final whose line is not in the output", async () => {
    const world = new TaskWorld({ latencyMs: 1_000 });
    const tasks = await world.tasks();
    const [small, large] = await world.settle(
      Promise.all([
        submit(tasks, items(1, 3, 60)),
        submit(tasks, [...items(11, 2, 60), ...items(21, 2, 90)]),
      ]),
    );
    await world.clock.advance(500);
    world.disk.setFull(0);
    await world.clock.advance(20_000);
    for (const id of [small?.id ?? "", large?.id ?? ""]) {
      const view = await world.settle(tasks.task(PROJECT, id));
      const text = await world.settle(textOf(tasks, id));
      const lines = text === "" ? 0 : text.trimEnd().split("\n").length;
      const { items: objects } = await world.settle(tasks.objects(PROJECT, id, { limit: 10 }));
      expect(objects.filter(({ status }) => status === "completed")).toHaveLength(view.counts.completed);
      expect(lines).toBe(view.counts.completed);
    }
    world.disk.setFull(Number.POSITIVE_INFINITY);
    await world.clock.advance(120_000);
    for (const id of [small?.id ?? "", large?.id ?? ""]) {
      const view = await world.settle(tasks.task(PROJECT, id));
      expect(view.status).toBe("completed");
      expect((await world.settle(textOf(tasks, id))).trimEnd().split("\n")).toHaveLength(view.totalItems);
    }
  });
});

describe("a listener that cannot take in the end of a task", () => {
  for (const [what, list] of [
    ["of few items", items(1, 2, 60)],
    ["of its own lots", [...items(1, 2, 60), ...items(11, 2, 90)]],
  ] as const)
    it(`is told again, of a task ${what}`, async () => {
      const world = new TaskWorld();
      const tasks = await world.tasks();
      const told: string[] = [];
      tasks.onFinished(async ({ taskId }) => {
        told.push(taskId);
        if (told.length === 1) throw new Error("no room to note it");
      });
      const task = await world.settle(submit(tasks, list));
      await world.clock.advance(150_000);
      expect(told).toEqual([task.id, task.id]);
    });
});

describe("removing", () => {
  it("a task twice at once, or while it is cancelled, leaves nothing of it and every list readable", async () => {
    const world = new TaskWorld({ commitMs: 5 });
    const tasks = await world.tasks();
    const task = await world.settle(submit(tasks, items(1, 2, 60)));
    const other = await world.settle(submit(tasks, items(11, 1, 60)));
    await world.clock.advance(10_000);
    const ended = await world.settle(
      Promise.allSettled([
        tasks.remove(PROJECT, task.id),
        tasks.remove(PROJECT, task.id),
        tasks.list(PROJECT, { limit: 10 }),
        tasks.task(PROJECT, task.id),
        tasks.cancel(PROJECT, task.id),
      ]),
    );
    for (const one of ended)
      if (one.status === "rejected") expect(one.reason).toMatchObject({ code: "not_found" });
    const { items: left } = await world.settle(tasks.list(PROJECT, { limit: 10 }));
    expect(left.map(({ id }) => id)).toEqual([other.id]);
  });

  it("of a task in a list that is being read takes the task out of it", async () => {
    const world = new TaskWorld({ commitMs: 5 });
    const tasks = await world.tasks();
    const ids: string[] = [];
    for (let one = 0; one < 3; one += 1) {
      ids.push((await world.settle(submit(tasks, items(one * 10 + 1, 1, 60)))).id);
      await world.clock.advance(1_000);
    }
    await world.clock.advance(10_000);
    for (let delay = 0; delay < 3; delay += 1) {
      const listing = tasks.list(PROJECT, { limit: 10 });
      for (let turn = 0; turn < delay; turn += 1) await Promise.resolve();
      const removing = tasks.remove(PROJECT, ids[delay] ?? "");
      await world.settle(Promise.all([listing, removing]));
    }
  });
});
describe("a cancelled task", () => {
  it("is final at once though its lot waits for others to end", async () => {
    const world = new TaskWorld({
      latencyMs: 1_000,
      config: { limits: { alpha: { requestsPerMinute: 60, concurrency: 1 } } },
    });
    const tasks = await world.tasks();
    for (let one = 0; one < 32; one += 1)
      await world.settle(submit(tasks, [...items(one * 10 + 1, 2, 60), ...items(one * 10 + 5, 1, 70)]));
    const late = await world.settle(submit(tasks, [...items(1_001, 2, 600), ...items(1_011, 2, 700)]));
    await world.settle(tasks.cancel(PROJECT, late.id));
    await world.clock.advance(2_000);
    expect(await world.settle(tasks.task(PROJECT, late.id))).toMatchObject({
      status: "completed",
      counts: { cancelled: 4 },
    });
  });

  it("keeps its version from when it is final", async () => {
    const world = new TaskWorld({
      latencyMs: 1_000,
      config: { limits: { alpha: { requestsPerMinute: 60 } } },
    });
    const tasks = await world.tasks();
    const [, task] = await world.settle(
      Promise.all([submit(tasks, items(1, 700, 60)), submit(tasks, items(1_001, 200, 60))]),
    );
    await world.clock.advance(2_000);
    let first = await world.settle(tasks.cancel(PROJECT, task?.id ?? ""));
    while (first.status === "submitted") {
      await world.clock.advance(1_000);
      first = await world.settle(tasks.task(PROJECT, first.id));
    }
    expect(first.counts.cancelled).toBeGreaterThan(0);
    for (let minute = 0; minute < 20; minute += 1) {
      await world.clock.advance(60_000);
      expect(await world.settle(tasks.task(PROJECT, first.id))).toEqual(first);
    }
  });
});

describe("a task without objects", () => {
  it("is completed when it was submitted", async () => {
    const world = new TaskWorld();
    world.file("0b9d6a52-5df4-4a38-9b1c-54c9a4f7a001", 0);
    const tasks = await world.tasks();
    const task = await world.settle(
      submit(tasks, [{ file_id: "0b9d6a52-5df4-4a38-9b1c-54c9a4f7a001", sla: 60 }]),
    );
    expect(task).toMatchObject({ status: "completed", totalItems: 0, finishedWallMs: task.createdWallMs });
    await world.clock.advance(10_000);
    expect(await world.settle(tasks.task(PROJECT, task.id))).toEqual(task);
  });
});
