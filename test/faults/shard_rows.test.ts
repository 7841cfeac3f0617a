/**
 * The rows of shards on a real PostgreSQL, with several sessions at once: each shard is claimed once, goes over with its partition, and what
 * partitions draw from the cap of a run never exceeds it.
 */
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { FleetDatabase } from "../../src/fleet/fleet_database.ts";
import { PgCapPool } from "../../src/fleet/caps/pg_cap_pool.ts";
import { RunRows } from "../../src/fleet/shards/run_rows.ts";
import { ShardRows } from "../../src/fleet/shards/shard_rows.ts";
import { PgPartition } from "../../src/store/postgres/pg_partition.ts";
import { describeCounterpart } from "../counterpart.ts";
import { POSTGRES, PostgresServer } from "../postgres_server.ts";

const SESSIONS = 4;
const newRun = { name: "out.jsonl", options: "{}", input: "1:1", capNano: undefined, slaMs: undefined };
const shardsOf = (lines: readonly number[]) =>
  lines.map((count, index) => ({ firstLine: 1 + index * 10_000, lines: count, pieces: 1 }));

describeCounterpart("the rows of shards", POSTGRES, () => {
  let postgres: PostgresServer;
  let databases: readonly FleetDatabase[];
  let runs: RunRows;
  beforeAll(async () => {
    postgres = await PostgresServer.start();
  });
  afterAll(() => postgres?.remove());
  beforeEach(async () => {
    const url = await postgres.freshUrl();
    databases = await Promise.all(
      Array.from({ length: SESSIONS }, () => FleetDatabase.open(url, systemClock)),
    );
    runs = new RunRows(session(0).query);
  });
  afterEach(() => {
    for (const database of databases) database.close();
  });

  const session = (index: number): FleetDatabase => databases[index] as FleetDatabase;
  /** Takes a partition, as a store does, also from another owner. */
  const taken = async (index: number, part: number, owner = `w${index}`): Promise<ShardRows> => {
    const { query } = session(index);
    await query("UPDATE perigee_partitions SET lease_until = '-infinity' WHERE part = $1", part);
    await new PgPartition(part, owner).take(query);
    return ShardRows.open(query, part, owner);
  };
  const names = async (rows: ShardRows): Promise<string[]> =>
    (await rows.claimed()).map(({ run, index }) => `${run}/${index}`);

  it("claim each shard once, whichever sessions claim at the same time, and leave none", async () => {
    await runs.make({ ...newRun, id: "a" }, shardsOf(Array.from({ length: 101 }, () => 1_000)));
    const workers = await Promise.all(databases.map((_, index) => taken(index, index + 1)));
    const counts = await Promise.all(
      workers.map(async (rows) => {
        let count = 0;
        for (let claimed = await rows.claim(3); claimed > 0; claimed = await rows.claim(3)) count += claimed;
        return count;
      }),
    );
    const all = (await Promise.all(workers.map(names))).flat();
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(101);
    expect(new Set(all).size).toBe(101);
    expect(all).toHaveLength(101);
  });

  it("are claimed by their latest start, those without a deadline last", async () => {
    await runs.make({ ...newRun, id: "none" }, shardsOf([10]));
    await runs.make({ ...newRun, id: "late", slaMs: 86_400_000 }, shardsOf([10]));
    await runs.make({ ...newRun, id: "soon", slaMs: 60_000 }, shardsOf([10, 10]));
    const rows = await taken(0, 1);
    await rows.claim(3);
    expect(await names(rows)).toEqual(["soon/0", "soon/1", "late/0"]);
  });

  it("go over with their partition, and its former owner changes nothing any more", async () => {
    await runs.make({ ...newRun, id: "a" }, shardsOf([10, 10]));
    const former = await taken(0, 1);
    await former.claim(1);
    const next = await taken(1, 1);
    expect(await former.claim(1)).toBe(0);
    const end = { state: "done", output: "x", counts: "{}", spentNano: 0 } as const;
    await former.end({ run: "a", index: 0 }, end);
    expect(await names(next)).toEqual(["a/0"]);
    expect(await names(former)).toEqual([]);
    await next.end({ run: "a", index: 0 }, end);
    expect((await runs.shards("a")).map(({ state }) => state)).toEqual(["done", "waiting"]);
  });

  it("released ones are claimed by the partition that has what was done of them", async () => {
    await runs.make({ ...newRun, id: "a" }, shardsOf([10]));
    const [first, second] = [await taken(0, 1), await taken(1, 2)];
    await first.claim(1);
    await first.end({ run: "a", index: 0 }, { state: "held", output: "x", counts: "{}", spentNano: 0 });
    await runs.release("a");
    expect(await second.claim(1)).toBe(0);
    expect(await first.claim(1)).toBe(1);
  });

  it("have the cap of their run, also when it was changed meanwhile", async () => {
    await runs.make({ ...newRun, id: "a", capNano: 1_000 }, shardsOf([10]));
    const rows = await taken(0, 1);
    await rows.claim(1);
    expect(await rows.claimed()).toMatchObject([{ capNano: 1_000 }]);
    await runs.setCap("a", 3_000);
    expect(await rows.claimed()).toMatchObject([{ capNano: 3_000 }]);
    await runs.setCap("a", undefined);
    expect(await rows.claimed()).toMatchObject([{ capNano: null }]);
  });

  it("of all partitions draw from one cap, which is never granted beyond, by eight at once, and not to a former owner", async () => {
    const url = await postgres.freshUrl();
    (await FleetDatabase.open(url, systemClock)).close();
    const capNano = 1_000;
    const pools = Array.from({ length: 8 }, () => new PgCapPool(url));
    const draw = (index: number, epoch: number, sequence: number, spentNano: number) =>
      pools[index]!.of(index, epoch).draw("run:a", {
        ...{ holder: String(index), epoch, sequence, capNano, spentNano, heldNano: 0, returnedNano: 0 },
        ...{ wantedNano: 40, leastNano: 7 },
      });
    const totals = await Promise.all(
      pools.map(async (_, index) => {
        let total = 0;
        for (let sequence = 1; sequence <= 20; sequence += 1)
          total = (await draw(index, 2, sequence, total)).totalNano;
        return total;
      }),
    );
    const sum = totals.reduce((all, one) => all + one, 0);
    expect(sum).toBeLessThanOrEqual(capNano);
    expect(sum).toBeGreaterThan(capNano - 7);
    await expect(draw(0, 1, 1, 0)).rejects.toThrow("another owner");
    for (const pool of pools) pool.close();
  });

  it("are removed when their answers were taken, and the run with the last one", async () => {
    await runs.make({ ...newRun, id: "a" }, shardsOf([10]));
    const rows = await taken(0, 1);
    await rows.claim(1);
    await rows.end({ run: "a", index: 0 }, { state: "done", output: "x", counts: "{}", spentNano: 0 });
    expect(await rows.unneeded()).toEqual([]);
    await runs.taken("a");
    expect(await rows.unneeded()).toEqual([{ run: "a", index: 0, pieces: 1 }]);
    await rows.forget({ run: "a", index: 0 });
    expect(await runs.has("a")).toBe(false);
  });
});
