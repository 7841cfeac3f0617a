import { describe, expect, it } from "vitest";
import { ok, World } from "./world.ts";

const item = (line: number, sla?: number) => ({
  model: "alpha:m1",
  input: `[[${line}]] hello`,
  ...(sla === undefined ? {} : { sla }),
});
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

describe("a submitted list", () => {
  it("without sla is answered when submit resolves, in the shapes of the interface", async () => {
    const world = new World();
    const engine = await world.engine();
    const task = await world.settle(engine.submit([item(1), item(2)]));
    expect(task).toEqual({
      status: "completed",
      task_id: expect.stringMatching(UUID),
      total_items: 2,
      counts: { submitted: 0, completed: 2, failed: 0, expired: 0, cancelled: 0 },
      objects: [1, 2].map((line) => ({
        object_id: expect.stringMatching(UUID),
        status: "completed",
        usage: { input_tokens: 10, price_factor: 1, output_tokens: 5 },
        output: { type: "text", text: `answer ${line}` },
        error: null,
      })),
    });
    expect(await world.settle(engine.task(task.task_id))).toEqual(task);
    const [, second] = task.objects;
    expect(await world.settle(engine.object(second?.object_id ?? ""))).toEqual(second);
  });

  it("with sla is submitted at once, with a price factor within [0.3, 1], and completed later", async () => {
    const world = new World({ latencyMs: 5_000 });
    const engine = await world.engine();
    const task = await world.settle(engine.submit([item(1, 60), item(2, 1_440)]));
    expect(world.clock.nowMs()).toBeLessThan(5_000);
    expect(task).toMatchObject({ status: "submitted", counts: { submitted: 2 } });
    for (const object of task.objects) {
      expect(object).toMatchObject({ status: "submitted", usage: { input_tokens: expect.any(Number) } });
      expect(object.usage.price_factor).toBeGreaterThanOrEqual(0.3);
      expect(object.usage.price_factor).toBeLessThanOrEqual(1);
    }
    expect(task.objects[1]?.usage.price_factor).toBeLessThanOrEqual(task.objects[0]?.usage.price_factor ?? 0);
    await world.clock.advance(6_000);
    const later = await world.settle(engine.task(task.task_id));
    expect(later).toMatchObject({ status: "completed", counts: { completed: 2 } });
    expect(later.objects.map(({ usage }) => usage.price_factor)).toEqual(
      task.objects.map(({ usage }) => usage.price_factor),
    );
    expect(later.objects.map(({ object_id }) => object_id)).toEqual(task.objects.map((one) => one.object_id));
  });

  it("waits only for its items without sla when it has both", async () => {
    const world = new World({
      answer: (line) => ({ afterMs: line === 2 ? 50_000 : 10, result: ok(line) }),
    });
    const engine = await world.engine();
    const task = await world.settle(engine.submit([item(1), item(2, 60), item(3)]));
    expect(task.objects.map(({ status }) => status)).toEqual(["completed", "submitted", "completed"]);
    expect(task.counts).toMatchObject({ completed: 2, submitted: 1 });
  });

  it("holds an error for each item that failed", async () => {
    const world = new World();
    const engine = await world.engine();
    const task = await world.settle(engine.submit([item(1), { model: "nobody:m1", input: "[[2]]" }]));
    expect(task.counts).toMatchObject({ completed: 1, failed: 1 });
    expect(task.objects[1]).toMatchObject({ status: "failed", error: { code: "unknown_model" } });
    expect(task.objects[1]).not.toHaveProperty("output");
  });

  it("goes on by itself after a crash, and answers no item twice", async () => {
    const world = new World({ config: { maxInFlight: 1 }, latencyMs: 100 });
    const engine = await world.engine();
    const task = await world.settle(engine.submit([1, 2, 3, 4, 5].map((line) => item(line, 60))));
    await world.clock.advance(250);
    await world.settle(engine.close());
    const again = await world.engine();
    await world.clock.advance(2_000);
    expect(await world.settle(again.task(task.task_id))).toMatchObject({ counts: { completed: 5 } });
    expect(new Set(world.sent.map(({ line }) => line)).size).toBe(5);
    expect(world.sent).toHaveLength(5);
  });

  it("is found by another engine after it was done, and sends nothing then", async () => {
    const world = new World();
    const engine = await world.engine();
    const task = await world.settle(engine.submit([item(1), item(2)]));
    await world.settle(engine.close());
    const again = await world.engine();
    expect(await world.settle(again.task(task.task_id))).toEqual(task);
    expect(world.sent).toHaveLength(2);
  });

  it("that is empty or holds what is no item is refused, and nothing is stored of it", async () => {
    const world = new World();
    const engine = await world.engine();
    for (const items of [[], [{ model: "alpha:m1" }], [item(1, 0)], [null]])
      await expect(world.settle(engine.submit(items as never)), JSON.stringify(items)).rejects.toMatchObject({
        code: "usage",
      });
    expect(world.disk.paths.filter((path) => path.startsWith("/data"))).toEqual([]);
  });

  it("unknown ids are not found", async () => {
    const world = new World();
    const engine = await world.engine();
    const task = await world.settle(engine.submit([item(1)]));
    const other = `${task.task_id.slice(0, -8)}ffffffff`;
    for (const id of ["", "x", other, "00000000-0000-4000-8000-000000000000"]) {
      await expect(world.settle(engine.task(id))).rejects.toMatchObject({ code: "not_found" });
      await expect(world.settle(engine.object(id))).rejects.toMatchObject({ code: "not_found" });
    }
  });
});
