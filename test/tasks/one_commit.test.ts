/** Calls without sla are accepted and intended in one commit, and are sent when that is durable. */
import { describe, expect, it } from "vitest";
import { eachRecord, type LogRecord } from "../../src/log/records.ts";
import type { LogCommit } from "../../src/store/log_rows.ts";
import type { TaskRequest } from "../../src/tasks/shapes/requests.ts";
import { item, PROJECT, submit, TaskWorld } from "./world.ts";

const prices = { "alpha:m1": { inputUsdPerMillion: 100, outputUsdPerMillion: 100 } };
/** A request of `priced` costs 0.0015, and may cost 0.0053: enough for one, and one more after it. */
const CAP_USD = 0.0075;
const priced = (line: number) => ({ ...item(line), max_tokens: 10 });
const CALL = { items: [item(1)], hasOutputFile: false } satisfies TaskRequest;

/** A world whose commits of the work log are listed, and wait for `gate`. */
async function watched(world: TaskWorld) {
  const opened = await world.opened();
  const seen = { commits: [] as LogRecord["is"][][], gate: Promise.resolve() };
  const store = opened.core.storage.store as { commitLog(commit: LogCommit): Promise<void> };
  const commitLog = store.commitLog.bind(store);
  store.commitLog = async (commit) => {
    const records: LogRecord["is"][] = [];
    eachRecord(commit.records, ({ is }) => records.push(is));
    seen.commits.push(records);
    await seen.gate;
    return commitLog(commit);
  };
  return { seen, tasks: await world.tasksOn(opened) };
}

describe("a call without sla", () => {
  it("has its acceptance and its intent in one commit, and is not sent before that is durable", async () => {
    const world = new TaskWorld();
    const { seen, tasks } = await watched(world);
    let open = (): void => undefined;
    seen.gate = new Promise((resolve) => {
      open = resolve;
    });
    seen.commits.length = 0;
    const call = tasks.submit(PROJECT, CALL);
    await world.clock.advance(10_000);
    expect(seen.commits).toEqual([["accepted", "intent"]]);
    expect(world.sent).toEqual([]);
    open();
    expect(await world.settle(call)).toMatchObject({ status: "completed", counts: { completed: 1 } });
    expect(world.sent).toHaveLength(1);
  });

  it("is refused on a full disk, sends nothing then or later, and leaves neither a place nor money taken", async () => {
    const world = new TaskWorld({
      config: { prices, maxInFlight: 1, cap: { name: "all", usd: CAP_USD } },
    });
    const { seen, tasks } = await watched(world);
    await world.settle(submit(tasks, [priced(0)])); // the engine has joined its cap then
    seen.commits.length = 0;
    for (let time = 0; time < 4; time += 1) {
      world.store.failNext("disk_full");
      await expect(world.settle(submit(tasks, [priced(1)]))).rejects.toMatchObject({ code: "disk_full" });
      await world.clock.advance(5_000);
      world.store.failNoMore();
    }
    expect(seen.commits.filter((records) => records.includes("intent"))).toHaveLength(4);
    expect(world.sent).toHaveLength(1);
    expect(world.isFull).toBe(false);
    expect(await world.settle(submit(tasks, [priced(2)]))).toMatchObject({ counts: { completed: 1 } });
    expect(world.sent).toHaveLength(2);
    expect((await world.settle(tasks.list(PROJECT, { limit: 10 }))).items).toHaveLength(2);
    world.kill();
    await world.settle(world.tasks());
    await world.clock.advance(60_000);
    expect(world.sent).toHaveLength(2);
  });

  it("is refused without a request when another task has its id", async () => {
    const world = new TaskWorld();
    const { tasks } = await watched(world);
    const { id } = await world.settle(tasks.submit(PROJECT, CALL));
    const same = { ...CALL, id, isNewId: true };
    await expect(world.settle(tasks.submit(PROJECT, same))).rejects.toMatchObject({ code: "conflict" });
    await world.clock.advance(60_000);
    expect(world.sent).toHaveLength(1);
    expect(await world.settle(tasks.submit(PROJECT, CALL))).toMatchObject({ status: "completed" });
    expect(world.faults).toEqual([]);
  });

  it("is asked again by the next process if this one is killed before or after the commit, once at most", async () => {
    for (const afterMs of [0, 1, 5, 20]) {
      const world = new TaskWorld({ latencyMs: 50 });
      const { tasks } = await watched(world);
      const call = tasks.submit(PROJECT, CALL).catch(() => undefined);
      await world.clock.advance(afterMs);
      const before = world.sent.length;
      world.kill();
      void call;
      const next = await world.settle(world.tasks());
      await world.clock.advance(60_000);
      const { items } = await world.settle(next.list(PROJECT, { limit: 10 }));
      expect(items.map(({ status }) => status)).toEqual(items.map(() => "completed"));
      expect(world.sent.length).toBe(before + items.length);
    }
  });
});
