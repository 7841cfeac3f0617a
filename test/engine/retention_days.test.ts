/** Lists that are removed by themselves, `retentionDays` after their end. */
import { describe, expect, it } from "vitest";
import { World } from "./world.ts";

const DAY_MS = 86_400_000;
const item = (line: number, sla?: number) => ({
  model: "alpha:m1",
  input: `[[${line}]] hello`,
  ...(sla === undefined ? {} : { sla }),
});
/** One that is a posted task, and one that is runs. */
const KINDS = [
  ["few items of one sla", [item(1), item(2)]],
  ["items of two slas", [item(1, 60), item(2, 120)]],
] as const;

describe.each(KINDS)("a list of %s", (_kind, items) => {
  it("is removed after its days, and is new under its name then; others stay", async () => {
    const world = new World();
    const engine = await world.engine();
    const { task_id: kept } = await world.settle(engine.submit(items, { id: "kept" }).finished);
    const { task_id: month } = await world.settle(
      engine.submit(items, { id: "month", retentionDays: 30 }).finished,
    );
    await world.clock.advance(29 * DAY_MS);
    expect((await world.settle(engine.submit(items, { id: "month", retentionDays: 30 }))).task_id).toBe(
      month,
    );
    expect(world.sent).toHaveLength(4);
    await world.clock.advance(1.5 * DAY_MS);
    await expect(world.settle(engine.task(month))).rejects.toMatchObject({ code: "not_found" });
    expect(await world.settle(engine.task(kept))).toMatchObject({ status: "completed" });
    await world.settle(engine.submit(items, { id: "month", retentionDays: 30 }).finished);
    expect(world.sent).toHaveLength(6);
    await world.settle(engine.close());
  });

  it("is removed by a later process, too", async () => {
    const world = new World();
    const engine = await world.engine();
    await world.settle(engine.submit([item(3)]).finished);
    const { task_id } = await world.settle(engine.submit(items, { retentionDays: 2 }).finished);
    await world.settle(engine.close());
    await world.clock.advance(3 * DAY_MS);
    const next = await world.engine();
    await world.clock.advance(10 * 60_000);
    await expect(world.settle(next.task(task_id))).rejects.toMatchObject({ code: "not_found" });
    await world.settle(next.close());
  });

  it("that is still at work stays until it has ended", async () => {
    const world = new World({ latencyMs: 3 * DAY_MS, config: { attemptMsMax: 5 * DAY_MS } });
    world.answer = () => "hang";
    const engine = await world.engine();
    const slow = items.map((each) => ({ ...each, sla: 5 * 1_440 }));
    const { task_id } = await world.settle(engine.submit(slow, { retentionDays: 1 }));
    await world.clock.advance(4 * DAY_MS);
    expect(await world.settle(engine.task(task_id))).toMatchObject({ status: "submitted" });
    await world.clock.advance(3 * DAY_MS);
    await expect(world.settle(engine.task(task_id))).rejects.toMatchObject({ code: "not_found" });
    await world.settle(engine.close());
  });
});

it("calls of many days leave no more rows than those of the last days", async () => {
  const world = new World();
  const { engine, core, openLog } = await world.opened();
  for (let day = 1; day <= 20; day += 1) {
    await world.settle(engine.submit([item(day)], { id: `call ${day}`, retentionDays: 2 }).finished);
    await world.clock.advance(DAY_MS);
  }
  const rows = await (await openLog()).rows.loggedTasks({ after: 0, limit: 1_000 });
  expect(rows.length).toBeLessThanOrEqual(4);
  expect(await core.storage.store.tasks({ limit: 100 })).toEqual([]);
  await world.settle(engine.close());
});

it.each([0, 0.5, 3_651, Number.NaN])("retentionDays of %s are refused", async (retentionDays) => {
  const world = new World();
  const engine = await world.engine();
  await expect(
    (async () => world.settle(engine.submit([item(1)], { retentionDays })))(),
  ).rejects.toMatchObject({ code: "usage", message: expect.stringContaining("retentionDays") });
  await world.settle(engine.close());
});
