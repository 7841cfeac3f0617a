/**
 * Lists of `engine.submit` of one item each: those that come together, and of which enough have a far sla, share batches.
 */
import { describe, expect, it } from "vitest";
import { BATCHES } from "../../../src/engine/batches/batch_record.ts";
import type { OpenedEngine } from "../../../src/engine/engine.ts";
import { POSTED_GROUPS } from "../../../src/engine/posted/batched_groups.ts";
import { EVERY_PROJECT } from "../../../src/store/records.ts";
import { createRandom } from "../../../src/testing/random.ts";
import type { Task } from "../../../src/work/task.ts";
import type { BatchFake } from "../../batch_servers/fake.ts";
import type { BatchWorld } from "./batch_world.ts";
import { paidTwice } from "./books.ts";
import { losses } from "./kill_trials.ts";
import { tallyOf } from "./tally.ts";
import { WIRES, type WireCase, wireCase, worldOf } from "./wires.ts";

const DAY = 1_440;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const QUICK = { times: { p50: 20_000, p90: 60_000, p99: 90_000 } };
const FEW = (wire: WireCase, minItems: number) => ({ lanes: { ...wire.config.lanes, minItems } });

/** Submits lists of one item; resolves with their ids once all are accepted. */
function submitted({ engine }: OpenedEngine, model: string, count: number, sla = DAY, from = 1) {
  return Promise.all(
    Array.from({ length: count }, async (_, index) => {
      const item = { model, input: `prompt ${from + index}`, maxOutputTokens: 64, sla };
      return (await engine.submit([item])).task_id;
    }),
  );
}

function tasksOf({ engine }: OpenedEngine, ids: readonly string[]): Promise<Task[]> {
  return Promise.all(ids.map((id) => engine.task(id)));
}

function expectAnswers(tasks: readonly Task[]): void {
  for (const [index, { objects, counts }] of tasks.entries()) {
    expect(counts).toMatchObject({ completed: 1 });
    expect(objects[0]?.output?.text).toMatch(new RegExp(`to prompt ${index + 1}$`));
  }
}

const booksOf = (fake: BatchFake): number => fake.ledger.sums().nanoUsd;

/** Nothing of groups and batches is kept. */
async function expectNothingLeft(world: BatchWorld, { core }: OpenedEngine): Promise<void> {
  for (const collection of [BATCHES, POSTED_GROUPS])
    expect(await core.storage.store.records(EVERY_PROJECT, { collection, limit: 10 })).toEqual([]);
  expect(world.disk.paths.filter((path) => path.startsWith("/data/batches/"))).toEqual([]);
}

/** The next process ends them, and pays for each once. */
async function expectPaidOnce(
  { world, fake }: { readonly world: BatchWorld; readonly fake: BatchFake },
  ids: readonly string[],
  batches: number,
): Promise<void> {
  const opened = await world.opened();
  await world.clock.advance(6 * HOUR_MS);
  const tasks = await world.settle(tasksOf(opened, ids));
  expectAnswers(tasks);
  expect(fake.ledger.keptBatches).toHaveLength(batches);
  expect(paidTwice(fake)).toEqual([]);
  expect(tallyOf(tasks)).toMatchObject({ billedNanos: booksOf(fake), ambiguousNanos: 0 });
  await expectNothingLeft(world, opened);
  await world.settle(opened.engine.close());
}

describe("lists of one item whose batch was made with another key", () => {
  const anthropic = wireCase("anthropic");
  const withKey = (key: string) => {
    const { baseUrl = "" } = anthropic;
    return { ...anthropic.config, ...FEW(anthropic, 20), providers: { anthropic: { baseUrl, key } } };
  };
  async function held(world: BatchWorld): Promise<string[]> {
    let ids: string[] = [];
    await world.killedWhile(createRandom(1), async (opened) => {
      ids = await world.settle(submitted(opened, anthropic.model, 30));
      await world.clock.advance(20 * MINUTE_MS);
    });
    world.config = withKey("sk-b");
    return ids;
  }
  const SLOW = { times: { p50: 2 * HOUR_MS, p90: 3 * HOUR_MS, p99: 4 * HOUR_MS } };

  it("wait for that key, and are paid for once", async () => {
    const { world, fake } = worldOf(anthropic, SLOW, withKey("sk-a"));
    const ids = await held(world);
    const opened = await world.opened();
    await world.clock.advance(8 * HOUR_MS);
    const [task] = await world.settle(tasksOf(opened, ids));
    expect(task?.objects[0]).toMatchObject({ status: "submitted", held: { reason: "key_changed" } });
    await world.settle(opened.engine.close());
    world.config = withKey("sk-a");
    await expectPaidOnce({ world, fake }, ids, 1);
  });

  it("expire at their deadline without it", async () => {
    const { world } = worldOf(anthropic, SLOW, withKey("sk-a"));
    const ids = await held(world);
    const opened = await world.opened();
    await world.clock.advance(DAY * MINUTE_MS);
    for (const { counts } of await world.settle(tasksOf(opened, ids)))
      expect(counts).toMatchObject({ expired: 1 });
    const closingMs = world.clock.nowMs();
    await world.settle(opened.engine.close());
    expect(world.clock.nowMs() - closingMs).toBeLessThan(1_000);
  });
});

describe.each(WIRES.slice(0, 3))("1,000 lists of one item with a day, for $name", (wire) => {
  it("are answered by one batch at half of the list price", async () => {
    const { world, fake } = worldOf(wire);
    const opened = await world.opened();
    const ids = await world.settle(submitted(opened, wire.model, 1_000));
    await world.clock.advance(6 * HOUR_MS);
    const tasks = await world.settle(tasksOf(opened, ids));
    expectAnswers(tasks);
    const { tiers, listNanos, billedNanos, ambiguousNanos } = tallyOf(tasks);
    expect({ tiers, ambiguousNanos }).toEqual({ tiers: { batch: 1_000 }, ambiguousNanos: 0 });
    expect(2 * billedNanos).toBe(listNanos);
    expect(billedNanos).toBe(booksOf(fake));
    expect(fake.ledger.batches.size).toBe(1);
    await expectNothingLeft(world, opened);
    await world.settle(opened.engine.close());
  });

  it("are on time although their batch stalls, and nothing is paid twice", async () => {
    const { world, fake } = worldOf(wire, {
      batchFaults: () => ({ isStalled: true }),
      realtime: { times: { p50: 500, p90: 500, p99: 500 } },
    });
    const opened = await world.opened();
    const ids = await world.settle(submitted(opened, wire.model, 200));
    await world.clock.advance(DAY * MINUTE_MS);
    const tasks = await world.settle(tasksOf(opened, ids));
    expectAnswers(tasks);
    expect(fake.ledger.batches.size).toBeGreaterThan(0);
    expect(paidTwice(fake)).toEqual([]);
    expect(tallyOf(tasks).billedNanos).toBe(booksOf(fake));
    await expectNothingLeft(world, opened);
    await world.settle(opened.engine.close());
  });

  it.each([1, 1_500, 12_000, 60_000, 900_000])(
    "find their batch again after a kill %i ms after they were accepted",
    async (ms) => {
      const { world, fake } = worldOf(wire, { seed: ms });
      let ids: string[] = [];
      await world.killedWhile(createRandom(ms), async (opened) => {
        ids = await world.settle(submitted(opened, wire.model, 150));
        await world.clock.advance(ms);
      });
      await expectPaidOnce({ world, fake }, ids, 1);
    },
  );

  it.each([1, 2, 3, 4, 5, 6])(
    "are paid once after four kills at any moment, beside answers that are lost: seed %i",
    async (seed) => {
      const random = createRandom(seed);
      const { world, fake } = worldOf(
        wire,
        {
          seed,
          faults: losses(random, 0.3),
          listDelayMs: random() < 0.5 ? 0 : 30_000,
          times: { p50: 120_000, p90: 600_000, p99: 1_800_000 },
        },
        FEW(wire, 20),
      );
      const ids: string[] = [];
      for (let kill = 0; kill < 4; kill += 1)
        await world.killedWhile(random, async (opened) => {
          ids.push(...(await world.settle(submitted(opened, wire.model, 30, DAY, ids.length + 1))));
          await world.clock.advance(random() * ([2_000, 15_000, 60_000, 900_000][kill] ?? 0));
        });
      const opened = await world.opened();
      await world.clock.advance(8 * HOUR_MS);
      const tasks = await world.settle(tasksOf(opened, ids));
      expectAnswers(tasks);
      expect(paidTwice(fake)).toEqual([]);
      expect(tallyOf(tasks)).toMatchObject({ billedNanos: booksOf(fake), ambiguousNanos: 0 });
      expect(tallyOf(tasks).tiers["batch"]).toBeGreaterThan(30);
      await expectNothingLeft(world, opened);
      await world.settle(opened.engine.close());
    },
  );

  it.each(["before", "after"] as const)("find it after a kill exactly %s each step with it", async (when) => {
    let steps = 0;
    for (; ; steps += 1) {
      const { world, fake } = worldOf(wire, QUICK, FEW(wire, 20));
      let ids: string[] = [];
      const work = async (opened: OpenedEngine): Promise<void> => {
        ids = await submitted(opened, wire.model, 20);
        await world.clock.sleep(2 * HOUR_MS);
      };
      if (!(await world.killedAt(steps + 1, when, work, createRandom(steps)))) break;
      await expectPaidOnce({ world, fake }, ids, 1);
    }
    expect(steps).toBeGreaterThan(12);
  });
});
