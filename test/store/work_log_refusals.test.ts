/** What the work log does when its store has no room, dies, or a power cut takes its last write. */
import { describe, expect, it } from "vitest";
import { openWorkLog } from "../../src/log/work_log.ts";
import { createCrashableStore } from "../../src/testing/crashable_store.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { MemoryDisk } from "../../src/testing/memory_disk.ts";
import { intentOf, outcomeOf, stateOf, text, work } from "../../src/testing/work_log_calls.ts";

async function setUp(options: object = {}) {
  const clock = new FakeClock();
  const state = createCrashableStore();
  const store = await state.open();
  const log = await openWorkLog({ store, clock, ...options });
  return { clock, state, store, log };
}

describe("a work log", () => {
  it("refuses all calls of a commit that finds no room, with nothing done, and takes them again", async () => {
    const { state, log } = await setUp();
    const { task, durable } = log.accept(work("a", { items: 2 }));
    await durable;
    await log.end(outcomeOf(task, 0), text("zero"));
    const before = await stateOf(log);
    state.failNext("disk_full");
    const refused = [
      log.end(outcomeOf(task, 1), text("one")),
      log.accept(work("b")).durable,
      log.learn(1, 1, 1, 1),
    ];
    for (const each of refused) await expect(each).rejects.toMatchObject({ code: "disk_full" });
    expect(await stateOf(log)).toEqual(before);
    expect(await log.rows.loggedTask("id-b")).toBeUndefined();
    const again = log.accept(work("b"));
    await log.end(outcomeOf(task, 1), text("one"));
    await again.durable;
    expect((await log.rows.loggedTask("id-b"))?.number).toBe(again.task);
    await log.learn(1, 1, 1, 1);
    expect(log.task(task)).toBeUndefined();
    expect((await log.sumsOf(task))?.completed).toBe(2);
  });

  it("keeps a name whose first commit found no room", async () => {
    const { state, clock, store, log } = await setUp();
    state.failNext("disk_full");
    await expect(log.accept(work("a", { project: "first" })).durable).rejects.toMatchObject({
      code: "disk_full",
    });
    await log.accept(work("a", { project: "second" })).durable;
    const numbers = ["first", "second"].map((name) => log.number(name));
    await log.close();
    const again = await openWorkLog({ store, clock });
    expect(["first", "second"].map((name) => again.number(name))).toEqual(numbers);
  });

  it("becomes final after a commit of its sums found no room, with the next call", async () => {
    const { state, log } = await setUp();
    const { task, durable } = log.accept(work("a", { items: 2 }));
    await durable;
    void log.end(outcomeOf(task, 0), text(""));
    await log.end(outcomeOf(task, 1), text(""));
    state.failNext("disk_full"); // the commit that makes it final is on its way
    for (let turns = 0; turns < 20; turns += 1) await new Promise((resolve) => setImmediate(resolve));
    expect(log.task(task)?.left).toBe(0);
    expect(log.isOpen(task, 1)).toBe(false);
    await log.learn(1, 1, 1, 1);
    await log.learn(1, 1, 1, 1);
    expect(log.task(task)).toBeUndefined();
    expect((await log.sumsOf(task))?.completed).toBe(2);
  });

  it("makes a task final by itself when there is room, or when another task of the commit was refused for its id", async () => {
    for (const reason of ["disk_full", "conflict"] as const) {
      const { state, clock, log } = await setUp();
      const { task, durable } = log.accept(work("a", { items: 2 }));
      await durable;
      void log.end(outcomeOf(task, 0), text(""));
      await log.end(outcomeOf(task, 1), text(""));
      if (reason === "disk_full") state.failNext(reason, 3);
      else await expect(log.accept(work("a")).durable).rejects.toMatchObject({ code: reason });
      expect(log.task(task)?.left).toBe(0);
      await clock.advance(10_000);
      expect(log.task(task)).toBeUndefined();
      expect((await log.sumsOf(task))?.completed).toBe(2);
    }
  });

  it("leaves a task open of which an item is opened again while its last one ends", async () => {
    const finals: number[] = [];
    const clock = new FakeClock();
    const store = await createCrashableStore({ clock, commitMs: 10 }).open();
    const done = <T>(call: Promise<T>): Promise<T> => clock.runUntilSettled(call);
    const log = await done(openWorkLog({ store, clock, onFinal: (task) => finals.push(task) }));
    const { task } = log.accept(work("a", { items: 2 }));
    await done(log.end(outcomeOf(task, 0, { status: "failed" }), text("bad")));
    const last = log.end(outcomeOf(task, 1), text("good"));
    await clock.advance(5); // it is under way
    const reopened = log.reopen(task, [{ item: 0, status: "failed" }]);
    await done(Promise.all([last, reopened]));
    for (let round = 0; round < 3; round += 1) await done(log.learn(1, 1, 1, 1));
    expect([log.task(task)?.left, log.isOpen(task, 0), finals]).toEqual([1, true, []]);
    await done(log.end(outcomeOf(task, 0), text("good")));
    for (let round = 0; round < 3; round += 1) await done(log.learn(1, 1, 1, 1));
    expect([log.task(task), finals, (await done(log.sumsOf(task)))?.completed]).toEqual([
      undefined,
      [task],
      2,
    ]);
  });

  it("refuses every call once its store has failed", async () => {
    const { state, log } = await setUp();
    const { durable } = log.accept(work("a"));
    state.failNext("store_failed");
    const late = log.learn(1, 1, 1, 1);
    await expect(durable).rejects.toMatchObject({ code: "store_failed" });
    await expect(late).rejects.toMatchObject({ code: "store_failed" });
    expect(() => log.accept(work("b"))).toThrow(expect.objectContaining({ code: "store_failed" }));
    await log.close();
  });

  it("fails when an output cannot be synced, because nobody knows what the disk has", async () => {
    const { log } = await setUp();
    const disk = new MemoryDisk();
    const file = await disk.open("out", "write");
    const { task, durable } = log.accept(work("a", { items: 2 }));
    await durable;
    log.openOutput(task, {
      read: (into, position) => file.read(into, position),
      write: (bytes, position) => file.write(bytes, position),
      sync: () => Promise.reject(Object.assign(new Error("made to fail"), { code: "EIO" })),
      truncate: (sizeBytes) => file.truncate(sizeBytes),
      sizeBytes: () => file.sizeBytes(),
      close: () => file.close(),
    });
    await expect(log.end(outcomeOf(task, 0), text("line\n"))).rejects.toMatchObject({ code: "store_failed" });
    expect(() => log.learn(1, 1, 1, 1)).toThrow(expect.objectContaining({ code: "store_failed" }));
  });

  it("names the lines of its last write after a crash, so that those that are not whole are opened again", async () => {
    const { clock, state, log } = await setUp();
    const disk = new MemoryDisk();
    const file = await disk.open("out", "write");
    const { task, durable } = log.accept(work("a", { items: 4 }));
    await durable;
    log.openOutput(task, file);
    await log.end(outcomeOf(task, 3), text("three\n"));
    void log.intend(intentOf(task, 0, 1));
    void log.end(outcomeOf(task, 1), text("one\n"));
    await log.end(outcomeOf(task, 2, { status: "failed" }), text("two\n"));
    state.crash();
    const again = await openWorkLog({ store: await state.open(), clock });
    expect(again.unsure).toMatchObject([
      { task, start: 6, end: 14, lines: [{ item: 1, textBytes: 4 }, { item: 2 }] },
    ]);
    expect([...again.triedItems(task).keys()]).toEqual([0]);
    await again.reopen(task, [
      { item: 1, status: "completed" },
      { item: 2, status: "failed" },
    ]);
    expect([0, 1, 2, 3].map((item) => again.isOpen(task, item))).toEqual([true, true, true, false]);
    expect(again.task(task)?.left).toBe(3);
  });

  it("forgets what was sent a minute ago and nothing younger, over a restart and a jump of the wall clock", async () => {
    for (const cutFloorBytes of [0, 1 << 20]) {
      const { clock, store, log } = await setUp({ cutFloorBytes });
      const sums = (of: typeof log) =>
        of.recentlySent().map(({ lane, requests, inputTokens }) => [lane, requests, inputTokens]);
      const { task } = log.accept(work("a", { items: 9 }));
      await log.intend({ ...intentOf(task, 0, 1), lane: 1 });
      await clock.advance(2_000);
      await log.intend({ ...intentOf(task, 1, 1), lane: 2 });
      await log.intend({ ...intentOf(task, 2, 1), lane: 2 });
      await clock.advance(57_999);
      for (let round = 0; round < 5; round += 1) await log.learn(5, 5, round, 5);
      const total = (of: typeof log) => sums(of).reduce((sum, [, requests]) => sum + (requests ?? 0), 0);
      expect(total(log)).toBe(3);
      await log.close();
      const again = await openWorkLog({ store, clock });
      expect(total(again)).toBe(3);
      await clock.advance(1);
      expect(total(again)).toBe(3); // at 60,000 ms
      await clock.advance(1);
      expect(total(again)).toBe(2);
      expect(sums(again).map(([lane]) => lane)).not.toContain(1);
      await clock.advance(1_999);
      expect(total(again)).toBe(2);
      await clock.advance(1);
      expect(total(again)).toBe(0);
      await again.close();
      await store.close();
    }
  });

  it.each([1, 2])("is refused when its last %i entries are lost, of which rows are left", async (lost) => {
    const { clock, store, log } = await setUp();
    for (const name of ["a", "b", "c"]) await log.accept(work(name)).durable;
    await log.close();
    const logEntries = store.logEntries.bind(store);
    store.logEntries = async function* () {
      for await (const entry of logEntries()) if (entry.sequence <= 3 - lost) yield entry;
    };
    await expect(openWorkLog({ store, clock })).rejects.toMatchObject({ code: "store_damaged" });
  });

  it("stays within its bound while a million bytes pass beside open work, and is not cut below its floor", async () => {
    const { log } = await setUp({ cutFloorBytes: 10_000, restatedBytesMin: 0 });
    const open = Array.from({ length: 400 }, (_, index) => log.accept(work(`open ${index}`)).durable);
    await Promise.all(open);
    const stated = 400 * 26;
    let most = 0;
    for (let round = 0; round < 700; round += 1) {
      const batch = Array.from({ length: 1 + (round % 13) }, (_, index) =>
        log.accept(work(`${round} ${index}`)),
      );
      await Promise.all(batch.map(({ task }) => log.end(outcomeOf(task, 0), text(""))));
      most = Math.max(most, log.logBytes);
    }
    expect(most).toBeGreaterThan(2 * stated); // it was not cut for nothing
    expect(most).toBeLessThan(2 * 2 * stated + 2 * stated);
    expect([...log.openTasks()]).toHaveLength(400);
  });
});
