import { describe, expect, it } from "vitest";
import type { OpenedEngine } from "../../../src/engine/engine.ts";
import type { FakeOptions } from "../../batch_servers/behaviour.ts";
import { booksOf, paidTwice, wrongsOf } from "./books.ts";
import { WIRES, type WireCase, wireCase, worldOf } from "./wires.ts";

const ITEMS = 60;
const DAY = 1_440;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const INPUT = "/in.jsonl";
const TERMS = { out: "/out.jsonl", sla: DAY };
const SLOW = { times: { p50: 20 * MINUTE_MS, p90: HOUR_MS, p99: 1.5 * HOUR_MS } };

/** A run whose batch has been with its provider for 25 minutes. */
async function underWay(wire: WireCase, options: Partial<FakeOptions> = {}) {
  const { world, fake } = worldOf(wire, { ...SLOW, ...options });
  world.input(ITEMS, wire.model);
  const { engine } = await world.opened();
  const run = engine.run(INPUT, TERMS);
  await world.clock.advance(25 * MINUTE_MS);
  const close = (opened: OpenedEngine["engine"] = engine) => world.settle(opened.close());
  return { world, fake, engine, run, close };
}

const filesOf = async (world: { disk: { list(folder: string): Promise<readonly string[]> } }) =>
  world.disk.list("/data/batches");

describe.each(WIRES.slice(0, 3))("an open batch of $name", (wire) => {
  it("goes on with the next call after a stop: nothing is cancelled, nothing is paid twice", async () => {
    const { world, fake, run, close } = await underWay(wire);
    run.stop("interrupted");
    expect((await world.settle(run.finished)).status).toBe("stopped");
    await close();
    await world.clock.advance(HOUR_MS);
    expect((await world.run({ sla: DAY })).counts.completed).toBe(ITEMS);
    expect(wrongsOf(world, fake, ITEMS)).toEqual([]);
    expect(fake.ledger.keptBatches).toHaveLength(1);
    expect(paidTwice(fake)).toEqual([]);
    expect(await filesOf(world)).toEqual([]);
  });

  it("is cancelled with its run: what is paid for is kept or in doubt, the rest ends as cancelled", async () => {
    const { world, fake, run, close } = await underWay(wire);
    void run.cancel();
    const { counts } = await world.settle(run.finished);
    await close();
    expect(counts.completed + counts.cancelled).toBe(ITEMS);
    expect(counts.cancelled).toBeGreaterThan(0);
    expect(wrongsOf(world, fake, ITEMS)).toEqual([]);
    expect(fake.ledger.keptBatches).toEqual([]);
  });

  it("is never asked for with another key, and goes on with its own", async () => {
    const { world, fake, close } = await underWay(wire);
    await close();
    world.config = { ...wire.config, providers: { [wire.name]: { baseUrl: wire.baseUrl, key: "sk-b" } } };
    const { status, reason, held, counts } = await world.run({ sla: DAY });
    expect({ status, reason, submitted: counts.submitted }).toEqual({
      ...{ status: "paused", reason: "key_changed" },
      submitted: ITEMS,
    });
    expect(held[0]?.message).toContain("was made with another key");
    const [batch] = fake.ledger.batches.values();
    expect([...(batch?.polls.keys() ?? [])]).toEqual(["sk-a"]);
    expect(fake.ledger.batches.size).toBe(1);
    world.config = wire.config;
    expect((await world.run({ sla: DAY })).counts.completed).toBe(ITEMS);
    expect(wrongsOf(world, fake, ITEMS)).toEqual([]);
  });

  it("is cancelled and removed when its task is forgotten", async () => {
    const { world, fake, engine, run, close } = await underWay(wire);
    run.stop("interrupted");
    const { task_id } = await world.settle(run.finished);
    await world.settle(engine.forget(task_id));
    await close();
    expect(fake.ledger.keptBatches).toEqual([]);
    expect(await filesOf(world)).toEqual([]);
  });

  it("refuses an update of its run", async () => {
    const { world, close } = await underWay(wire);
    await close();
    world.input(ITEMS + 1, wire.model, (line) => `new ${line}`);
    await expect(world.run({ sla: DAY, update: true })).rejects.toMatchObject({ code: "conflict" });
  });

  it.each([HOUR_MS, -HOUR_MS])("does not mind a wall clock that jumps by %i ms", async (ms) => {
    const { world, fake, run, close } = await underWay(wire);
    world.clock.jumpWall(ms);
    expect((await world.settle(run.finished)).counts.completed).toBe(ITEMS);
    await close();
    expect(wrongsOf(world, fake, ITEMS)).toEqual([]);
    expect(fake.ledger.batches.size).toBe(1);
  });

  it("loses nothing while the disk is full", async () => {
    const { world, fake, run, close } = await underWay(wire);
    world.store.failNext("disk_full", 8);
    expect((await world.settle(run.finished)).counts.completed).toBe(ITEMS);
    await close();
    expect(wrongsOf(world, fake, ITEMS)).toEqual([]);
    expect(fake.ledger.batches.size).toBe(1);
    expect(paidTwice(fake)).toEqual([]);
  });

  it("belongs to one process: a second one on the same folder is refused", async () => {
    const { world, close } = await underWay(wire);
    await expect(world.opened()).rejects.toMatchObject({ code: "data_dir_in_use" });
    await close();
  });
});

describe.each(["openai", "anthropic", "mistral", "openrouter"].map(wireCase))(
  "a batch of $name whose deadline passes while nobody collects",
  (wire) => {
    it("keeps what is paid for, marked as late, and the rest expires", async () => {
      const { world, fake, close } = await underWay(wire, { stalledShare: 0.3 });
      await close();
      await world.clock.advance(26 * HOUR_MS);
      const { counts } = await world.run({ sla: DAY });
      const late = world.lines().filter((line) => line.late === true);
      expect(counts.completed).toBeGreaterThan(0);
      expect(late).toHaveLength(counts.completed);
      expect(counts.expired).toBe(ITEMS - counts.completed);
      expect(wrongsOf(world, fake, ITEMS)).toEqual([]);
      expect(booksOf(world, fake).ambiguousNanos).toBe(0);
    });
  },
);

describe.each(WIRES)("a create of $name that an account without money refuses", (wire) => {
  it("holds the run, ends no line, and is tried at once by the next call", async () => {
    let isPoor = true;
    const { world, fake } = worldOf(wire, {
      faults: ({ kind }) =>
        isPoor && kind === "create" ? { status: 402, code: "insufficient_quota" } : undefined,
    });
    world.input(ITEMS, wire.model);
    expect(await world.run({ sla: DAY })).toMatchObject({ status: "paused", reason: "quota" });
    expect(world.lines()).toEqual([]);
    isPoor = false;
    expect((await world.run({ sla: DAY })).counts.completed).toBe(ITEMS);
    expect(wrongsOf(world, fake, ITEMS)).toEqual([]);
    expect(fake.ledger.batches.size).toBe(1);
  });
});

describe("spool files of a process that was killed", () => {
  it("are removed at the next start, those of open batches are not", async () => {
    const wire = wireCase("openai");
    const { world, close } = await underWay(wire);
    await close();
    world.disk.put("/data/batches/pg0123456789abcd.jsonl", "torn");
    world.disk.put("/data/batches/pg0123456789abcd.items", "torn");
    const { engine } = await world.opened();
    const files = await filesOf(world);
    await close(engine);
    expect(files).toHaveLength(2);
    expect(files.join()).not.toContain("pg0123456789abcd");
  });
});
