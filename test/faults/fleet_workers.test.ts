/**
 * Three workers on one PostgreSQL, each with a public port: whichever is called, a project gets the same answers. A worker is killed,
 * stopped, and asked to leave; what was acknowledged is answered through the others.
 */
import { once } from "node:events";
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeCounterpart } from "../counterpart.ts";
import { POSTGRES, PostgresServer } from "../postgres_server.ts";
import { call, type FleetProcess, FleetWorld } from "./fleet_world.ts";

const IN_FLIGHT = 8;
const ITEMS = 24;

let postgres: PostgresServer;
let world: FleetWorld;
let key: string;

function items(from: number, count: number): string {
  return JSON.stringify(
    Array.from({ length: count }, (_, index) => ({ model: "local:small", input: `[[${from + index}]]`, sla: 30 })),
  );
}

async function outputs(url: string, taskId: string): Promise<readonly unknown[]> {
  const { body } = await call(url, key, `/v0/infer/task/${taskId}`);
  const { objects = [] } = body as { objects?: { output?: { text: string } }[] };
  return objects.map(({ output }) => output?.text);
}

async function isOver(url: string, taskId: string): Promise<boolean> {
  const { status, body } = await call(url, key, `/v0/infer/task/${taskId}`);
  return status === 200 && body["status"] !== "submitted";
}

const answers = (from: number, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `answer ${from + index}`);

describeCounterpart("a fleet of three workers", POSTGRES, () => {
  beforeAll(async () => {
    postgres = await PostgresServer.start();
    world = await FleetWorld.open(await postgres.freshUrl());
    for (const name of ["w1", "w2", "w3"]) await world.start(name);
    await world.settled();
    key = world.key("acme").key;
  }, 120_000);
  afterAll(async () => {
    await world?.close();
    await postgres?.remove();
  });

  it("gives one project the same answers through each of them", { timeout: 60_000 }, async () => {
    const tasks: string[] = [];
    for (const [index, { url }] of world.workers.entries()) {
      const { status, body } = await call(url, key, "/v0/infer/", { method: "POST", body: items(100 + 10 * index, 2) });
      expect([status, body]).toEqual([200, expect.objectContaining({ total_items: 2 })]);
      tasks.push(String(body["task_id"]));
    }
    for (const [index, taskId] of tasks.entries())
      for (const { url } of world.workers) {
        await world.until(() => isOver(url, taskId));
        expect(await outputs(url, taskId)).toEqual(answers(100 + 10 * index, 2));
      }
    const lists = await Promise.all(world.workers.map(({ url }) => call(url, key, "/v0/infer/tasks")));
    expect(lists[0]?.status).toBe(200);
    for (const { body } of lists) expect(body).toEqual(lists[0]?.body);
  });

  it("repeats the answer to a POST with the same Idempotency-Key through another one", async () => {
    const post = { method: "POST", body: items(200, 1), headers: { "idempotency-key": "once" } };
    const made = await Promise.all(world.workers.map(({ url }) => call(url, key, "/v0/infer/", post)));
    const good = made.filter(({ status }) => status === 200);
    expect(good.length).toBeGreaterThan(0);
    expect(new Set(good.map(({ body }) => body["task_id"])).size).toBe(1);
    const again = await call(world.workers[2]?.url ?? "", key, "/v0/infer/", post);
    expect([again.status, again.body["task_id"]]).toEqual([200, good[0]?.body["task_id"]]);
  });
});

export type { FleetProcess };
