/** What an operator sees of two workers on a real PostgreSQL: `/readyz`, metrics, log lines, `perigee workers`; and one that is stopped. */
import { execFile } from "node:child_process";
import { once } from "node:events";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { MAIN } from "../built.ts";
import { describeCounterpart } from "../counterpart.ts";
import { freePort } from "../free_port.ts";
import { POSTGRES, PostgresServer } from "../postgres_server.ts";
import { call, FleetWorld } from "./fleet_world.ts";

interface Shown {
  readonly workers: readonly {
    readonly name: string;
    readonly state: string;
    readonly lease_ms: number;
    readonly partitions: readonly { readonly partition: number; readonly projects: number }[];
  }[];
  readonly free_partitions: readonly object[];
}

describeCounterpart("a fleet that is operated", POSTGRES, () => {
  let postgres: PostgresServer;
  let world: FleetWorld;
  let store: string;
  let metricsPort: number;
  beforeAll(async () => {
    postgres = await PostgresServer.start();
    store = await postgres.freshUrl();
    world = await FleetWorld.open(store);
    metricsPort = await freePort();
    await world.start("w1", ["--metrics-port", String(metricsPort), "--log-level", "info"]);
    await world.start("w2", ["--log-level", "info"]);
    await world.settled();
  }, 120_000);
  afterAll(async () => {
    await world?.close();
    await postgres?.remove();
  });

  const shown = async (): Promise<Shown> =>
    JSON.parse(
      (await promisify(execFile)(process.execPath, [MAIN, "workers", "--store", store, "--json"])).stdout,
    );

  it("shows leases, partitions and projects in every place, and leaves nothing when it is asked to stop", {
    timeout: 60_000,
  }, async () => {
    const { key } = await world.key("acme");
    const [one, two] = world.workers as [FleetWorld["workers"][0], FleetWorld["workers"][0]];
    for (const { url } of [one, two]) {
      const post = { method: "POST", body: JSON.stringify([{ model: "local:small", input: "[[1]]" }]) };
      expect((await call(url, key, "/v0/infer/", post)).status).toBe(200);
    }

    const ready = (await call(one.url, key, "/readyz")).body["fleet"] as Record<string, number>;
    expect(ready).toEqual({ workers: 2, partitions: 2, free_partitions: 0, lease_ms: expect.any(Number) });
    expect(ready["lease_ms"]).toBeGreaterThan(0);
    expect(ready["lease_ms"]).toBeLessThanOrEqual(6_000);

    const ofPort = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
    expect(ofPort).toMatch(/^perigee_fleet_workers\{state="working"\} 2$/m);
    expect(ofPort).toMatch(/^perigee_tasks_open\{partition="\d+"\} 0$/m);
    expect(ofPort).toMatch(/^perigee_fleet_lease_seconds [0-9.]+$/m);
    expect((await fetch(`${one.url}/metrics`)).status).toBe(404);
    const ofTwo = await fetch(`${two.url}/metrics`);
    expect([ofTwo.status, await ofTwo.text()]).toEqual([
      200,
      expect.stringContaining("perigee_fleet_partitions_open 1\n"),
    ]);
    const proxied = await fetch(`${two.url}/metrics`, { headers: { "x-forwarded-for": "192.0.2.1" } });
    expect(proxied.status).toBe(404);

    const before = await shown();
    expect(before.workers.map(({ name, state }) => [name, state])).toEqual([
      ["w1", "working"],
      ["w2", "working"],
    ]);
    expect(
      before.workers.flatMap(({ partitions }) => partitions.map(({ projects }) => projects)).toSorted(),
    ).toEqual([0, 1]);

    const home = await world.homeOf("acme");
    const homePart = before.workers.find(({ name }) => name === home.name)?.partitions[0]?.partition;
    await world.until(async () => home.stderr().includes('"event":"request"'));
    const lines = home
      .stderr()
      .trim()
      .split("\n")
      .filter((line) => line.startsWith("{"))
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    for (const line of lines) expect(line["worker"], JSON.stringify(line)).toBe(home.name);
    expect(lines.filter(({ event }) => event === "request").map(({ partition }) => partition)).toContain(
      homePart,
    );

    const startedMs = performance.now();
    home.child.kill("SIGTERM");
    expect(await once(home.child, "exit")).toEqual([0, null]);
    expect(performance.now() - startedMs).toBeLessThan(10_000);
    const left = world.workers.find(({ name }) => name !== home.name);
    await world.until(async () => {
      const { workers, free_partitions: free } = await shown();
      return (
        free.length === 0 &&
        workers.length === 1 &&
        workers[0]?.name === left?.name &&
        workers[0]?.partitions.length === 2
      );
    });
    const posted = await call(left?.url ?? "", key, "/v0/infer/tasks");
    expect([posted.status, (posted.body["tasks"] as unknown[]).length]).toEqual([200, 2]);
  });
});
