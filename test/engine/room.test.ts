/**
 * A full disk under what the committer does not write: copies of inputs, tasks, answers put in order.
 */
import { describe, expect, it } from "vitest";
import type { Step } from "../../src/engine/journal/journal.ts";
import { PerigeeError } from "../../src/errors.ts";
import { failure } from "./runs.ts";
import { INPUT, itemLine, OUTPUT, World } from "./world.ts";

const OPTIONS = { out: OUTPUT };
const FULL_MS = 20_000;
/** So that a test need not wait for half an hour. */
const IMPATIENT = { config: { diskWaitMs: 60_000 } };

/** Lets writes of tasks be refused while `isFull` says so. */
function refuseTasks(world: World, isFull: (body: string) => boolean): void {
  const open = world.store.open.bind(world.store);
  world.store.open = async () => {
    const store = await open();
    const putTask = store.putTask.bind(store);
    store.putTask = async (task) => {
      if (isFull(task.body)) throw new PerigeeError("disk_full", "no room");
      return putTask(task);
    };
    return store;
  };
}

/** The same for commits of the work log. */
function refuseLog(world: World, isFull: () => boolean): void {
  const open = world.store.open.bind(world.store);
  world.store.open = async () => {
    const store = await open();
    const commitLog = store.commitLog.bind(store);
    store.commitLog = async (commit) => {
      if (isFull()) throw new PerigeeError("disk_full", "no room");
      return commitLog(commit);
    };
    return store;
  };
}

function until(world: World, atMs: number): () => boolean {
  return () => world.clock.nowMs() < atMs;
}

/** A stream that gives its second half when the disk is full already. */
async function* inHalves(world: World): AsyncGenerator<Uint8Array> {
  yield Buffer.from([1, 2, 3].map((line) => itemLine(line)).join(""));
  await world.clock.sleep(100);
  yield Buffer.from([4, 5, 6].map((line) => itemLine(line)).join(""));
}

describe("fault 35: a disk too full for", () => {
  it("the copy of a stream is waited for, and nothing is sent meanwhile", async () => {
    const world = new World();
    const engine = await world.engine();
    const run = engine.run(inHalves(world), OPTIONS);
    await world.clock.advance(50);
    world.input(2, "alpha:m1", "/other.jsonl");
    world.disk.setFull(10);
    await world.clock.advance(100);
    const other = engine.run("/other.jsonl", { out: "/other.out" });
    await world.clock.advance(FULL_MS);
    expect(world.sent).toHaveLength(3);
    world.disk.setFull(Number.POSITIVE_INFINITY);
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 6 } });
    expect(await world.settle(other.finished)).toMatchObject({ counts: { completed: 2 } });
    expect(world.clock.nowMs()).toBeLessThan(FULL_MS + 2_000);
    expect(world.sent).toHaveLength(8);
  });

  it("the copy of a stream for a minute fails the run, and the same call continues", async () => {
    const world = new World(IMPATIENT);
    const engine = await world.engine();
    const run = engine.run(inHalves(world), OPTIONS);
    await world.clock.advance(50);
    world.disk.setFull(10);
    expect(await failure(world, run.finished)).toMatchObject({ code: "disk_full" });
    expect(world.clock.nowMs()).toBeGreaterThan(60_000);
    expect(world.clock.nowMs()).toBeLessThan(62_000);
    world.disk.setFull(Number.POSITIVE_INFINITY);
    const again = await world.settle(engine.run(inHalves(world), OPTIONS).finished);
    expect(again).toMatchObject({ counts: { completed: 6 }, requests_sent: 3 });
  });

  it("the copy of a stream does not keep a run that is stopped", async () => {
    const world = new World();
    const engine = await world.engine();
    const run = engine.run(inHalves(world), OPTIONS);
    await world.clock.advance(50);
    world.disk.setFull(10);
    await world.clock.advance(5_000);
    run.stop();
    expect(await world.settle(run.finished)).toMatchObject({ status: "stopped", counts: { completed: 3 } });
    expect(world.clock.nowMs()).toBeLessThan(5_100);
    await world.settle(engine.close());
    expect(world.clock.pendingTimers).toBe(0);
  });

  it("the copy of a .json file is waited for", async () => {
    const world = new World();
    world.disk.put("/in.json", `[${itemLine(1)},${itemLine(2)}]`);
    const engine = await world.engine();
    world.disk.setFull(10);
    const run = engine.run("/in.json", OPTIONS);
    await world.clock.advance(FULL_MS);
    expect(world.sent).toHaveLength(0);
    world.disk.setFull(Number.POSITIVE_INFINITY);
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 2 } });
  });

  it("answers in order is waited for", async () => {
    const world = new World();
    world.input(3);
    const engine = await world.engine();
    let settled = 0;
    const onStep = (_: number, step: Step): void => {
      settled += step.outcomes.length;
      if (step.outcomes.length > 0 && settled === 3) world.disk.setFull(10);
    };
    const run = engine.run(INPUT, { ...OPTIONS, ordered: true, onStep });
    await world.clock.advance(FULL_MS);
    expect(run.progress()).toMatchObject({ settled: 3, state: "paused" });
    world.disk.setFull(Number.POSITIVE_INFINITY);
    expect(await world.settle(run.finished)).toMatchObject({ status: "completed", requests_sent: 3 });
    expect(world.output().map(({ key }) => key)).toEqual(["k1", "k2", "k3"]);
  });

  it.each(["open", "completed"])("the task when it is %s is waited for", async (status) => {
    const world = new World();
    world.input(3);
    refuseTasks(world, (body) => body.includes(`"status":"${status}"`) && until(world, FULL_MS)());
    const engine = await world.engine();
    const run = engine.run(INPUT, OPTIONS);
    await world.clock.advance(FULL_MS - 10);
    expect(world.sent).toHaveLength(status === "open" ? 0 : 3);
    expect(await world.settle(run.finished)).toMatchObject({ status: "completed", requests_sent: 3 });
    expect(world.clock.nowMs()).toBeLessThan(FULL_MS + 2_000);
  });

  it.each(["open", "completed"])("the task when it is %s for a minute fails the run", async (status) => {
    const world = new World(IMPATIENT);
    world.input(3);
    refuseTasks(world, (body) => body.includes(`"status":"${status}"`) && until(world, 70_000)());
    const engine = await world.engine();
    const run = engine.run(INPUT, OPTIONS);
    expect(await failure(world, run.finished)).toMatchObject({ code: "disk_full" });
    expect(world.clock.nowMs()).toBeGreaterThan(59_000);
    expect(world.clock.nowMs()).toBeLessThan(62_000);
    await world.clock.advance(10_000);
    expect(await world.settle(engine.run(INPUT, OPTIONS).finished)).toMatchObject({
      counts: { completed: 3 },
    });
    expect(world.sent).toHaveLength(3);
  });

  it("the task does not keep a run that is stopped, and the next call goes on from there", async () => {
    const world = new World();
    world.input(3);
    let refused = "open";
    refuseTasks(world, (body) => body.includes(`"status":"${refused}"`));
    const engine = await world.engine();
    const unopened = engine.run(INPUT, OPTIONS);
    await world.clock.advance(5_000);
    unopened.stop();
    expect(await failure(world, unopened.finished)).toMatchObject({ code: "interrupted" });
    refused = "completed";
    const unfinished = engine.run(INPUT, OPTIONS);
    await world.clock.advance(5_000);
    unfinished.stop();
    expect(await world.settle(unfinished.finished)).toMatchObject({
      status: "stopped",
      counts: { completed: 3, submitted: 0 },
    });
    expect(world.clock.nowMs()).toBeLessThan(11_000);
    refused = "none";
    const again = await world.settle(engine.run(INPUT, OPTIONS).finished);
    expect(again).toMatchObject({ status: "completed", requests_sent: 0 });
  });

  it.each([
    ["posted", undefined],
    ["of runs", 60],
  ])("a submitted task that is %s is waited for, until its caller gives up", async (_how, sla) => {
    const world = new World();
    let isFull = true;
    refuseTasks(world, (body) => body.includes('"kind":"submission"') && isFull);
    refuseLog(world, () => isFull);
    const engine = await world.engine();
    const first = { model: "alpha:m1", input: "[[1]] hello" };
    const items = sla === undefined ? [first] : [first, { model: "alpha:m1", input: "[[2]] hello", sla }];
    const waiting = new AbortController();
    const givenUp = engine.submit(items, { signal: waiting.signal });
    world.clock.timer(5_000, () => waiting.abort(new Error("enough")));
    await expect(world.settle(givenUp)).rejects.toThrow("enough");
    expect(world.disk.paths).toEqual([]);
    const submitted = engine.submit(items);
    await world.clock.advance(FULL_MS);
    isFull = false;
    expect(await world.settle(submitted)).toMatchObject({ counts: { completed: 1 } });
  });
});
