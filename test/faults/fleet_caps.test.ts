/**
 * A cap of the configuration over several workers on one PostgreSQL, of which one is killed: never exceeded as the provider counts, used, and raised.
 *
 * With `PERIGEE_TEST_WORKERS=8` the same with so many workers.
 */
import { once } from "node:events";
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeCounterpart } from "../counterpart.ts";
import { POSTGRES, PostgresServer } from "../postgres_server.ts";
import { call, FleetWorld } from "./fleet_world.ts";

const WORKERS = Number(process.env["PERIGEE_TEST_WORKERS"] ?? 3);
/** What the provider bills for each request: 5 tokens and 2, at a dollar a million. */
const REQUEST_USD = 7e-6;
const CAP_USD = 0.02;
const ITEMS = Math.ceil((1.2 * CAP_USD) / REQUEST_USD / WORKERS);
/** Of a worker; each may be in doubt after its kill. */
const IN_FLIGHT = 8;
/** The most that an item may cost: its input counts as more tokens before it is sent. */
const MOST_USD = 6e-5;

const names = Array.from({ length: WORKERS }, (_, index) => `w${index}`);

let postgres: PostgresServer;
let world: FleetWorld;

const capOf = (usd: number): object => ({ cap: { name: "all", usd } });
const billedUsd = (): number => world.askedAtMs.length * REQUEST_USD;

/** Resolves when no request has come for some seconds; at every moment the cap holds. */
async function quiet(capUsd: number, forMs: number): Promise<void> {
  await world.until(async () => {
    expect(billedUsd()).toBeLessThanOrEqual(capUsd + 1e-9);
    return performance.now() - (world.askedAtMs.at(-1) ?? 0) > forMs;
  }, 200_000);
}

describeCounterpart("a cap of a fleet", POSTGRES, () => {
  beforeAll(async () => {
    postgres = await PostgresServer.start();
    world = await FleetWorld.open(await postgres.freshUrl(), capOf(CAP_USD));
    for (const name of names) await world.start(name);
    await world.settled();
  }, 240_000);
  afterAll(async () => {
    await world?.close();
    await postgres?.remove();
  });

  it("is never exceeded though a worker is killed, is used, and holds what goes on when it is raised", {
    timeout: 600_000,
  }, async () => {
    world.answerMs = 20;
    const homes = new Set<string>();
    for (const [index, name] of names.entries()) {
      const { key } = await world.key(name);
      const items = Array.from({ length: ITEMS }, (_, item) => ({
        ...{ model: "local:priced", input: `[[${index * ITEMS + item}]]`, sla: 60, max_tokens: 4 },
      }));
      const body = JSON.stringify(items);
      const posted = await call(world.workers[0]?.url ?? "", key, "/v0/infer/", { method: "POST", body });
      expect(posted.status, JSON.stringify(posted.body)).toBe(200);
      homes.add((await world.homeOf(name)).name);
    }
    expect(homes.size).toBe(WORKERS);
    await world.until(async () => billedUsd() > CAP_USD / 4, 120_000);
    world.workers[1]?.child.kill("SIGKILL");
    await quiet(CAP_USD, 20_000);
    const [state] = await world.rows<{ readonly state: string }>("SELECT state FROM perigee_caps");
    const { holders } = JSON.parse(state?.state ?? "") as {
      readonly holders: readonly (readonly [
        string,
        { readonly grantedNano: number; readonly spentNano: number },
      ])[];
    };
    const sum = (of: "grantedNano" | "spentNano"): number =>
      holders.reduce((usd, [, holder]) => usd + holder[of] / 1e9, 0);
    process.stdout.write(
      `${WORKERS} workers: billed ${billedUsd() / CAP_USD}, counted ${sum("spentNano") / CAP_USD}\n`,
    );
    expect(holders).toHaveLength(WORKERS);
    expect(sum("grantedNano")).toBeLessThanOrEqual(CAP_USD + 1e-9);
    expect(sum("spentNano")).toBeGreaterThan(CAP_USD - MOST_USD); // what is in doubt, included
    expect(billedUsd()).toBeGreaterThanOrEqual(0.97 * CAP_USD - IN_FLIGHT * (MOST_USD - REQUEST_USD));
    expect(world.asked.size).toBeLessThan(WORKERS * ITEMS);
    world.configure(capOf(1));
    for (const { child } of world.workers.filter(
      ({ child }) => child.exitCode === null && child.signalCode === null,
    )) {
      child.kill("SIGTERM");
      await once(child, "exit");
    }
    await Promise.all(names.map((name) => world.start(`again-${name}`)));
    await world.until(async () => world.asked.size === WORKERS * ITEMS, 120_000);
    expect(world.requests).toBeLessThanOrEqual(WORKERS * ITEMS + IN_FLIGHT);
  });
});
