import { describe, expect, it } from "vitest";
import type { Disk, DiskFile } from "../../src/disk.ts";
import type { Engine } from "../../src/engine/engine.ts";
import type { Store } from "../../src/store/store.ts";
import type { Task } from "../../src/work/task.ts";
import { mortal, ok, status, World } from "./world.ts";

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
        usage: {
          input_tokens: 10,
          price_factor: 1,
          output_tokens: 5,
          cached_tokens: 0,
          cache_write_tokens: 0,
          reasoning_tokens: 0,
        },
        output: { type: "text", text: `answer ${line}` },
        error: null,
        finish_reason: "stop",
        model: "alpha:scripted",
        cost: expect.objectContaining({ ambiguous_usd: 0 }),
        latency_ms: expect.any(Number),
        attempts: 1,
        provider_request_id: "chatcmpl-scripted",
      })),
    });
    expect(await world.settle(engine.task(task.task_id))).toEqual(task);
    const [, second] = task.objects;
    expect(await world.settle(engine.object(second?.object_id ?? ""))).toEqual(second);
  });

  it("takes items with messages or contents, and settings beside them", async () => {
    const bodies: unknown[] = [];
    const world = new World({
      answer: (line, _attempt, _model, body) => {
        bodies.push(body);
        return ok(line);
      },
    });
    const engine = await world.engine();
    const { counts } = await world.settle(
      engine.submit([
        {
          model: "alpha:m1",
          messages: [{ role: "user", content: "[[1]]" }],
          temperature: 0.5,
          maxOutputTokens: 9,
        },
        { model: "alpha:m1", contents: [{ parts: [{ text: "[[2]]" }] }], system: "Be brief.", topP: 0.5 },
      ]),
    );
    expect(counts.completed).toBe(2);
    expect(bodies).toEqual([
      { model: "m1", messages: [{ role: "user", content: "[[1]]" }], max_tokens: 9, temperature: 0.5 },
      {
        model: "m1",
        messages: [
          { role: "system", content: "Be brief." },
          { role: "user", content: "[[2]]" },
        ],
        top_p: 0.5,
      },
    ]);
  });

  it.each([
    ["no question", { model: "alpha:m1" }],
    ["two questions", { model: "alpha:m1", input: "a", messages: [] }],
    ["two conversations", { model: "alpha:m1", contents: [], messages: [] }],
    ["a prompt that is not a text", { model: "alpha:m1", input: 5 }],
    ["no model", { input: "a" }],
  ])("refuses an item with %s", async (_, wrong) => {
    const world = new World();
    const engine = await world.engine();
    await expect(engine.submit([item(1), wrong as never])).rejects.toMatchObject({
      code: "usage",
      message: expect.stringContaining("item 1 must have a model, which is a text, and one of input"),
    });
  });

  it.each([0, 1])(
    "refuses an array with a hole at index %i, and submit sends nothing of it",
    async (place) => {
      const world = new World();
      const engine = await world.engine();
      const items = Array.from({ length: place }, (_, index) => item(index + 1));
      items[place + 1] = item(3);
      await expect(world.settle(Promise.resolve(engine.submit(items)))).rejects.toMatchObject({
        code: "usage",
        message: expect.stringContaining(`item ${place} must have a model`),
      });
      expect(world.sent).toEqual([]);
      const run = engine.run(items.map((each, index) => ({ ...each, key: String(index) })));
      await expect(world.settle(run.finished)).rejects.toMatchObject({
        code: "usage",
        message: `item ${place + 1} must be an object, got undefined`,
      });
    },
  );

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
    const task = await world.settle(engine.submit([item(1), { model: "nobody", input: "[[2]]" }]));
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

  it("that is empty or holds an invalid item is refused, and nothing is stored of it", async () => {
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

  it("leaves no file open, and a task that is read again and again keeps no file open", async () => {
    const world = new World();
    const opened = countOpen(world.disk);
    const engine = await world.engine();
    for (let list = 0; list < 40; list += 1) {
      const task = await world.settle(engine.submit([item(2 * list), item(2 * list + 1, 60)]).finished);
      await world.settle(engine.task(task.task_id));
      await world.settle(engine.object(task.objects[1]?.object_id ?? ""));
    }
    expect(opened.total).toBeGreaterThan(80);
    expect(opened.now).toBe(0);
  });

  it("is dropped from memory when it is done and 64 others were read since, and found again all the same", async () => {
    const world = new World();
    const opened = countOpen(world.disk);
    const engine = await world.engine();
    const tasks: Task[] = [];
    for (let list = 0; list < 66; list += 1)
      tasks.push(await world.settle(engine.submit([item(list), item(100 + list, 60)]).finished));
    const inputsRead = async (of: number): Promise<number> => {
      const before = opened.inputs;
      expect(await world.settle(engine.task(tasks[of]?.task_id ?? ""))).toEqual(tasks[of]);
      return opened.inputs - before;
    };
    expect(await inputsRead(65)).toBe(0);
    expect(await inputsRead(0)).toBeGreaterThan(0);
    expect(await inputsRead(0)).toBe(0);
    expect(world.sent).toHaveLength(132);
  });

  it("takes 64 different slas, each item in its place, and refuses more", async () => {
    const world = new World();
    const engine = await world.engine();
    const items = Array.from({ length: 256 }, (_, line) => item(line, 1 + (line % 64)));
    const { task_id } = await world.settle(engine.submit(items));
    await world.clock.advance(1_000);
    const task = await world.settle(engine.task(task_id));
    expect(task.objects.map(({ output }) => output?.text)).toEqual(items.map((_, line) => `answer ${line}`));
    for (const index of [0, 63, 64, 255]) {
      const object = task.objects[index];
      expect(await world.settle(engine.object(object?.object_id ?? ""))).toEqual(object);
    }
    const more = [...items, item(256, 65)];
    await expect(world.settle(engine.submit(more))).rejects.toMatchObject({ code: "usage" });
  });

  it("says of an item whether it waits, runs, or waits for another attempt", async () => {
    const world = new World({
      config: { maxInFlight: 1 },
      answer: (line, attempt) =>
        line === 1 && attempt === 1 ? status(503) : { afterMs: 60_000, result: ok(line) },
    });
    const engine = await world.engine();
    const { task_id } = await world.settle(engine.submit([item(1, 60)]));
    const phases = new Set<string>();
    for (let round = 0; round < 200 && !phases.has("running"); round += 1) {
      await world.clock.advance(50);
      const [object] = (await world.settle(engine.task(task_id))).objects;
      if (object?.phase === "retrying")
        expect(object.last_error).toEqual({ code: "overloaded", provider_status: 503 });
      else expect(object).not.toHaveProperty("last_error");
      phases.add(
        world.sent.length === 2 ? (object?.phase ?? "") : `${object?.phase} after ${world.sent.length}`,
      );
    }
    expect([...phases]).toEqual(["queued after 0", "running after 1", "retrying after 1", "running"]);
  });

  it("says of an item what holds it, until that is over", async () => {
    const world = new World({
      config: {
        providers: {
          alpha: { baseUrl: "http://alpha.test/v1" },
          beta: { baseUrl: "http://beta.test/v1" },
          gamma: { baseUrl: "http://gamma.test/v1", needsKey: true },
        },
      },
      answer: (line) =>
        line < 10 && world.clock.nowMs() < 200_000
          ? status(402, "insufficient_balance")
          : { afterMs: line < 10 ? 10 : 3_600_000, result: ok(line) },
    });
    const engine = await world.engine();
    const given = [
      item(1, 60),
      item(2, 90),
      { ...item(10, 90), model: "beta:m1" },
      { ...item(11, 90), model: "gamma:m1" },
    ];
    const { task_id } = await world.settle(engine.submit(given));
    await world.clock.advance(90_000);
    const { objects } = await world.settle(engine.task(task_id));
    const quota = { reason: "quota", provider: "alpha", code: "quota_exceeded", provider_status: 402 };
    const times = { since: expect.any(String), next_try: expect.any(String) };
    expect(objects.map(({ held }) => held)).toEqual([
      { ...quota, ...times },
      { ...quota, ...times },
      undefined,
      { reason: "key_missing", provider: "gamma", since: expect.any(String), next_try: null },
    ]);
    expect(await world.settle(engine.object(objects[0]?.object_id ?? ""))).toEqual(objects[0]);
    await world.clock.advance(200_000);
    const later = (await world.settle(engine.task(task_id))).objects;
    expect(later.map(({ status: state, held }) => [state, held?.reason])).toEqual([
      ["completed", undefined],
      ["completed", undefined],
      ["submitted", undefined],
      ["submitted", "key_missing"],
    ]);
  });

  it("is given up by its caller, and continues", async () => {
    const world = new World({ latencyMs: 1_000 });
    const engine = await world.engine();
    const waiting = new AbortController();
    const submitted = engine.submit([item(1)], { signal: waiting.signal });
    world.clock.timer(500, () => waiting.abort(new Error("enough")));
    await expect(world.settle(submitted)).rejects.toThrow("enough");
    await world.clock.advance(2_000);
    expect(world.sent).toHaveLength(1);
    const store = await storeOf(world, engine);
    await store.openLog();
    const [list] = await store.loggedTasks({ limit: 10 });
    expect(await store.loggedAnswers(list?.number ?? 0, 0, 1)).toHaveLength(1);
  });

  it("is not stored when its signal was aborted before", async () => {
    const world = new World();
    const engine = await world.engine();
    const signal = AbortSignal.abort(new Error("never mind"));
    await expect(world.settle(engine.submit([item(1)], { signal }))).rejects.toThrow("never mind");
    expect(world.disk.paths).toEqual([]);
    expect(world.sent).toEqual([]);
  });

  it("that does not fit on the disk is refused, and leaves nothing there", async () => {
    const world = new World();
    const engine = await world.engine();
    world.disk.setFull(10);
    const submitted = engine.submit([item(1), item(2, 60)]);
    await expect(world.settle(submitted)).rejects.toMatchObject({ code: "disk_full" });
    expect(world.disk.paths).toEqual([]);
  });

  it("fault 21: once submit has resolved, survives a power cut and is answered", async () => {
    for (const afterMs of [0, 15, 40]) {
      const world = new World({ config: { maxInFlight: 2 }, latencyMs: 10 });
      const process = mortal(world.clock);
      const engine = await world.engine(process.clock);
      const task = await world.settle(
        engine.submit(Array.from({ length: 9 }, (_, line) => item(line, line % 2 === 0 ? 60 : 120))),
      );
      await world.clock.advance(afterMs);
      process.kill();
      world.kill({ powerCut: true });
      const again = await world.engine();
      await world.clock.advance(60_000);
      const found = await world.settle(again.task(task.task_id));
      expect(found.objects.map(({ object_id }) => object_id)).toEqual(
        task.objects.map((one) => one.object_id),
      );
      expect(found.objects.map(({ output }) => output?.text)).toEqual(
        task.objects.map((_, line) => `answer ${line}`),
      );
    }
  });

  it("fault 22: cut off anywhere while a list is expanded, exists as a whole or not at all, and never twice", async () => {
    const found = new Set<number>();
    for (let operations = 1; operations < 40; operations += 1) {
      const world = new World();
      const process = mortal(world.clock);
      const engine = await world.engine(process.clock);
      world.disk.crashAtOperation(operations, { powerCut: true });
      const cut = engine.submit([item(1, 60), item(2, 120), item(3, 60)]);
      cut.catch(() => undefined); // nobody is left to hear of it
      await world.clock.advance(5);
      process.kill();
      world.kill({ powerCut: true });
      const sentBefore = world.sent.length;
      const again = await world.engine();
      await world.clock.advance(60_000);
      const lines = new Set(world.sent.map(({ line }) => line));
      expect([0, 3]).toContain(lines.size);
      expect(world.sent.length).toBeLessThanOrEqual(lines.size + sentBefore);
      found.add(lines.size);
      await world.settle(again.close());
    }
    expect([...found].sort()).toEqual([0, 3]);
  });
});

/** Counts the files that are open on a disk. */
function countOpen(disk: Disk): { now: number; total: number; inputs: number } {
  const counts = { now: 0, total: 0, inputs: 0 };
  const open = disk.open.bind(disk);
  disk.open = async (path, mode): Promise<DiskFile> => {
    const file = await open(path, mode);
    counts.now += 1;
    counts.total += 1;
    if (path.endsWith(".0.jsonl") && mode === "read") counts.inputs += 1;
    const close = file.close.bind(file);
    file.close = () => {
      counts.now -= 1;
      return close();
    };
    return file;
  };
  return counts;
}

/** The engine's store, once the engine has let go of it. */
async function storeOf(world: World, engine: Engine): Promise<Store> {
  await world.settle(engine.close());
  return world.store.open();
}

describe("retryTask", () => {
  const bad = status(400, "bad");
  const items = [item(1), item(2, 60), item(3), item(4, 60)];
  const again = { codes: ["invalid_request"] } as const;

  it("runs items of a list again that ended in an error, in all its parts, and no others", async () => {
    const world = new World({ answer: (line) => (line <= 2 ? bad : ok(line)) });
    const engine = await world.engine();
    const { task_id } = await world.settle(engine.submit(items));
    await world.clock.advance(10_000);
    const before = await world.settle(engine.task(task_id));
    expect(before.counts).toMatchObject({ completed: 2, failed: 2 });
    world.answer = (line) => ok(line);
    const sent = world.sent.length;
    const task = await world.settle(engine.retryTask(task_id, again));
    expect(task.objects[0]).toMatchObject({ status: "completed", output: { text: "answer 1" } }); // it had no sla
    await world.clock.advance(10_000);
    const after = await world.settle(engine.task(task_id));
    expect(after).toMatchObject({ status: "completed", counts: { completed: 4, failed: 0 } });
    expect(after.objects.map(({ object_id }) => object_id)).toEqual(
      before.objects.map((one) => one.object_id),
    );
    expect(
      world.sent
        .slice(sent)
        .map(({ line }) => line)
        .sort(),
    ).toEqual([1, 2]);
    expect(await world.settle(engine.retryTask(task_id, again))).toEqual(after); // nothing is left to be run again
    expect(world.sent).toHaveLength(sent + 2);
  });

  it("is durable when it resolves, and can be repeated after an earlier kill", async () => {
    const world = new World({ answer: (line) => (line % 2 === 0 ? bad : ok(line)), latencyMs: 30 });
    let process = mortal(world.clock);
    let engine = await world.engine(process.clock);
    const list = [1, 2, 3, 4, 5, 6].map((line) => item(line, 60));
    const { task_id } = await world.settle(engine.submit(list));
    await world.clock.advance(10_000);
    world.answer = (line) => ok(line);
    for (let kill = 0; kill < 5; kill += 1) {
      void engine.retryTask(task_id, again).catch(() => undefined);
      await world.clock.advance(kill * 9);
      process.kill();
      world.kill();
      process = mortal(world.clock);
      engine = await world.settle(world.engine(process.clock));
    }
    await world.clock.advance(10_000);
    await world.settle(engine.retryTask(task_id, again));
    await world.clock.advance(10_000);
    const task = await world.settle(engine.task(task_id));
    expect(task.objects.map(({ output }) => output?.text)).toEqual(
      list.map((_, index) => `answer ${index + 1}`),
    );
    const sentOf = (line: number) => world.sent.filter((one) => one.line === line).length;
    expect([1, 3, 5].map(sentOf)).toEqual([1, 1, 1]);
  });

  it("refuses a list that is at work, a run, and a code that no item ends with", async () => {
    const world = new World({ answer: () => "hang" });
    const engine = await world.engine();
    const { task_id } = await world.settle(engine.submit([item(1, 60)]));
    await expect(engine.retryTask(task_id)).rejects.toMatchObject({ code: "conflict" });
    await expect(engine.retryTask("none")).rejects.toMatchObject({ code: "not_found" });
    await expect(engine.retryTask(task_id, { codes: ["timout" as "timeout"] })).rejects.toThrow(
      'retryTask: "timout" is not the code of an error; did you mean "timeout"?',
    );
    await expect(engine.retry(task_id)).rejects.toThrow(
      `task ${task_id} is a submitted list: run its items again with retryTask`,
    );
  });
});
