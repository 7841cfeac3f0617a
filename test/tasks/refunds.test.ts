/** Items that miss their deadlines get back a share of what they were charged: exactly, once, and to nobody else. */
import { describe, expect, it } from "vitest";
import type { DayUsage } from "../../src/tasks/usage/spending.ts";
import { openaiAnswer } from "../../src/testing/index.ts";
import { ok } from "../engine/world.ts";
import { item, PROJECT, submit, TaskWorld } from "./world.ts";

/** It is billed and sent again: 10 input tokens. */
const EMPTY = openaiAnswer("", { inputTokens: 10, outputTokens: 0 });
const MODEL = "alpha:m1";
const CHARGED_USD = 0.001;
const config = {
  prices: { [MODEL]: { inputUsdPerMillion: 100, outputUsdPerMillion: 100 } },
  refunds: { missedSla: 0.25 },
  projects: { other: { refunds: { missedSla: 0.5 } } },
};

/** Line 1 is billed once and then never answered; all others are answered. */
function lateWorld(extra: object = {}): TaskWorld {
  return new TaskWorld({
    config: { ...config, ...extra },
    answer: (line, attempt) => (line !== 1 ? ok(line) : attempt === 1 ? EMPTY : "hang"),
  });
}

async function daysOf(world: TaskWorld, project = PROJECT): Promise<readonly DayUsage[]> {
  const days = world.spending?.days(project, "2025-12-01", "2026-12-31");
  return (await world.settle(Promise.resolve(days))) ?? [];
}

async function refundUsd(world: TaskWorld, project = PROJECT): Promise<number> {
  return (await daysOf(world, project)).reduce((sum, day) => sum + (day.refundUsd ?? 0), 0);
}

describe("an item that misses its deadline", () => {
  it("gets back the share of its charge that is configured, and its model's sums say so", async () => {
    const world = lateWorld();
    const tasks = await world.tasks();
    await world.settle(submit(tasks, [item(1, 10), item(2, 10)]));
    await world.clock.advance(11 * 60_000);
    const [day] = await daysOf(world);
    expect(day?.refundUsd).toBe(CHARGED_USD / 4);
    expect(day?.models).toEqual({
      [MODEL]: expect.objectContaining({ items: 2, refundUsd: CHARGED_USD / 4, usd: day?.usd }),
    });
  });

  it("gets back the share of its project", async () => {
    const world = lateWorld();
    const tasks = await world.tasks();
    const items = [item(1, 10), item(2, 10)];
    await world.settle(tasks.submit("other", { items, hasOutputFile: false }));
    await world.clock.advance(11 * 60_000);
    expect([await refundUsd(world, "other"), await refundUsd(world)]).toEqual([CHARGED_USD / 2, 0]);
  });

  it("gets back what was promised when it was accepted, whatever is configured later", async () => {
    const world = lateWorld();
    await world.settle(submit(await world.tasks(), [item(1, 10)]));
    await world.clock.advance(60_000);
    world.kill();
    world.reconfigure({ ...config, refunds: { missedSla: 1 } });
    await world.settle(world.tasks());
    await world.clock.advance(11 * 60_000);
    expect(await refundUsd(world)).toBe(CHARGED_USD / 4);
  });

  it("gets it back in a file, too", async () => {
    const world = lateWorld();
    world.file("f1", 5);
    const tasks = await world.tasks();
    await world.settle(submit(tasks, [{ file_id: "f1", sla: 10 }]));
    await world.clock.advance(12 * 60_000);
    const [day] = await daysOf(world);
    expect([day?.items, day?.refundUsd]).toEqual([5, CHARGED_USD / 4]);
    expect(day?.models).toEqual({ [MODEL]: expect.objectContaining({ items: 5, usd: day?.usd }) });
  });

  it("keeps it when it is run again in time", async () => {
    const world = lateWorld();
    const tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, [item(1, 10), item(2, 10)]));
    await world.clock.advance(11 * 60_000);
    world.answer = (line) => ok(line);
    await world.settle(tasks.retry(PROJECT, id));
    await world.clock.advance(60_000);
    const [day] = await daysOf(world);
    expect([day?.items, day?.refundUsd]).toEqual([3, CHARGED_USD / 4]); // line 1 ended twice
    expect(day?.models?.[MODEL]).toMatchObject({ items: 3, refundUsd: CHARGED_USD / 4, usd: day?.usd });
  });
});

describe("nothing is given back", () => {
  it("of items that were in time or had no deadline", async () => {
    const world = new TaskWorld({ config });
    const tasks = await world.tasks();
    await world.settle(submit(tasks, [item(2, 10)]));
    await world.settle(submit(tasks, [item(3)]));
    await world.clock.advance(60_000);
    expect([await refundUsd(world), (await daysOf(world))[0]?.items]).toEqual([0, 2]);
  });

  it("without a configured share", async () => {
    const world = lateWorld({ refunds: {} });
    await world.settle(submit(await world.tasks(), [item(1, 10)]));
    await world.clock.advance(11 * 60_000);
    expect(await refundUsd(world)).toBe(0);
  });
});

describe.each([
  ["a small task", [item(1, 10), item(2, 10), item(3, 10)]],
  ["a file", [{ file_id: "f1", sla: 10 }]],
])("the refund of %s is counted once", (_, items) => {
  const killsMs = [1_000, 599_990, 600_010, 600_100, 600_260, 600_300, 603_000];
  it.each(killsMs)("when the process is killed after %i ms, and twice more", async (afterMs) => {
    const world = lateWorld({});
    world.file("f1", 3);
    await world.settle(submit(await world.tasks(), items as never));
    await world.clock.advance(afterMs);
    for (let kill = 0; kill < 3; kill += 1) {
      world.kill();
      await world.settle(world.tasks());
      await world.clock.advance(kill === 0 ? 700_000 : 5_000);
      const days = await daysOf(world);
      const sums = days.reduce((sum, { items: count }) => sum + count, 0);
      expect([sums, await refundUsd(world)]).toEqual([3, CHARGED_USD / 4]);
    }
  });
});
