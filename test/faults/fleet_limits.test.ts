/** Quotas in rows of a real PostgreSQL, drawn from by several sessions at once, and by two workers of which one is killed. */
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { FleetDatabase } from "../../src/fleet/fleet_database.ts";
import { PgLimitPool } from "../../src/fleet/shared/pg_limit_pool.ts";
import type { PoolAsk } from "../../src/limits/shared/limit_pool.ts";
import type { BlockGrant } from "../../src/limits/shared/shared_window.ts";
import { describeCounterpart } from "../counterpart.ts";
import { POSTGRES, PostgresServer } from "../postgres_server.ts";
import { call, FleetWorld } from "./fleet_world.ts";

const PER_MINUTE = 600;
const WINDOW_MS = 60_000;
/** A window, and some more. */
const RUN_MS = 75_000;
/** More than one worker could send in that time. */
const ITEMS = 900;

const REPORT = { spent: 0, unspent: 0, returned: [], least: 1, limit: 600 };

function ask(holder: string, sequence: number, wanted: number, quota = "requests"): PoolAsk {
  return { quota, ask: { ...REPORT, holder, sequence, wanted } };
}

async function blocks(pool: PgLimitPool, asks: readonly PoolAsk[]): Promise<readonly BlockGrant[]> {
  return (await pool.draw({ blocks: asks, places: [], works: [], facts: [] })).blocks;
}

describeCounterpart("quotas of a fleet", POSTGRES, () => {
  let postgres: PostgresServer;
  beforeAll(async () => {
    postgres = await PostgresServer.start();
  });
  afterAll(() => postgres?.remove());

  async function pools(count: number): Promise<PgLimitPool[]> {
    const url = await postgres.freshUrl();
    (await FleetDatabase.open(url, systemClock)).close();
    return Array.from({ length: count }, () => new PgLimitPool(url));
  }

  it("are drawn from by eight sessions at once, in any order of their names, and never granted beyond their rate", async () => {
    const all = await pools(8);
    const startedMs = performance.now();
    let granted = 0;
    const drawAll = all.map(async (pool, index) => {
      for (let sequence = 1; sequence <= 15; sequence += 1) {
        const both = [ask(`p${index}`, sequence, 5, "a"), ask(`p${index}`, sequence, 5, "b")];
        for (const { units } of await blocks(pool, index % 2 === 0 ? both : both.toReversed()))
          granted += units;
      }
    });
    await Promise.all(drawAll);
    const seconds = (performance.now() - startedMs) / 1_000;
    for (const pool of all) pool.close();
    expect(granted).toBeGreaterThanOrEqual(20);
    expect(granted).toBeLessThanOrEqual(2 * (10 + 10 * (seconds + 0.5))); // a burst of a second, and the rate since
  });

  it("answer a draw that is repeated after its session was lost as they did before", async () => {
    const [pool, other] = await pools(2);
    const [first] = await blocks(pool!, [ask("p", 1, 5)]);
    expect(first!.units).toBe(5);
    await postgres.run(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%' AND application_name = 'perigee' AND pid <> pg_backend_pid()",
    );
    await expect(blocks(pool!, [ask("p", 1, 5)])).rejects.toThrow();
    expect(await blocks(pool!, [ask("p", 1, 5)])).toEqual([first]);
    const [seen] = await blocks(other!, [ask("other", 1, 0)]);
    expect(seen!.charged).toBe(5);
    pool!.close();
    other!.close();
  });

  it("reject a draw while the server is away, and go on where they were when it is back", async () => {
    const [pool] = await pools(1);
    await blocks(pool!, [ask("p", 1, 5)]);
    await postgres.down("SIGQUIT");
    await expect(blocks(pool!, [ask("p", 2, 5)])).rejects.toThrow();
    await postgres.up();
    const { quota, ask: last } = ask("p", 2, 0);
    const [grant] = await blocks(pool!, [{ quota, ask: { ...last, spent: 5 } }]);
    expect(grant!.charged).toBe(5);
    pool!.close();
    await expect(blocks(pool!, [ask("p", 3, 1)])).rejects.toThrow();
  });

  it("let two workers send as much as one limit allows in any 60 s, and at least 95 % of it, though one is killed", {
    timeout: 150_000,
  }, async () => {
    const limits = { local: { requestsPerMinute: PER_MINUTE } };
    const world = await FleetWorld.open(await postgres.freshUrl(), { limits });
    onTestFinished(() => world.close());
    const [one] = await Promise.all(["w1", "w2"].map((name) => world.start(name)));
    await world.settled();
    const posted = ["first", "second"].map(async (project, index) => {
      const { key } = await world.key(project);
      const items = Array.from({ length: ITEMS }, (_, item) => ({
        ...{ model: "local:small", input: `[[${index * ITEMS + item}]]`, sla: 30 },
      }));
      return call(one?.url ?? "", key, "/v0/infer/", { method: "POST", body: JSON.stringify(items) });
    });
    expect((await Promise.all(posted)).map(({ status }) => status)).toEqual([200, 200]);
    const [home, other] = await Promise.all(["first", "second"].map((project) => world.homeOf(project)));
    expect(home).not.toBe(other);
    await world.until(async () => world.askedAtMs.length > 0);
    const startedMs = world.askedAtMs[0] ?? 0;
    await sleepUntil(startedMs + RUN_MS / 2);
    other?.child.kill("SIGKILL");
    await sleepUntil(startedMs + RUN_MS);
    const sentAtMs = world.askedAtMs.toSorted((before, after) => before - after);
    const counts = sentAtMs.map((fromMs) => sentAtMs.filter((ms) => ms >= fromMs && ms < fromMs + WINDOW_MS));
    const used = sentAtMs.filter((ms) => ms >= startedMs + RUN_MS - WINDOW_MS);
    expect(Math.max(...counts.map(({ length }) => length))).toBeLessThanOrEqual(PER_MINUTE);
    expect(used.length).toBeGreaterThanOrEqual(0.95 * PER_MINUTE);
    expect(await world.homeOf("second")).toBe(home);
    const bySecond = [...world.asked.keys()].filter((item) => item >= ITEMS).length;
    expect(Math.min(bySecond, world.asked.size - bySecond)).toBeGreaterThan(PER_MINUTE / 4); // both were busy
  });
});

function sleepUntil(atMs: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, atMs - performance.now())));
}
