/**
 * What waits for the database is few round trips, so that a database which is far away delays a request by parts of a second, and no more the more
 * requests there are. `bench/fleet_posts.ts --round-trip` has the figures.
 */
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeCounterpart } from "../counterpart.ts";
import { POSTGRES, PostgresServer } from "../postgres_server.ts";
import { FarLine } from "./far_line.ts";
import { FleetWorld } from "./fleet_world.ts";

const ROUND_TRIP_MS = 300;

describeCounterpart("a worker whose database is 300 ms away", POSTGRES, () => {
  let server: PostgresServer;
  let line: FarLine;
  let world: FleetWorld;
  let post: (headers?: Readonly<Record<string, string>>) => Promise<number>;

  beforeAll(async () => {
    server = await PostgresServer.start();
    line = await FarLine.open(server.port);
    const url = await server.freshUrl();
    world = await FleetWorld.open(url.replace(`:${server.port}/`, `:${line.port}/`));
    const worker = await world.start("far");
    await world.settled();
    const { key } = await world.key("acme");
    const body = JSON.stringify([{ model: "local:small", input: "[[1]]", sla: 60 }]);
    post = async (headers = {}) => {
      const startedMs = performance.now();
      const { status } = await fetch(`${worker.url}/v0/infer/`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
        body,
      });
      expect(status).toBe(200);
      return (performance.now() - startedMs) / ROUND_TRIP_MS;
    };
    for (let warm = 0; warm < 5; warm += 1) await post({ "idempotency-key": `warm ${warm}` });
    line.roundTripMs = ROUND_TRIP_MS;
  }, 60_000);
  afterAll(async () => {
    if (line !== undefined) line.roundTripMs = 0;
    await world?.close();
    line?.close();
    await server?.remove();
  });

  const median = (trips: readonly number[]): number =>
    trips.toSorted((one, other) => one - other)[trips.length >> 1] ?? Number.NaN;

  it("acknowledges a POST after few round trips, also one with a key", { timeout: 60_000 }, async () => {
    const [plain, keyed]: [number[], number[]] = [[], []];
    for (let index = 0; index < 5; index += 1) {
      plain.push(await post());
      keyed.push(await post({ "idempotency-key": `one ${index}` }));
    }
    // The fastest, as others waited for a commit under way, or for a busy machine.
    expect(Math.min(...plain)).toBeLessThan(4); // 5 when each statement group waited for its answer before the commit
    expect(Math.min(...keyed)).toBeLessThan(10); // 16 then
  });

  it("acknowledges many POSTs at once as fast as a few", { timeout: 60_000 }, async () => {
    const keys = Array.from({ length: 30 }, (_, index) => `many ${index}`);
    const trips = await Promise.all(keys.map((key) => post({ "idempotency-key": key })));
    expect(median(trips)).toBeLessThan(30); // 90 when their reads waited for each other
  });
});
