/**
 * What calls of an engine that closes, or is closed, are answered with, in virtual time.
 */
import { describe, expect, it } from "vitest";
import type { Engine } from "../../src/engine/engine.ts";
import { INPUT, OUTPUT, ok, status, World } from "./world.ts";

const CLOSED = "closed: the engine is closed; open another one on the same data folder to go on";
const NO_ID = "00000000-0000-4000-8000-000000000000";

const item = (line: number) => ({ model: "alpha:m1", input: `[[${line}]] a` });

/** Each public call that does work. */
const CALLS: readonly (readonly [string, (engine: Engine, taskId: string) => unknown])[] = [
  ["run", (engine) => engine.run(INPUT, { out: OUTPUT }).finished],
  ["submit", (engine) => engine.submit([item(1)])],
  ["task", (engine, id) => engine.task(id)],
  ["object", (engine) => engine.object(NO_ID)],
  ["trace", (engine) => engine.trace(NO_ID)],
  ["trace with a key", (engine) => engine.trace(OUTPUT, "k1")],
  ["forget", (engine, id) => engine.forget(id)],
  ["retry", (engine, id) => engine.retry(id)],
  ["retryTask", (engine, id) => engine.retryTask(id)],
  ["quote", (engine) => engine.quote(INPUT)],
];

/** How a call ends: its error, or `answered`. */
async function endOf(call: () => unknown): Promise<string> {
  try {
    await call();
    return "answered";
  } catch (error) {
    const { code, message } = error as { readonly code?: string; readonly message: string };
    return `${code}: ${message}`;
  }
}

describe("an engine that closes", () => {
  it.each(CALLS)("refuses %s with one error, while it closes and after", async (_name, call) => {
    const world = new World();
    world.input(1);
    const engine = await world.engine();
    const { task_id } = await world.settle(engine.submit([item(1)]));
    const closing = engine.close();
    expect(await world.settle(endOf(() => call(engine, task_id)))).toBe(CLOSED);
    await world.settle(closing);
    expect(await world.settle(endOf(() => call(engine, task_id)))).toBe(CLOSED);
    await world.settle(engine.close()); // again
  });

  it.each(CALLS)(
    "answers %s that was called just before, or refuses it with that error",
    async (name, call) => {
      const world = new World();
      world.input(2_000);
      const engine = await world.engine();
      const { task_id } = await world.settle(engine.submit([item(1)]));
      const called = endOf(() => call(engine, task_id));
      await world.settle(engine.close());
      const end = await world.settle(called);
      if (name === "retry") expect(end).toMatch(/^not_found|^usage/);
      else
        expect([
          CLOSED,
          "answered",
          `not_found: no object "${NO_ID}"`,
          `not_found: no run has the id or the output "${OUTPUT}"`,
        ]).toContain(end);
    },
  );

  it.each(["few", "many"])(
    "accepts a list of %s items that was submitted just before, and the next engine answers it",
    async (many) => {
      const world = new World();
      const engine = await world.engine();
      const items = Array.from({ length: many === "few" ? 2 : 1_500 }, (_, index) => ({
        ...item(index + 1),
        sla: 60,
      }));
      const list = engine.submit(items);
      const finished = endOf(() => list.finished);
      await world.settle(engine.close());
      const { task_id, total_items, status } = await world.settle(Promise.resolve(list));
      expect([status, total_items]).toEqual(["submitted", items.length]);
      expect(await world.settle(finished)).toBe(
        `closed: the engine was closed before task ${task_id} was finished; engine.task(id) of the next engine on this data folder finds it`,
      );
      const next = await world.engine();
      await world.clock.advance(60_000);
      expect(await world.settle(next.task(task_id))).toMatchObject({ counts: { completed: items.length } });
      await world.settle(next.close());
    },
  );

  it("sends nothing for a list whose failed items were to run again just before", async () => {
    const world = new World({ commitMs: 50, answer: () => status(400, "bad") });
    const engine = await world.engine();
    const list = engine.submit([item(1), { ...item(2), sla: 60 }]); // two slas: each is a run
    const { task_id } = await world.settle(list.finished);
    await world.clock.advance(1_000);
    const before = world.sent.length;
    world.answer = (line) => ({ afterMs: 20_000, result: ok(line) });
    const retried = endOf(() => engine.retryTask(task_id, { codes: ["invalid_request"] }));
    await world.settle(engine.close());
    await world.settle(retried);
    expect(world.sent.length).toBe(before);
    const next = await world.settle(world.engine());
    await world.clock.advance(60_000);
    expect(await world.settle(next.task(task_id))).toMatchObject({ counts: { completed: 2 } });
    expect(world.sent.length).toBe(before + 2);
    await world.settle(next.close());
  });

  it("sends nothing while a list that was submitted just before is stored on a slow disk", async () => {
    const world = new World({ diskLatencyMs: 500, config: { maxInFlight: 2 }, latencyMs: 100 });
    const engine = await world.settle(world.engine());
    const posted = Array.from({ length: 50 }, (_, index) => ({ ...item(index + 1), sla: 60 }));
    await world.settle(engine.submit(posted));
    await world.clock.advance(1_000);
    const many = endOf(() => engine.submit([item(61), { ...item(62), sla: 60 }]));
    const before = world.sent.length;
    expect(before).toBeGreaterThan(0);
    await world.settle(engine.close());
    expect(world.sent.length).toBe(before);
    expect(await world.settle(many)).toBe("answered");
  });
});
