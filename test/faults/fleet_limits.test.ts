/** Quotas in rows of a real PostgreSQL, drawn from by several sessions at once. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { FleetDatabase } from "../../src/fleet/fleet_database.ts";
import { PgLimitPool } from "../../src/fleet/pg_limit_pool.ts";
import type { PoolAsk } from "../../src/limits/shared/limit_pool.ts";
import { describeCounterpart } from "../counterpart.ts";
import { POSTGRES, PostgresServer } from "../postgres_server.ts";

const REPORT = { spent: 0, unspent: 0, returned: [], least: 1, limit: 600 };

function ask(holder: string, sequence: number, wanted: number, quota = "requests"): PoolAsk {
  return { quota, ask: { ...REPORT, holder, sequence, wanted } };
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
        const grants = await pool.draw(index % 2 === 0 ? both : both.toReversed());
        for (const { units } of grants) granted += units;
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
    const [first] = await pool!.draw([ask("p", 1, 5)]);
    expect(first!.units).toBe(5);
    await postgres.run(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%' AND application_name = 'perigee' AND pid <> pg_backend_pid()",
    );
    await expect(pool!.draw([ask("p", 1, 5)])).rejects.toThrow();
    expect(await pool!.draw([ask("p", 1, 5)])).toEqual([first]);
    const [seen] = await other!.draw([ask("other", 1, 0)]);
    expect(seen!.charged).toBe(5);
    pool!.close();
    other!.close();
  });

  it("reject a draw while the server is away, and go on where they were when it is back", async () => {
    const [pool] = await pools(1);
    await pool!.draw([ask("p", 1, 5)]);
    await postgres.down("SIGQUIT");
    await expect(pool!.draw([ask("p", 2, 5)])).rejects.toThrow();
    await postgres.up();
    const { quota, ask: last } = ask("p", 2, 0);
    const [grant] = await pool!.draw([{ quota, ask: { ...last, spent: 5 } }]);
    expect(grant!.charged).toBe(5);
    pool!.close();
    await expect(pool!.draw([ask("p", 3, 1)])).rejects.toThrow();
  });
});
