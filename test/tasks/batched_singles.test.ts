/** Tasks of one item that are posted together and share batches: they look, cost and end as other tasks do. */
import { describe, expect, it } from "vitest";
import type { OpenedEngine } from "../../src/engine/engine.ts";
import { nanoOf } from "../../src/price/nano.ts";
import type { OpenedTasks } from "../../src/tasks/open_tasks.ts";
import { createRandom } from "../../src/testing/random.ts";
import type { FakeOptions } from "../batch_servers/behaviour.ts";
import { paidTwice } from "../engine/batches/books.ts";
import { WIRES, wireCase } from "../engine/batches/wires.ts";
import { batchService, PROJECT } from "./batch_service.ts";

const DAY = 1_440;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const anthropic = wireCase("anthropic");
const SLOW = { times: { p50: 2 * HOUR_MS, p90: 3 * HOUR_MS, p99: 4 * HOUR_MS } };
const STALLED = { batchFaults: () => ({ isStalled: true }) };

/** Posts tasks of one item; resolves with their ids once all are accepted. */
async function posted(tasks: OpenedTasks, model: string, count: number, sla = DAY, from = 1) {
  const views = await Promise.all(
    Array.from({ length: count }, (_, index) => {
      const item = { model, input: `prompt ${from + index}`, maxOutputTokens: 64, sla };
      return tasks.submit(PROJECT, { items: [item], hasOutputFile: true });
    }),
  );
  return views.map(({ id }) => id);
}

async function objectOf(tasks: OpenedTasks, id: string) {
  const { items } = await tasks.objects(PROJECT, id, { limit: 1 });
  return items[0];
}

/** How they have ended together. */
async function sumsOf(tasks: OpenedTasks, ids: readonly string[]) {
  const sums = { completed: 0, cancelled: 0, expired: 0, failed: 0, submitted: 0 };
  let [listNanos, billedNanos] = [0, 0];
  for (const id of ids) {
    const { counts, usage } = await tasks.task(PROJECT, id);
    for (const [status, count] of Object.entries(counts)) sums[status as keyof typeof sums] += count;
    listNanos += nanoOf(usage.listUsd);
    billedNanos += nanoOf(usage.billedUsd);
  }
  return { ...sums, listNanos, billedNanos };
}

/** A service with posted tasks, an hour after they were posted. */
async function waiting(
  options: Parameters<typeof batchService>[1] = SLOW,
  count = 150,
  more: readonly string[] = [],
) {
  const service = batchService(anthropic, options);
  const opened = await service.world.opened();
  const tasks = await service.tasksOn(opened);
  const ids = await service.world.settle(posted(tasks, anthropic.model, count));
  for (const input of more) {
    const item = { model: anthropic.model, input, maxOutputTokens: 64, sla: DAY };
    const request = { items: [item], hasOutputFile: true };
    ids.push((await service.world.settle(tasks.submit(PROJECT, request))).id);
  }
  await service.world.clock.advance(HOUR_MS);
  const settle = <T>(promise: Promise<T>): Promise<T> => service.world.settle(promise);
  return { ...service, ...{ opened, tasks, ids, settle } };
}

describe.each(WIRES.slice(0, 3))("1,000 posted tasks of one item with a day, for $name", (wire) => {
  it("are answered at half of the list price, as objects, receipts, events and usage say", async () => {
    const { world, fake, events, tasksOn, usage } = batchService(wire);
    const opened = await world.opened();
    const tasks = await tasksOn(opened);
    const ids = await world.settle(posted(tasks, wire.model, 1_000));
    expect(await world.settle(tasks.task(PROJECT, ids[0] ?? ""))).toMatchObject({ status: "submitted" });
    await world.clock.advance(6 * HOUR_MS);
    const sums = await world.settle(sumsOf(tasks, ids));
    expect(sums).toMatchObject({ completed: 1_000, billedNanos: fake.ledger.sums().nanoUsd });
    expect(2 * sums.billedNanos).toBe(sums.listNanos);
    for (const [index, id] of ids.entries()) {
      const object = await world.settle(objectOf(tasks, id));
      expect(object?.output?.text).toMatch(new RegExp(`to prompt ${index + 1}$`));
    }
    const object = await world.settle(objectOf(tasks, ids[7] ?? ""));
    const receipt = await world.settle(tasks.receipt(PROJECT, object?.object_id ?? ""));
    expect(receipt).toMatchObject({ lane: "batch", model: wire.model, attempts: 1, isMet: true });
    expect(receipt.batch).toBe([...fake.ledger.batches.keys()][0]);
    const { listNanos, billedNanos } = sums;
    expect(await world.settle(usage())).toEqual({ items: 1_000, listNanos, billedNanos });
    expect(new Set(events.map(({ taskId }) => taskId))).toEqual(new Set(ids));
    expect(events).toHaveLength(1_000);
    expect(fake.ledger.batches.size).toBe(1);
    expect(tasks.openCounts()).toEqual({ tasks: 0, objects: 0 });
    await world.settle(opened.engine.close());
  });
});

describe("a posted task of one item that is with a batch", () => {
  it("is shown as running, and the others go on when it is cancelled: what its batch takes for it is its own", async () => {
    const { fake, tasks, ids, events, usage, world, opened, settle } = await waiting();
    const [id = "", ...others] = ids;
    expect(await settle(objectOf(tasks, id))).toMatchObject({ status: "submitted", phase: "running" });
    expect(await settle(tasks.cancel(PROJECT, id))).toMatchObject({ status: "submitted", isCancelled: true });
    await world.clock.advance(8 * HOUR_MS);
    expect(await settle(sumsOf(tasks, others))).toMatchObject({ completed: 149 });
    const { status, usage: taken } = await settle(tasks.task(PROJECT, id));
    expect({ status, billed: taken.billedUsd > 0 }).toEqual({ status: "completed", billed: true });
    expect((await settle(sumsOf(tasks, ids))).billedNanos).toBe(fake.ledger.sums().nanoUsd);
    expect((await settle(usage())).billedNanos).toBe(fake.ledger.sums().nanoUsd);
    expect(fake.ledger.keptBatches).toHaveLength(1);
    expect(events).toHaveLength(150);
    await settle(tasks.remove(PROJECT, id));
    await expect(settle(tasks.task(PROJECT, id))).rejects.toMatchObject({ code: "not_found" });
    await settle(opened.engine.close());
  });

  it("ends its batch when all of the batch are cancelled", async () => {
    const { fake, tasks, ids, events, world, opened, settle } = await waiting();
    for (const id of ids) await settle(tasks.cancel(PROJECT, id));
    await world.clock.advance(HOUR_MS / 2);
    const sums = await settle(sumsOf(tasks, ids));
    expect(sums.completed + sums.cancelled).toBe(150);
    expect(sums.cancelled).toBeGreaterThan(0);
    expect(sums.billedNanos).toBe(fake.ledger.sums().nanoUsd);
    expect(fake.ledger.keptBatches).toEqual([]);
    expect(events).toHaveLength(150);
    await settle(opened.engine.close());
  });

  it.each([0, 1])(
    "ends as cancelled where its batch did not finish it, after %i restarts",
    async (restarts) => {
      const { fake, world, tasksOn, events } = batchService(anthropic, {
        ...STALLED,
        realtime: { times: { p50: 500, p90: 500, p99: 500 } },
      });
      let [ids, cancelled]: [string[], string] = [[], ""];
      const begin = async (opened: OpenedEngine): Promise<OpenedTasks> => {
        const tasks = await tasksOn(opened);
        ids = await world.settle(posted(tasks, anthropic.model, 150));
        cancelled = ids[0] ?? "";
        await world.clock.advance(HOUR_MS / 4);
        await world.settle(tasks.cancel(PROJECT, cancelled));
        return tasks;
      };
      if (restarts > 0)
        await world.killedWhile(createRandom(1), async (opened) => void (await begin(opened)));
      const opened = await world.opened();
      const tasks = await (restarts > 0 ? tasksOn(opened) : begin(opened));
      await world.clock.advance(DAY * MINUTE_MS);
      const object = await world.settle(objectOf(tasks, cancelled));
      expect(object).toMatchObject({ status: "cancelled" });
      expect(await world.settle(sumsOf(tasks, ids))).toMatchObject({ completed: 149, cancelled: 1 });
      expect(paidTwice(fake)).toEqual([]);
      expect(events).toHaveLength(150);
      await world.settle(opened.engine.close());
    },
  );

  it("refuses to be removed, and runs again when it has failed: both times are its own", async () => {
    const { fake, tasks, ids, events, world, opened, settle } = await waiting(SLOW, 149, ["INVALID"]);
    const failed = ids.at(-1) ?? "";
    await expect(settle(tasks.remove(PROJECT, failed))).rejects.toMatchObject({ code: "conflict" });
    await world.clock.advance(8 * HOUR_MS);
    expect(await settle(sumsOf(tasks, ids))).toMatchObject({ completed: 149, failed: 1 });
    expect((await settle(tasks.retry(PROJECT, failed, ["invalid_request"]))).items).toBe(1);
    await world.clock.advance(MINUTE_MS);
    expect((await settle(objectOf(tasks, failed)))?.status).toBe("failed");
    expect(events.filter(({ taskId }) => taskId === failed)).toHaveLength(2);
    expect((await settle(sumsOf(tasks, ids))).billedNanos).toBe(fake.ledger.sums().nanoUsd);
    expect(paidTwice(fake)).toEqual([]);
    await settle(opened.engine.close());
  });

  it("holds its money under its project's cap until its batch has ended, and then what it took", async () => {
    const capUsd = 0.06; // 150 items are expected to take 0.04 USD at list price, and take 0.002 in a batch
    const { world, fake, tasksOn } = batchService(anthropic, SLOW, {}, capUsd);
    const opened = await world.opened();
    const tasks = await tasksOn(opened);
    const ids = await world.settle(posted(tasks, anthropic.model, 150));
    await world.clock.advance(HOUR_MS);
    expect(fake.ledger.batches.size).toBe(1);
    const item = { model: anthropic.model, input: "prompt 151", maxOutputTokens: 64, sla: DAY };
    const more = { items: Array<typeof item>(90).fill(item), hasOutputFile: true };
    const refused = { code: "budget_exceeded" };
    await expect(world.settle(tasks.submit(PROJECT, more))).rejects.toMatchObject(refused);
    await world.clock.advance(8 * HOUR_MS);
    const booksNanos = fake.ledger.sums().nanoUsd;
    expect(await world.settle(sumsOf(tasks, ids))).toMatchObject({ completed: 150, billedNanos: booksNanos });
    expect(await world.settle(tasks.submit(PROJECT, more))).toMatchObject({ status: "submitted" });
    await world.settle(opened.engine.close());
  });

  it("expires at its deadline if neither its batch nor realtime answers, and costs nothing", async () => {
    const { fake, world, tasksOn, events, usage } = batchService(anthropic, {
      ...STALLED,
      faults: ({ kind }) => (kind === "realtime" ? { status: 503 } : undefined),
    });
    const opened = await world.opened();
    const tasks = await tasksOn(opened);
    const ids = await world.settle(posted(tasks, anthropic.model, 120, 60));
    await world.clock.advance(30 * MINUTE_MS);
    expect(fake.ledger.batches.size).toBe(1);
    await world.clock.advance(HOUR_MS);
    const sums = await world.settle(sumsOf(tasks, ids));
    expect(sums).toMatchObject({ submitted: 0, completed: 0, billedNanos: 0 });
    expect(sums.expired).toBeGreaterThan(100);
    expect((await world.settle(usage())).billedNanos).toBe(0);
    expect(fake.ledger.keptBatches).toEqual([]);
    expect(events).toHaveLength(120);
    await world.settle(opened.engine.close());
  });

  it.each([0, 2_000, 11_000, HOUR_MS])(
    "is found again %i ms after a kill: one batch, each task once",
    async (ms) => {
      const { world, fake, events, tasksOn, usage } = batchService(anthropic, SLOW);
      let ids: string[] = [];
      await world.killedWhile(createRandom(ms), async (opened) => {
        const tasks = await tasksOn(opened);
        ids = await world.settle(posted(tasks, anthropic.model, 150));
        await world.clock.advance(ms);
      });
      const opened = await world.opened();
      const tasks = await tasksOn(opened);
      await world.clock.advance(8 * HOUR_MS);
      const sums = await world.settle(sumsOf(tasks, ids));
      expect(sums).toMatchObject({ completed: 150, billedNanos: fake.ledger.sums().nanoUsd });
      expect(fake.ledger.keptBatches).toHaveLength(1);
      expect(paidTwice(fake)).toEqual([]);
      expect((await world.settle(usage())).billedNanos).toBe(fake.ledger.sums().nanoUsd);
      expect(events).toHaveLength(150);
      await world.settle(opened.engine.close());
    },
  );

  it("stays with its batch when the service is closed, and is collected by the next one", async () => {
    const { world, fake, tasks, ids, opened, tasksOn, settle } = await waiting();
    await settle(tasks.close());
    await settle(opened.engine.close());
    const next = await world.opened();
    const again = await tasksOn(next);
    await world.clock.advance(8 * HOUR_MS);
    const sums = await settle(sumsOf(again, ids));
    expect(sums).toMatchObject({ completed: 150, billedNanos: fake.ledger.sums().nanoUsd });
    expect(fake.ledger.batches.size).toBe(1);
    await settle(next.engine.close());
  });
});

describe("posted tasks of one item", () => {
  it.each([
    ["that are too few for a batch", 20, DAY],
    ["of a near sla", 150, 2],
  ])("%s go in realtime and are on time", async (_which, count, sla) => {
    const { world, fake, tasksOn } = batchService(anthropic);
    const opened = await world.opened();
    const tasks = await tasksOn(opened);
    const ids = await world.settle(posted(tasks, anthropic.model, count, sla));
    await world.clock.advance(2 * MINUTE_MS);
    expect(await world.settle(sumsOf(tasks, ids))).toMatchObject({ completed: count });
    expect(fake.ledger.batches.size).toBe(0);
    await world.settle(opened.engine.close());
  });

  it("that wait for others are cancelled at once", async () => {
    const { world, tasksOn, events } = batchService(anthropic);
    const opened = await world.opened();
    const tasks = await tasksOn(opened);
    const [id = ""] = await world.settle(posted(tasks, anthropic.model, 1));
    await world.clock.advance(1_000);
    expect(await world.settle(objectOf(tasks, id))).toMatchObject({ status: "submitted", phase: "queued" });
    const view = await world.settle(tasks.cancel(PROJECT, id));
    expect(view).toMatchObject({ status: "completed", counts: { cancelled: 1 } });
    await world.clock.advance(MINUTE_MS);
    expect(events).toHaveLength(1);
    await world.settle(opened.engine.close());
  });

  it("of a model of which there are too few go in realtime beside those that share a batch", async () => {
    const { world, fake, tasksOn } = batchService(anthropic, SLOW);
    const opened = await world.opened();
    const tasks = await tasksOn(opened);
    const many = posted(tasks, anthropic.model, 120);
    const few = posted(tasks, "anthropic:claude-sonnet-4-5", 20, DAY, 201);
    const [manyIds, fewIds] = await world.settle(Promise.all([many, few]));
    await world.clock.advance(MINUTE_MS);
    expect(await world.settle(sumsOf(tasks, fewIds))).toMatchObject({ completed: 20 });
    expect(await world.settle(sumsOf(tasks, manyIds))).toMatchObject({ submitted: 120 });
    expect(fake.ledger.batches.size).toBe(1);
    await world.settle(opened.engine.close());
  });

  it("expire at their own deadlines, although their group ends by the earliest", async () => {
    const limits = { anthropic: { requestsPerMinute: 1 } };
    const faults: FakeOptions["faults"] = ({ kind }) => (kind === "create" ? { status: 403 } : undefined);
    const { world, tasksOn } = batchService(anthropic, { faults }, { limits });
    const opened = await world.opened();
    const tasks = await tasksOn(opened);
    const first = await world.settle(posted(tasks, anthropic.model, 50, 60));
    await world.clock.advance(8_000);
    const second = await world.settle(posted(tasks, anthropic.model, 100, 60, 51));
    await world.clock.advance(HOUR_MS - 3_000);
    const early = await world.settle(sumsOf(tasks, second));
    expect((await world.settle(sumsOf(tasks, first))).expired).toBeGreaterThan(10);
    expect(early.submitted).toBeGreaterThan(50);
    expect(early.expired).toBe(0);
    await world.clock.advance(20 * MINUTE_MS);
    expect(await world.settle(sumsOf(tasks, second))).toMatchObject({ submitted: 0 });
    await world.settle(opened.engine.close());
  });

  it.each([11_500, HOUR_MS])("of several items share batches, also %i ms after a kill", async (ms) => {
    const { world, fake, tasksOn, events } = batchService(anthropic, SLOW);
    let ids: string[] = [];
    await world.killedWhile(createRandom(ms), async (opened) => {
      const tasks = await tasksOn(opened);
      const views = Array.from({ length: 12 }, (_, task) => {
        const items = Array.from({ length: 15 }, (_item, index) => ({
          ...{ model: anthropic.model, maxOutputTokens: 64, sla: DAY },
          input: `prompt ${task * 15 + index}`,
        }));
        return tasks.submit(PROJECT, { items, hasOutputFile: false });
      });
      ids = (await world.settle(Promise.all(views))).map(({ id }) => id);
      await world.clock.advance(ms);
    });
    const opened = await world.opened();
    const tasks = await tasksOn(opened);
    await world.clock.advance(8 * HOUR_MS);
    const sums = await world.settle(sumsOf(tasks, ids));
    expect(sums).toMatchObject({ completed: 180, billedNanos: fake.ledger.sums().nanoUsd });
    expect(2 * sums.billedNanos).toBe(sums.listNanos);
    expect(fake.ledger.keptBatches).toHaveLength(1);
    expect(paidTwice(fake)).toEqual([]);
    expect(events).toHaveLength(12);
    await world.settle(opened.engine.close());
  });

  it("share batches also where they come one a second", async () => {
    const { world, fake, tasksOn } = batchService(anthropic, SLOW);
    const opened = await world.opened();
    const tasks = await tasksOn(opened);
    const ids: string[] = [];
    for (let second = 0; second < 600; second += 1) {
      ids.push(...(await world.settle(posted(tasks, anthropic.model, 1, DAY, second + 1))));
      await world.clock.advance(1_000);
    }
    await world.clock.advance(8 * HOUR_MS);
    const { completed, listNanos, billedNanos } = await world.settle(sumsOf(tasks, ids));
    expect({ completed, isHalf: 2 * billedNanos === listNanos }).toEqual({ completed: 600, isHalf: true });
    expect(fake.ledger.batches.size).toBeLessThanOrEqual(3);
    await world.settle(opened.engine.close());
  });
});
