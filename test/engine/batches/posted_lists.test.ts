/**
 * Lists of `engine.submit` that are few items of one sla: enough of them with a far sla go with a batch, all others with the work log.
 */
import { describe, expect, it } from "vitest";
import type { OpenedEngine } from "../../../src/engine/engine.ts";
import { createRandom } from "../../../src/testing/random.ts";
import type { Task } from "../../../src/work/task.ts";
import type { BatchFake } from "../../batch_servers/fake.ts";
import type { BatchWorld } from "./batch_world.ts";
import { paidTwice } from "./books.ts";
import { tallyOf } from "./tally.ts";
import { WIRES, type WireCase, wireCase, worldOf } from "./wires.ts";

const DAY = 1_440;
const MINUTE_MS = 60_000;
const QUICK = { times: { p50: 20_000, p90: 60_000, p99: 90_000 } };
const anthropic = wireCase("anthropic");

const listOf = ({ model }: WireCase, count: number, sla: number) =>
  Array.from({ length: count }, (_, line) => ({
    model,
    input: `prompt ${line + 1}`,
    maxOutputTokens: 64,
    sla,
  }));

/** A process that submits a list and waits until it is completed. */
async function answered(world: BatchWorld, items: ReturnType<typeof listOf>): Promise<Task> {
  const { engine } = await world.opened();
  const task = await world.settle(engine.submit(items).finished);
  await world.settle(engine.close());
  return task;
}

function expectAnswers(task: Task, items: number): void {
  expect(task.counts).toMatchObject({ completed: items });
  expect(new Set(task.objects.map(({ object_id }) => object_id)).size).toBe(items);
  for (const [line, { output }] of task.objects.entries())
    expect(output?.text).toMatch(new RegExp(`to prompt ${line + 1}$`));
}

/** Those of runs and batches: a list in the work log has none. */
const dataFilesOf = ({ disk }: BatchWorld) => disk.paths.filter((path) => path.startsWith("/data/"));

/** The next process ends the list with one batch, and pays for each item once. */
async function expectPaidOnce(
  { world, fake }: { readonly world: BatchWorld; readonly fake: BatchFake },
  id: string,
  items: number,
): Promise<void> {
  const { engine } = await world.opened();
  await world.clock.advance(6 * 60 * MINUTE_MS);
  const task = await world.settle(engine.task(id));
  await world.settle(engine.close());
  expectAnswers(task, items);
  expect(fake.ledger.keptBatches).toHaveLength(1);
  expect(paidTwice(fake)).toEqual([]);
  expect(tallyOf([task])).toMatchObject({ billedNanos: booksOf(fake), ambiguousNanos: 0 });
}

const booksOf = (fake: BatchFake): number => fake.ledger.sums().nanoUsd;

describe.each(WIRES.slice(0, 3))("a list of 1,000 items with a day, for $name", (wire) => {
  it("is answered by one batch at half of the list price", async () => {
    const { world, fake } = worldOf(wire);
    const task = await answered(world, listOf(wire, 1_000, DAY));
    expectAnswers(task, 1_000);
    const { tiers, listNanos, billedNanos, ambiguousNanos } = tallyOf([task]);
    expect({ tiers, ambiguousNanos }).toEqual({ tiers: { batch: 1_000 }, ambiguousNanos: 0 });
    expect(2 * billedNanos).toBe(listNanos);
    expect(billedNanos).toBe(booksOf(fake));
    expect(fake.ledger.batches.size).toBe(1);
  });

  it("is on time as a whole although its batch stalls, and nothing is paid twice", async () => {
    const { world, fake } = worldOf(wire, {
      batchFaults: () => ({ isStalled: true }),
      realtime: { times: { p50: 500, p90: 500, p99: 500 } }, // one that hangs is aborted, and paid for again
    });
    const task = await answered(world, listOf(wire, 1_000, DAY));
    expectAnswers(task, 1_000);
    expect(world.clock.nowMs()).toBeLessThan(DAY * MINUTE_MS);
    expect(paidTwice(fake)).toEqual([]);
    expect(tallyOf([task]).billedNanos).toBe(booksOf(fake));
  });

  it.each([1, 1_500, 60_000, 900_000])("finds its batch again after a kill %i ms later", async (ms) => {
    const { world, fake } = worldOf(wire, { seed: ms });
    let id = "";
    await world.killedWhile(createRandom(ms), async ({ engine }) => {
      id = (await world.settle(Promise.resolve(engine.submit(listOf(wire, 150, DAY))))).task_id;
      await world.clock.advance(ms);
    });
    await expectPaidOnce({ world, fake }, id, 150);
  });

  it.each(["before", "after"] as const)(
    "finds it after a kill exactly %s each step with it",
    async (when) => {
      let steps = 0;
      for (; ; steps += 1) {
        const { world, fake } = worldOf(wire, QUICK, { lanes: { ...wire.config.lanes, minItems: 20 } });
        let id = "";
        const work = async ({ engine }: OpenedEngine): Promise<void> => {
          const submitted = engine.submit(listOf(wire, 20, DAY));
          id = (await submitted).task_id;
          await submitted.finished;
        };
        if (!(await world.killedAt(steps + 1, when, work, createRandom(steps)))) break;
        await expectPaidOnce({ world, fake }, id, 20);
      }
      expect(steps).toBeGreaterThan(10);
    },
  );
});

describe("a list of few items of one sla", () => {
  it.each([
    ["its sla leaves no time for a batch", 1_000, 2, {}],
    ["it has fewer items than a batch is made of", 99, DAY, {}],
    ["its provider may not be asked for batches", 1_000, DAY, { lanes: { deny: ["anthropic:batch"] } }],
    [
      "its model may not be asked for in batches",
      1_000,
      DAY,
      { lanes: { models: { "anthropic:*": { deny: ["batch"] } } } },
    ],
    ["speed comes first", 1_000, DAY, { policy: "fastest" as const }],
  ])("is sent from the work log in realtime when %s", async (_why, count, sla, config) => {
    const { world, fake } = worldOf(anthropic, {}, config);
    const task = await answered(world, listOf(anthropic, count, sla));
    expectAnswers(task, count);
    expect(tallyOf([task]).tiers).toEqual({ standard: count });
    expect(fake.ledger.batches.size).toBe(0);
    expect(dataFilesOf(world)).toEqual([]);
  });

  it("goes to a tier that costs as little as a batch and is done earlier, from the work log", async () => {
    const openai = wireCase("openai");
    const { world, fake } = worldOf(openai, {}, { lanes: {} });
    const task = await answered(world, listOf(openai, 300, DAY));
    expectAnswers(task, 300);
    expect(tallyOf([task]).tiers["flex"]).toBeGreaterThan(250);
    expect(fake.ledger.batches.size).toBe(0);
    expect(dataFilesOf(world)).toEqual([]);
  });

  it("goes with a batch where that tier would take longer under the provider's limits", async () => {
    const openai = wireCase("openai");
    const limits = { openai: { requestsPerMinute: 10 } };
    const { world } = worldOf(openai, {}, { lanes: {}, limits });
    const task = await answered(world, listOf(openai, 300, DAY));
    expectAnswers(task, 300);
    expect(tallyOf([task]).tiers["batch"]).toBeGreaterThan(250);
  });

  it("goes with a batch from the work log while 256 runs are at work, which wait for batches of hours", async () => {
    const { world, fake } = worldOf(anthropic);
    const { engine, core } = await world.opened();
    for (let run = 0; run < 256; run += 1) core.atWork.add(`run ${run}`).add(`/out-${run}.jsonl`);
    const task = await world.settle(engine.submit(listOf(anthropic, 100, DAY)).finished);
    expect(tallyOf([task]).tiers).toEqual({ batch: 100 });
    expect(core.atWork.size).toBe(512);
    core.atWork.delete("run 0");
    const submitted = engine.submit(listOf(anthropic, 100, DAY));
    await world.settle(submitted);
    await world.clock.advance(30_000);
    expect(core.atWork.size).toBe(513);
    expect(tallyOf([await world.settle(submitted.finished)]).tiers).toEqual({ batch: 100 });
    expect(fake.ledger.batches.size).toBe(2);
    await world.settle(engine.close());
  });

  it("is removed with its batch when it is forgotten", async () => {
    const { world } = worldOf(anthropic);
    const { engine } = await world.opened();
    const { task_id } = await world.settle(engine.submit(listOf(anthropic, 100, DAY)).finished);
    await world.settle(engine.forget(task_id));
    expect(dataFilesOf(world)).toEqual([]);
    await world.settle(engine.close());
  });
});
