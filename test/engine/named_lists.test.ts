/**
 * Lists that their caller names: the same items under a name are one task, in whichever process. And lists that are cancelled.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { mortal, World } from "./world.ts";

const item = (line: number, sla?: number) => ({
  model: "alpha:m1",
  input: `[[${line}]] hello`,
  ...(sla === undefined ? {} : { sla }),
});
/** One that is a posted task, and one that is runs. */
const KINDS = [
  ["few items of one sla", [item(1, 60), item(2, 60)]],
  ["items of two slas", [item(1, 60), item(2, 120)]],
] as const;
const linesOf = (world: World) => world.sent.map(({ line }) => line).sort((a, b) => a - b);

describe.each(KINDS)("a named list of %s", (_kind, items) => {
  it("is one task however often it is submitted, also when all calls come at once, and is sent once", async () => {
    const world = new World();
    const engine = await world.engine();
    const calls = [1, 2, 3].map(() => engine.submit(items, { id: "evening" }));
    const tasks = await world.settle(Promise.all(calls.map((call) => call.finished)));
    expect(new Set(tasks.map(({ task_id }) => task_id)).size).toBe(1);
    const again = await world.settle(engine.submit(items, { id: "evening" }));
    expect(again).toEqual(tasks[0]);
    expect(linesOf(world)).toEqual([1, 2]);
    await world.settle(engine.close());
  });

  it("shows each caller every object", async () => {
    const world = new World();
    const engine = await world.engine();
    const objects = async (): Promise<number> => {
      let count = 0;
      for await (const { status } of engine.submit(items, { id: "evening" }))
        count += status === "completed" ? 1 : 0;
      return count;
    };
    expect(await world.settle(Promise.all([objects(), objects()]))).toEqual([2, 2]);
    expect(await world.settle(objects())).toBe(2);
    await world.settle(engine.close());
  });

  it("notifies the listener of a later call of its end", async () => {
    const world = new World();
    const engine = await world.engine();
    await world.settle(engine.submit(items, { id: "evening" }));
    const events: unknown[] = [];
    await world.settle(
      engine.submit(items, { id: "evening", onProgress: (event) => void events.push(event) }).finished,
    );
    await world.clock.advance(10_000);
    expect(events.at(-1)).toMatchObject({ type: "end", status: "completed", progress: { completed: 2 } });
    await world.settle(engine.close());
  });

  it("refuses other items under its name, and another order of them", async () => {
    const world = new World();
    const engine = await world.engine();
    const { task_id } = await world.settle(engine.submit(items, { id: "evening" }));
    const [first, second] = items;
    for (const others of [[first], [second, first], [first, { ...second, sla: 61 }], [...items, item(3, 60)]])
      await expect(world.settle(engine.submit(others, { id: "evening" }))).rejects.toMatchObject({
        code: "conflict",
        message: expect.stringContaining(task_id),
      });
    expect((await world.settle(engine.submit(items, { id: "morning" }))).task_id).not.toBe(task_id);
    await world.settle(engine.close());
  });

  it("is new once it was forgotten, and stays when the rows of the forgotten one are deleted", async () => {
    const world = new World();
    const engine = await world.engine();
    const first = await world.settle(engine.submit(items, { id: "evening" }).finished);
    const [, again] = await world.settle(
      Promise.all([
        engine.forget(first.task_id),
        engine.submit([...items].reverse(), { id: "evening" }).finished,
      ]),
    );
    expect(again).toMatchObject({ task_id: first.task_id, counts: { completed: 2 } });
    expect(linesOf(world)).toEqual([1, 1, 2, 2]);
    await world.clock.advance(90_000);
    const other = await world.settle(engine.submit([item(3)]));
    await world.settle(engine.forget(other.task_id)); // which sweeps
    await world.settle(engine.close());
    const next = await world.engine();
    expect(await world.settle(next.task(first.task_id))).toEqual(again);
    await world.settle(next.close());
  });

  it("is found again by its name after a kill at any moment, and no answer is asked for again", async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: 120 }), fc.boolean(), async (afterMs, powerCut) => {
        const world = new World({ commitMs: 7, latencyMs: 20, diskLatencyMs: 3 });
        const process = mortal(world.clock);
        const { engine } = await world.settle(world.opened(process.clock, process));
        let isAnswered = false;
        engine.submit(items, { id: "evening" }).finished.then(
          () => {
            isAnswered = true;
          },
          () => undefined,
        );
        await world.clock.advance(afterMs);
        process.kill();
        world.kill({ powerCut });
        const next = await world.settle(world.engine());
        const task = await world.settle(next.submit(items, { id: "evening" }).finished);
        expect(task.counts).toMatchObject({ completed: 2, failed: 0 });
        const times = [1, 2].map((line) => linesOf(world).filter((sent) => sent === line).length);
        expect(Math.max(...times)).toBeLessThanOrEqual(isAnswered ? 1 : 2);
        await world.settle(next.close());
      }),
      { numRuns: 40 },
    );
  });

  it("ends what was not sent when it is cancelled, keeps what was answered, and stays so", async () => {
    const world = new World({ config: { maxInFlight: 1 }, latencyMs: 1_000 });
    const engine = await world.engine();
    const task = await world.settle(engine.submit(items, { id: "evening" }));
    await world.clock.advance(500);
    const cancelled = await world.settle(engine.cancel(task.task_id));
    expect(cancelled.counts.completed).toBe(0);
    const ended = await world.settle(engine.submit(items, { id: "evening" }).finished);
    expect(ended.counts).toMatchObject({ completed: 1, cancelled: 1 }); // what was in flight is paid, and kept
    expect(world.sent).toHaveLength(1);
    expect(await world.settle(engine.cancel(task.task_id))).toEqual(ended);
    await world.settle(engine.close());
    const next = await world.engine();
    expect(await world.settle(next.submit(items, { id: "evening" }).finished)).toEqual(ended);
    await world.settle(next.close());
  });

  it("shows callers from before the cancel that its items were cancelled, not expired", async () => {
    const world = new World({ config: { maxInFlight: 1 }, latencyMs: 1_000 });
    const engine = await world.engine();
    const list = engine.submit(items, { id: "evening" });
    const { task_id } = await world.settle(list);
    const statuses = async (): Promise<string[]> => {
      const seen: string[] = [];
      for await (const { status } of list) seen.push(status);
      return seen.sort();
    };
    const followed = statuses();
    await world.clock.advance(500);
    await world.settle(engine.cancel(task_id));
    expect((await world.settle(list.finished)).counts).toMatchObject({
      completed: 1,
      cancelled: 1,
      expired: 0,
    });
    expect(await world.settle(followed)).toEqual(["cancelled", "completed"]);
    await world.settle(engine.close());
  });

  it("is cancelled when the engine is closed right after the call", async () => {
    const world = new World({ config: { maxInFlight: 1 }, latencyMs: 1_000 });
    const engine = await world.engine();
    const { task_id } = await world.settle(engine.submit(items, { id: "evening" }));
    await world.clock.advance(500);
    const cancelling = engine.cancel(task_id);
    await world.settle(Promise.all([cancelling, engine.close()]));
    const next = await world.engine();
    await world.clock.advance(10_000);
    expect((await world.settle(next.task(task_id))).counts).toMatchObject({ completed: 1, cancelled: 1 });
    expect(world.sent).toHaveLength(1);
    await world.settle(next.close());
  });

  it("keeps its answers when it is cancelled after its end", async () => {
    const world = new World();
    const engine = await world.engine();
    const task = await world.settle(engine.submit(items).finished);
    expect(await world.settle(engine.cancel(task.task_id))).toEqual(task);
    await world.settle(engine.close());
  });
});

it("a list of few items that was forgotten is not found by its caller, who asks for its end later", async () => {
  const world = new World();
  const engine = await world.engine();
  const list = engine.submit([item(1)]);
  const { task_id } = await world.settle(list); // its end is not asked for yet
  await world.settle(engine.forget(task_id));
  await expect(world.settle(list.finished)).rejects.toMatchObject({ code: "not_found" });
  await world.settle(engine.close());
});

describe("the name of a list", () => {
  it.each([["x".repeat(513)], ["é".repeat(257)], [""], [5]])("is 1 to 512 bytes of text: %s", async (id) => {
    const world = new World();
    const engine = await world.engine();
    expect(() => engine.submit([item(1)], { id: id as string })).toThrow(/submit: .*id.*/);
    await world.settle(engine.close());
  });

  it("may have any characters", async () => {
    const world = new World();
    const engine = await world.engine();
    const ids = ["é".repeat(256), "a\0b", "a b", "../../x", "evening"];
    const tasks = await world.settle(Promise.all(ids.map((id) => engine.submit([item(1)], { id }))));
    expect(new Set(tasks.map(({ task_id }) => task_id)).size).toBe(ids.length);
    await world.settle(engine.close());
  });

  it("is free again when its acceptance was refused", async () => {
    const world = new World();
    const engine = await world.engine();
    await expect(world.settle(engine.submit([], { id: "evening" }))).rejects.toMatchObject({ code: "usage" });
    expect((await world.settle(engine.submit([item(1)], { id: "evening" }))).counts.completed).toBe(1);
    await world.settle(engine.close());
  });
});

describe("cancel", () => {
  it("refuses an id that no submitted list has", async () => {
    const world = new World();
    const engine = await world.engine();
    await expect(world.settle(engine.cancel("00000000-0000-8000-8000-000000000000"))).rejects.toMatchObject({
      code: "not_found",
    });
    await world.settle(engine.close());
  });
});
