/** Metrics of a worker: those of its partitions in one text, and who may read it. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import fc from "fast-check";
import { Counter, Gauge, Registry } from "prom-client";
import { describe, expect, it, onTestFinished } from "vitest";
import { FleetMetrics, mergedMetrics } from "../../src/fleet/fleet_metrics.ts";
import type { PoolAsk } from "../../src/limits/shared/limit_pool.ts";
import type { BlockGrant } from "../../src/limits/shared/shared_window.ts";

const state = {
  worker: "one",
  leaseLeftMs: 4_500,
  workers: [
    { name: "one", role: "all", version: "1", isLeaving: false, startedWallMs: 0, parts: [1, 4] },
    { name: "two", role: "all", version: "1", isLeaving: true, startedWallMs: 0, parts: [2] },
  ],
  free: [3],
};

/** As prom-client writes it; values of labels as hostile as they may be. */
async function textOf(plainValue: number, labels: readonly string[]): Promise<string> {
  const registers = [new Registry()];
  new Gauge({ name: "perigee_tasks_open", help: "Tasks {of any} kind.", registers }).set(plainValue);
  const counter = new Counter({
    name: "perigee_items_total",
    help: "Items.",
    labelNames: ["outcome"],
    registers,
  });
  for (const outcome of labels) counter.inc({ outcome });
  new Gauge({ name: "process_open_fds", help: "Descriptors.", registers }).set(7);
  return (registers[0] as Registry).metrics();
}

describe("the metrics of a worker", () => {
  it("have every sample of every partition once with its number, every comment once, and the process once", async () => {
    const partition = fc.record({
      value: fc.integer({ min: 0, max: 1e6 }),
      labels: fc.uniqueArray(fc.string({ unit: fc.constantFrom("a", "{", "}", ",", '"', " ", "\n", "#") })),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(fc.integer({ min: 1, max: 99 }), { maxLength: 4 }),
        fc.array(partition, { minLength: 4, maxLength: 4 }),
        async (parts, given) => {
          const texts = new Map<number, string>();
          for (const [index, part] of parts.entries())
            texts.set(part, await textOf(given[index]?.value ?? 0, given[index]?.labels ?? []));
          const lines = mergedMetrics(texts)
            .split("\n")
            .filter((line) => line !== "");
          const samples = lines.filter((line) => !line.startsWith("#"));
          const expected = [...texts].flatMap(([part, text], index) =>
            text
              .split("\n")
              .filter((line) => line !== "" && !line.startsWith("#"))
              .flatMap((line) => {
                if (line.startsWith("process_")) return index === 0 ? [line] : [];
                return [
                  line.includes("{")
                    ? line.replace("{", `{partition="${part}",`)
                    : line.replace(" ", `{partition="${part}"} `),
                ];
              }),
          );
          expect(samples.toSorted()).toEqual(expected.toSorted());
          const comments = lines.filter((line) => line.startsWith("#"));
          expect(new Set(comments).size).toBe(comments.length);
          const order = samples.map((line) => line.split(/[{ ]/)[0]);
          expect(order).toEqual(
            [...new Set(order)].flatMap((name) => order.filter((other) => other === name)),
          );
        },
      ),
      { numRuns: 50 },
    );
  });

  it("count workers, partitions and draws, and say how long the lease lasts", async () => {
    const metrics = new FleetMetrics(() => state, false);
    metrics.add(1, async () => ({ contentType: "", text: await textOf(5, []) }));
    metrics.add(4, async () => ({ contentType: "", text: await textOf(6, []) }));
    metrics.add(9, async () => ({ contentType: "", text: "never seen" }));
    metrics.remove(9);
    const blocks = [3, 0, 2].map((units) => ({ units }) as BlockGrant);
    const pool = metrics.counting({ draw: async () => ({ blocks, places: [], works: [], facts: [] }) });
    const broken = metrics.counting({ draw: () => Promise.reject(new Error("away")) });
    const asked = { blocks: [{} as PoolAsk, {} as PoolAsk, {} as PoolAsk], places: [], works: [], facts: [] };
    expect((await pool.draw(asked)).blocks).toHaveLength(3);
    await expect(broken.draw({ ...asked, blocks: asked.blocks.slice(1) })).rejects.toThrow("away");
    const { text } = await metrics.render();
    expect(text.split("\n").filter((line) => line !== "" && !line.startsWith("#"))).toEqual([
      'perigee_fleet_workers{state="working"} 1',
      'perigee_fleet_workers{state="leaving"} 1',
      'perigee_fleet_partitions{state="owned"} 3',
      'perigee_fleet_partitions{state="free"} 1',
      "perigee_fleet_partitions_open 2",
      "perigee_fleet_lease_seconds 4.5",
      'perigee_fleet_limit_draws_total{outcome="granted"} 2',
      'perigee_fleet_limit_draws_total{outcome="nothing"} 1',
      'perigee_fleet_limit_draws_total{outcome="failed"} 2',
      'perigee_tasks_open{partition="1"} 5',
      'perigee_tasks_open{partition="4"} 6',
      "process_open_fds 7",
    ]);
  });

  it("are served on the public port without query parameters, as a service serves its own", async () => {
    const metrics = new FleetMetrics(() => state, false);
    const server = createServer((request, response) => void metrics.answer(request, response));
    onTestFinished(() => void server.close());
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/metrics`;
    const statuses = [url, `${url}?`, `${url}?x=1`].map(async (each) => (await fetch(each)).status);
    expect(await Promise.all(statuses)).toEqual([200, 200, 422]);
    const proxied = { headers: { "x-forwarded-for": "192.0.2.1" } };
    expect((await fetch(`${url}?x=1`, proxied)).status).toBe(404);
  });
});
