/** Tasks of few items of one sla that go with batches: they look, cost and end as other tasks do. */
import { describe, expect, it } from "vitest";
import { nanoOf } from "../../src/price/nano.ts";
import type { OpenedTasks } from "../../src/tasks/open_tasks.ts";
import { createRandom } from "../../src/testing/random.ts";
import { paidTwice } from "../engine/batches/books.ts";
import { WIRES, type WireCase, wireCase } from "../engine/batches/wires.ts";
import { batchService, PROJECT } from "./batch_service.ts";

const DAY = 1_440;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const anthropic = wireCase("anthropic");
const SLOW = { times: { p50: 2 * HOUR_MS, p90: 3 * HOUR_MS, p99: 4 * HOUR_MS } };

const itemsOf = (model: string, count: number, sla = DAY) =>
  Array.from({ length: count }, (_, line) => ({
    model,
    input: `prompt ${line + 1}`,
    maxOutputTokens: 64,
    sla,
  }));

function post(tasks: OpenedTasks, items: ReturnType<typeof itemsOf>) {
  return tasks.submit(PROJECT, { items, hasOutputFile: true });
}

describe.each(WIRES.slice(0, 3))("a posted task of 1,000 items with a day, for $name", (wire) => {
  it("is answered at half of the list price, as its objects, receipts and usage say", async () => {
    const { world, fake, events, tasksOn, usage } = batchService(wire);
    const opened = await world.opened();
    const tasks = await tasksOn(opened);
    const posted = await world.settle(post(tasks, itemsOf(wire.model, 1_000)));
    expect(posted).toMatchObject({ status: "submitted", totalItems: 1_000, counts: { submitted: 1_000 } });
    await world.clock.advance(6 * HOUR_MS);
    const view = await world.settle(tasks.task(PROJECT, posted.id));
    expect(view).toMatchObject({ status: "completed", counts: { completed: 1_000 } });
    const { items: objects } = await world.settle(tasks.objects(PROJECT, posted.id, { limit: 1_000 }));
    for (const [line, { output }] of objects.entries())
      expect(output?.text).toMatch(new RegExp(`to prompt ${line + 1}$`));
    const { listUsd, billedUsd } = view.usage;
    expect(2 * nanoOf(billedUsd)).toBe(nanoOf(listUsd));
    expect(nanoOf(billedUsd)).toBe(fake.ledger.sums().nanoUsd);
    const receipt = await world.settle(tasks.receipt(PROJECT, objects[7]?.object_id ?? ""));
    expect(receipt).toMatchObject({ lane: "batch", model: wire.model, attempts: 1, isMet: true });
    expect(receipt.batch).toBe([...fake.ledger.batches.keys()][0]);
    expect(await world.settle(usage())).toEqual({
      ...{ items: 1_000, listNanos: nanoOf(listUsd), billedNanos: nanoOf(billedUsd) },
    });
    expect(events).toEqual([{ kind: "completed", project: PROJECT, taskId: posted.id }]);
    expect(fake.ledger.batches.size).toBe(1);
    await world.settle(opened.engine.close());
  });
});

describe("a posted task that realtime cannot do within its sla", () => {
  const limited = (wire: WireCase) => ({ limits: { [wire.name]: { requestsPerMinute: 1 } } });

  it("is accepted and answered in time where a batch ends in time with the likelihood that is asked for", async () => {
    const { world, fake, tasksOn } = batchService(anthropic, {}, limited(anthropic));
    const opened = await world.opened();
    const tasks = await tasksOn(opened);
    const posted = await world.settle(post(tasks, itemsOf(anthropic.model, 2_000)));
    await world.clock.advance(DAY * 60_000);
    const { counts, usage } = await world.settle(tasks.task(PROJECT, posted.id));
    expect(counts.completed).toBe(2_000);
    expect(usage.billedUsd / usage.listUsd).toBeLessThan(0.55);
    expect(nanoOf(usage.billedUsd)).toBe(fake.ledger.sums().nanoUsd);
    await world.settle(opened.engine.close());
  });

  it("is refused where its window is too short for that, with the earliest sla that batches keep", async () => {
    const { world, tasksOn } = batchService(anthropic, {}, limited(anthropic));
    const opened = await world.opened();
    const tasks = await tasksOn(opened);
    const refused = post(tasks, itemsOf(anthropic.model, 2_000, 15));
    await expect(world.settle(refused)).rejects.toMatchObject({
      code: "sla_infeasible",
      details: { earliestSlaMinutes: 27 }, // 99 of 100 batches end within 21 minutes, a cancel takes 5
    });
    await world.settle(post(tasks, itemsOf(anthropic.model, 2_000, 27)));
    await world.settle(opened.engine.close());
  });

  it("is as feasible in a quote for its project", async () => {
    const { world } = batchService(anthropic, {}, limited(anthropic));
    world.input(2_000, anthropic.model);
    const { engine } = await world.opened();
    const { slas } = await world.settle(engine.quote("/in.jsonl", { slas: [15, 27, DAY], project: PROJECT }));
    expect(slas.map(({ is_feasible }) => is_feasible)).toEqual([false, true, true]);
    await world.settle(engine.close());
  });

  it.each([
    ["too few for a batch", anthropic, 90, 60],
    ["for a provider of which one batch in seven does not end", wireCase("openai"), 2_000, DAY],
  ] as const)("is refused where it is %s", async (_what, wire, count, sla) => {
    const { world, tasksOn } = batchService(wire, {}, limited(wire));
    const opened = await world.opened();
    const tasks = await tasksOn(opened);
    await expect(world.settle(post(tasks, itemsOf(wire.model, count, sla)))).rejects.toMatchObject({
      code: "sla_infeasible",
    });
    await world.settle(opened.engine.close());
  });
});

describe("a posted task that is with a batch", () => {
  it("shows its items as running, and ends as cancelled when it is cancelled", async () => {
    const { world, fake, events, tasksOn, usage } = batchService(anthropic, SLOW);
    const opened = await world.opened();
    const tasks = await tasksOn(opened);
    const { id } = await world.settle(post(tasks, itemsOf(anthropic.model, 200)));
    await world.clock.advance(HOUR_MS);
    const { items: before } = await world.settle(tasks.objects(PROJECT, id, { limit: 200 }));
    expect(new Set(before.map(({ status, phase }) => `${status} ${phase}`))).toEqual(
      new Set(["submitted running"]),
    );
    await world.settle(tasks.cancel(PROJECT, id));
    await world.clock.advance(HOUR_MS);
    const view = await world.settle(tasks.task(PROJECT, id));
    expect(view).toMatchObject({ status: "completed", isCancelled: true, counts: { submitted: 0 } });
    expect(view.counts.cancelled).toBeGreaterThan(0);
    expect(view.counts.completed + view.counts.cancelled).toBe(200);
    expect(nanoOf(view.usage.billedUsd)).toBe(fake.ledger.sums().nanoUsd);
    expect((await world.settle(usage())).billedNanos).toBe(fake.ledger.sums().nanoUsd);
    expect(fake.ledger.keptBatches).toEqual([]);
    expect(events).toHaveLength(1);
    await world.settle(opened.engine.close());
  });

  it("is on time although its batch stalls, also where the stall began in an earlier process", async () => {
    const stalled = { batchFaults: () => ({ isStalled: true }) };
    const { world, fake, events, tasksOn } = batchService(anthropic, {
      ...stalled,
      realtime: { times: { p50: 500, p90: 500, p99: 500 } },
    });
    let id = "";
    await world.killedWhile(createRandom(1), async (opened) => {
      const tasks = await tasksOn(opened);
      ({ id } = await world.settle(post(tasks, itemsOf(anthropic.model, 200))));
      await world.clock.advance(HOUR_MS);
    });
    expect(fake.ledger.batches.size).toBe(1);
    const opened = await world.opened();
    const tasks = await tasksOn(opened);
    await world.clock.advance(DAY * MINUTE_MS - HOUR_MS);
    const view = await world.settle(tasks.task(PROJECT, id));
    expect(view.counts).toMatchObject({ completed: 200, expired: 0 });
    expect(paidTwice(fake)).toEqual([]);
    expect(fake.ledger.batches.size).toBe(1);
    expect(events).toHaveLength(1);
    await world.settle(opened.engine.close());
  });

  it("expires at its deadline if neither its batch nor realtime answers, and costs nothing", async () => {
    const { world, fake, events, tasksOn, usage } = batchService(anthropic, {
      batchFaults: () => ({ isStalled: true }),
      faults: ({ kind }) => (kind === "realtime" ? { status: 503 } : undefined),
    });
    const opened = await world.opened();
    const tasks = await tasksOn(opened);
    const { id, deadlineWallMs = 0 } = await world.settle(post(tasks, itemsOf(anthropic.model, 100, 60)));
    await world.clock.advance(30 * MINUTE_MS);
    expect(fake.ledger.batches.size).toBe(1);
    await world.clock.advance(HOUR_MS);
    const view = await world.settle(tasks.task(PROJECT, id));
    expect(view).toMatchObject({ status: "completed", counts: { submitted: 0, completed: 0 } });
    expect(view.counts.expired).toBeGreaterThan(90); // some had failed so often that they ended before
    expect(view.finishedWallMs).toBeGreaterThanOrEqual(deadlineWallMs);
    expect(view.usage.billedUsd).toBe(0);
    expect((await world.settle(usage())).billedNanos).toBe(0);
    expect(fake.ledger.keptBatches).toEqual([]);
    expect(events).toHaveLength(1);
    await world.settle(opened.engine.close());
  });

  it.each([0, 2_000, HOUR_MS])("is found again %i ms after a kill: one batch, each item once", async (ms) => {
    const { world, fake, events, tasksOn, usage } = batchService(anthropic, SLOW);
    let id = "";
    await world.killedWhile(createRandom(ms), async (opened) => {
      const tasks = await tasksOn(opened);
      ({ id } = await world.settle(post(tasks, itemsOf(anthropic.model, 200))));
      await world.clock.advance(ms);
    });
    const opened = await world.opened();
    const tasks = await tasksOn(opened);
    await world.clock.advance(8 * HOUR_MS);
    const view = await world.settle(tasks.task(PROJECT, id));
    expect(view.counts).toMatchObject({ completed: 200 });
    expect(fake.ledger.keptBatches).toHaveLength(1);
    expect(paidTwice(fake)).toEqual([]);
    expect((await world.settle(usage())).billedNanos).toBe(fake.ledger.sums().nanoUsd);
    expect(events).toHaveLength(1);
    await world.settle(opened.engine.close());
  });

  it("holds its money under its project's cap until its batch has ended, and then what it took", async () => {
    const capUsd = 0.08; // 200 items are expected to take 0.054 USD at list price, and take 0.003 in a batch
    const { world, fake, tasksOn } = batchService(anthropic, SLOW, {}, capUsd);
    const opened = await world.opened();
    const tasks = await tasksOn(opened);
    const items = itemsOf(anthropic.model, 200);
    const { id } = await world.settle(post(tasks, items));
    await world.clock.advance(HOUR_MS);
    expect(fake.ledger.batches.size).toBe(1);
    await expect(world.settle(post(tasks, items))).rejects.toMatchObject({ code: "budget_exceeded" });
    await world.clock.advance(8 * HOUR_MS);
    const view = await world.settle(tasks.task(PROJECT, id));
    expect(view.counts).toMatchObject({ completed: 200 });
    expect(nanoOf(view.usage.billedUsd)).toBe(fake.ledger.sums().nanoUsd);
    expect(await world.settle(post(tasks, items))).toMatchObject({ status: "submitted" });
    await world.settle(opened.engine.close());
  });

  it("keeps no other task from its batch, however many of the project are with batches already", async () => {
    const { world, fake, tasksOn } = batchService(anthropic, SLOW, {
      lanes: { ...anthropic.config.lanes, minItems: 5 },
    });
    const opened = await world.opened();
    const tasks = await tasksOn(opened);
    for (let task = 0; task < 40; task += 1) await world.settle(post(tasks, itemsOf(anthropic.model, 5)));
    await world.clock.advance(HOUR_MS);
    expect(fake.ledger.batches.size).toBe(40);
    await world.clock.advance(8 * HOUR_MS);
    expect(fake.ledger.sums().nanoUsd).toBeGreaterThan(0);
    expect(tasks.openCounts()).toEqual({ tasks: 0, objects: 0 });
    await world.settle(opened.engine.close());
  });
});

describe("a posted task", () => {
  it("with an invalid item is refused, also where it would go with a batch", async () => {
    const { world, tasksOn } = batchService(anthropic);
    const opened = await world.opened();
    const tasks = await tasksOn(opened);
    const items = itemsOf(anthropic.model, 200).map((item, line) =>
      line === 7 ? { ...item, temperature: "hot" as never } : item,
    );
    await expect(world.settle(post(tasks, items))).rejects.toMatchObject({
      code: "usage",
      details: { param: "7.temperature" },
    });
    expect(world.disk.paths.filter((path) => path.startsWith("/data/lots"))).toEqual([]);
    await world.settle(opened.engine.close());
  });

  it.each([
    ["of a near sla", 2, {}],
    ["of a project without batches", DAY, { projects: { [PROJECT]: { lanes: { deny: ["batch"] } } } }],
  ])("%s is in the work log, in realtime", async (_which, sla, config) => {
    const { world, fake, tasksOn } = batchService(anthropic, {}, config);
    const opened = await world.opened();
    const tasks = await tasksOn(opened);
    const { id } = await world.settle(post(tasks, itemsOf(anthropic.model, 200, sla)));
    expect(world.disk.paths.filter((path) => path.startsWith("/data/lots"))).toEqual([]);
    await world.clock.advance(2 * MINUTE_MS);
    const view = await world.settle(tasks.task(PROJECT, id));
    expect(view.counts).toMatchObject({ completed: 200 });
    const { items: objects } = await world.settle(tasks.objects(PROJECT, id, { limit: 1 }));
    const receipt = await world.settle(tasks.receipt(PROJECT, objects[0]?.object_id ?? ""));
    expect(receipt).toMatchObject({ lane: "realtime", batch: null });
    expect(fake.ledger.batches.size).toBe(0);
    await world.settle(opened.engine.close());
  });

  it("has a price factor without its volume, and a lower one than a single item, which makes no batch of its own", async () => {
    const { world, tasksOn } = batchService(anthropic);
    const opened = await world.opened();
    const tasks = await tasksOn(opened);
    const factorsOf = async (count: number) => {
      const items = itemsOf(anthropic.model, count, 600).map((item) => ({
        ...item,
        input: "word ".repeat(200),
      }));
      const { id } = await world.settle(post(tasks, items));
      const { items: objects } = await world.settle(tasks.objects(PROJECT, id, { limit: count }));
      return [...new Set(objects.map(({ usage }) => usage.price_factor))];
    };
    const factors = await factorsOf(1_000);
    expect(factors).toEqual(await factorsOf(300));
    const [single = 0] = await factorsOf(1); // in realtime at list price, and sold for no less
    expect(factors).toHaveLength(1);
    expect(factors[0]).toBeLessThan(single);
    await world.settle(opened.engine.close());
  });
});
