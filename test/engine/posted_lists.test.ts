/**
 * Lists of `engine.submit` that are posted tasks of the work log: few items of one sla.
 */
import { describe, expect, it } from "vitest";
import { WORK_KINDS } from "../../src/log/work_kinds.ts";
import type { LoggedTask } from "../../src/store/log_rows.ts";
import type { TaskObject } from "../../src/work/task.ts";
import { dataFiles } from "./runs.ts";
import { INPUT, mortal, OUTPUT, ok, status, World } from "./world.ts";

const item = (line: number, sla?: number) => ({
  model: "alpha:m1",
  input: `[[${line}]] hello`,
  ...(sla === undefined ? {} : { sla }),
});

/** Rows of the work log, once no engine has the store. */
async function logged(world: World): Promise<readonly LoggedTask[]> {
  const store = await world.store.open();
  await store.openLog();
  const rows = await store.loggedTasks({ limit: 100 });
  await store.close();
  return rows;
}

describe("a list of few items of one sla", () => {
  it("is one row of the work log, and no file and no task of the store", async () => {
    const world = new World();
    const engine = await world.engine();
    const { task_id } = await world.settle(engine.submit([item(1), item(2)]));
    await world.settle(engine.close());
    expect(dataFiles(world)).toEqual([]);
    expect((await logged(world)).map(({ id }) => id)).toEqual([task_id.replaceAll("-", "").slice(0, 24)]);
    const store = await world.store.open();
    expect(await store.tasks({ limit: 10 })).toEqual([]);
  });

  it.each([
    ["somebody listens to its progress", {}, { onProgress: () => undefined }, [item(1)]],
    ["its items have two slas", {}, {}, [item(1), item(2, 60)]],
    ["a model is not known", {}, {}, [item(1), { model: "nobody", input: "[[2]]" }]],
    ["it has more than 1,000 items", {}, {}, Array.from({ length: 1_001 }, (_, line) => item(line))],
  ])("is runs over files when %s, with the same result", async (_why, config, options, items) => {
    const world = new World({ config });
    const engine = await world.engine();
    const submitted = engine.submit(items, options);
    const task = await world.settle(submitted.finished);
    expect(task).toMatchObject({ status: "completed", total_items: items.length });
    expect(dataFiles(world)).not.toEqual([]);
    expect(await world.settle(engine.task(task.task_id))).toEqual(task);
    await world.settle(engine.close());
  });

  it("once submit has resolved, survives a power cut and is answered", async () => {
    for (const afterMs of [0, 15, 300, 340]) {
      const world = new World({ config: { maxInFlight: 2 }, latencyMs: 10 });
      const process = mortal(world.clock);
      const engine = await world.engine(process.clock);
      const items = Array.from({ length: 9 }, (_, line) => item(line, 60));
      const task = await world.settle(engine.submit(items));
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
        items.map((_, line) => `answer ${line}`),
      );
      await world.settle(again.close());
    }
  });

  it("cut off at any commit exists as a whole or not at all, and is sent no more than twice", async () => {
    const found = new Set<number>();
    for (let commits = 0; commits < 8; commits += 1) {
      const world = new World({ commitMs: 2 });
      const process = mortal(world.clock);
      const engine = await world.engine(process.clock);
      const before = world.store.commits;
      const cut = engine.submit([item(1), item(2), item(3)]);
      cut.catch(() => undefined); // nobody is left to hear of it
      for (let turn = 0; turn < 100 && world.store.commits - before < commits; turn += 1)
        await world.clock.advance(1);
      process.kill();
      world.kill({ powerCut: true });
      const again = await world.engine();
      await world.clock.advance(60_000);
      const lines = world.sent.map(({ line }) => line);
      expect([0, 3]).toContain(new Set(lines).size);
      for (const line of lines) expect(lines.filter((one) => one === line).length).toBeLessThanOrEqual(2);
      found.add(new Set(lines).size);
      await world.settle(again.close());
    }
    expect([...found].sort()).toEqual([0, 3]);
  });

  it("rejects everywhere when the store fails, and does not hang", async () => {
    const world = new World({ answer: (line) => ({ afterMs: 1_000, result: ok(line) }) });
    const engine = await world.engine();
    const submitted = engine.submit([item(1), item(2)]);
    const ends = Promise.allSettled([submitted, submitted.finished, firstOf(submitted)]);
    await world.clock.advance(500);
    world.store.failNext("store_failed");
    expect(await world.settle(ends)).toMatchObject(
      [1, 2, 3].map(() => ({ status: "rejected", reason: { code: "store_failed" } })),
    );
  });

  it("without sla is answered as it is when the engine closes", async () => {
    const world = new World({ answer: () => "hang" });
    const engine = await world.engine();
    const submitted = engine.submit([item(1), item(2)]);
    await world.clock.advance(1_000);
    const closing = engine.close();
    expect(await world.settle(submitted)).toMatchObject({ status: "submitted", counts: { submitted: 2 } });
    await world.settle(closing);
  });

  it("keeps its deadline over a restart, and its items expire then", async () => {
    const world = new World({ answer: () => "hang" });
    const engine = await world.engine();
    const { task_id } = await world.settle(engine.submit([item(1, 2), item(2, 2)]));
    await world.clock.advance(60_000);
    await world.settle(engine.close());
    world.answer = () => status(503);
    const again = await world.engine();
    await world.clock.advance(65_000);
    const { counts, objects } = await world.settle(again.task(task_id));
    expect(counts).toMatchObject({ expired: 2 });
    expect(objects[0]).toMatchObject({ status: "expired", error: { code: "expired" } });
    await world.settle(again.close());
  });
});

describe("a posted list under a cap that its engine was given later", () => {
  it.each([
    ["still open", false],
    ["final", true],
  ])("counts in it over restarts when it is %s", async (_how, isFinal) => {
    const prices = { "alpha:*": { inputUsdPerMillion: 1_000, outputUsdPerMillion: 5_000 } }; // 0.035 USD an answer, 0.068 at most
    const world = new World({ config: { prices }, answer: () => status(402) });
    const first = await world.engine();
    const bounded = (line: number) => ({ ...item(line), maxOutputTokens: 5 });
    const items = [1, 2].map((line) => ({ ...bounded(line), sla: 60 }));
    const { task_id } = await world.settle(first.submit(items));
    await world.clock.advance(1_000);
    await world.settle(first.close());
    world.reconfigure({ cap: { name: "month", usd: 0.11 } });
    world.answer = (line) => (line === 1 || isFinal ? ok(line) : "hang");
    const second = await world.engine();
    await world.clock.advance(300_000);
    const { counts } = await world.settle(second.task(task_id));
    expect(counts).toMatchObject(isFinal ? { completed: 2 } : { completed: 1, submitted: 1 });
    await world.settle(second.close());
    const third = await world.engine();
    const run = third.run([bounded(3)], { out: OUTPUT, onHeld: () => undefined });
    await world.clock.advance(5_000);
    expect(run.progress()).toMatchObject({ held: [{ reason: "cap_reached" }], completed: 0 });
    await world.settle(third.close());
  });
});

describe("the work log of posted lists", () => {
  it("counts what was sent against the limits of the next engine, once, and is the one log that others of it get", async () => {
    const world = new World({ config: { limits: { alpha: { requestsPerMinute: 6 } } } });
    const first = await world.opened();
    await world.settle(first.engine.submit([1, 2, 3].map((line) => item(line))));
    await world.settle(first.engine.close());
    const { engine, openLog, openPosted } = await world.opened();
    const workLog = await openLog();
    expect(await openLog()).toBe(workLog);
    openPosted({
      ...{ workLog, kind: WORK_KINDS.posted, waits: { answerMs: 1, heldMs: () => 1 } },
      ...{ capsOf: () => Promise.resolve([]), onTried: () => undefined, onEnded: () => undefined },
      ...{ onFinal: () => undefined, onFault: () => undefined },
    });
    await world.settle(engine.submit([4, 5, 6, 7].map((line) => item(line))));
    const times = world.sent.map(({ atMs }) => atMs);
    expect(times[5]).toBeLessThan(51_000); // twice counted, they would wait for the minute
    expect((times[6] as number) - (times[0] as number)).toBeGreaterThanOrEqual(60_000);
    await world.settle(engine.close());
  });

  it("is opened with the first list that is posted, and by runs never", async () => {
    const world = new World();
    world.input(2);
    const engine = await world.engine();
    await world.settle(engine.run(INPUT, { out: OUTPUT }).finished);
    await expect(world.settle(engine.task("none"))).rejects.toMatchObject({ code: "not_found" });
    await world.settle(engine.close());
    const store = await world.store.open();
    expect(await store.records("", { collection: "posted_lists", limit: 1 })).toEqual([]);
  });
});

async function firstOf(objects: AsyncIterable<TaskObject>): Promise<TaskObject | undefined> {
  for await (const object of objects) return object;
  return undefined;
}

describe("an object of a posted list", () => {
  it("has a life that says what was requested, when it was answered, and what was run again", async () => {
    const world = new World({
      answer: (line, attempt) => (attempt === 1 ? status(503) : attempt === 2 ? status(400) : ok(line)),
    });
    const engine = await world.engine();
    const { task_id, objects } = await world.settle(engine.submit([item(1)]));
    const id = objects[0]?.object_id ?? "";
    const eventsOf = async (): Promise<unknown[]> => {
      const { events, status: now, line, key } = await world.settle(engine.trace(id));
      expect({ line, key }).toEqual({ line: 1, key: id });
      return [now, ...events.map(({ event }) => event)];
    };
    const life = ["accepted", "admitted", "ended", "admitted", "committed"];
    expect(await eventsOf()).toEqual(["failed", ...life, "written"]);
    await world.settle(engine.retryTask(task_id, { codes: ["invalid_request"] }));
    expect(await eventsOf()).toEqual(["completed", ...life, "reopened", "admitted", "committed", "written"]);
    await world.settle(engine.close());
  });

  it("waits for its turn, with what holds it", async () => {
    const world = new World({ answer: () => status(402, "insufficient_balance") });
    const engine = await world.engine();
    const { objects } = await world.settle(engine.submit([item(1, 60)]));
    const first = await world.settle(engine.trace(objects[0]?.object_id ?? ""));
    expect(first).toMatchObject({ status: "open", events: [{ event: "accepted" }, { event: "waiting" }] });
    await world.clock.advance(90_000);
    const { events } = await world.settle(engine.trace(objects[0]?.object_id ?? ""));
    expect(events.at(-1)?.detail).toContain("waits until this is over: quota: alpha; next try");
    await world.settle(engine.close());
  });
});

describe("a posted list that is run again", () => {
  it("reports its progress and its end", async () => {
    const world = new World({ answer: (line) => (line === 2 ? status(400) : ok(line)) });
    const engine = await world.engine();
    const { task_id } = await world.settle(engine.submit([item(1), item(2), item(3)]));
    world.answer = (line) => ({ afterMs: 1_000, result: ok(line) });
    const events: unknown[] = [];
    const codes = ["invalid_request"] as const;
    await world.settle(engine.retryTask(task_id, { codes, onProgress: (event) => events.push(event) }));
    expect(events[0]).toMatchObject({
      type: "progress",
      progress: { state: "running", linesTotal: 3, settled: 2, completed: 2, errors: 0, inFlight: 1 },
    });
    expect(events.at(-1)).toMatchObject({
      type: "end",
      status: "completed",
      progress: { state: "done", settled: 3, completed: 3, errors: 0 },
    });
    await world.settle(engine.close());
  });

  it("is forgotten with its texts, but not while it is at work", async () => {
    const world = new World({ latencyMs: 1_000 });
    const engine = await world.engine();
    const { task_id } = await world.settle(engine.submit([item(1, 60)]));
    await expect(world.settle(engine.forget(task_id))).rejects.toMatchObject({ code: "conflict" });
    await world.clock.advance(5_000);
    await world.settle(engine.forget(task_id));
    for (const look of [() => engine.task(task_id), () => engine.forget(task_id)])
      await expect(world.settle<unknown>(look())).rejects.toMatchObject({ code: "not_found" });
    await world.settle(engine.close());
    expect(await logged(world)).toEqual([]);
  });
});
