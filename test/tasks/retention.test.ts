/** What goes when it is old enough, how fast, and what stays. */
import { beforeEach, describe, expect, it } from "vitest";
import { PerigeeError } from "../../src/errors.ts";
import { createMemoryStore } from "../../src/store/memory.ts";
import type { Store } from "../../src/store/store.ts";
import { isClockTrusted } from "../../src/tasks/clock_trust.ts";
import { taskToRecord } from "../../src/tasks/lots/task_record.ts";
import {
  type Kept,
  keptFiles,
  keptPosted,
  keptTasks,
  type Retention,
  startRetention,
} from "../../src/tasks/retention.ts";
import type { TaskView } from "../../src/tasks/shapes/task_view.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { openTestTasks, temporaryFolder } from "./open.ts";

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

let clock: FakeClock;
let store: Store;
let faults: unknown[];

beforeEach(() => {
  clock = new FakeClock();
  store = createMemoryStore();
  faults = [];
});

function start(...kinds: Kept[]): Retention {
  return startRetention({ clock, store, kinds, onFault: (error) => faults.push(error) });
}

async function put(collection: string, id: string, ageDays: number): Promise<void> {
  const createdWallMs = clock.wallMs() - ageDays * DAY_MS;
  await store.change([
    { kind: "put", record: { collection, id, project: "one", parent: "", createdWallMs, body: "{}" } },
  ]);
}

async function ids(collection: string): Promise<string[]> {
  return (await store.records("one", { collection, limit: 10_000 })).map(({ id }) => id);
}

describe("records", () => {
  it("go when they are as old as they are kept, a hundred a second", async () => {
    for (let index = 0; index < 250; index += 1) await put("note", `old-${index}`, 31);
    await put("note", "young", 29);
    const retention = start({ collection: "note", keepMs: 30 * DAY_MS });
    await clock.advance(60_000);
    expect(await ids("note")).toHaveLength(151);
    await clock.advance(2_000);
    expect(await ids("note")).toEqual(["young"]);
    await clock.advance(DAY_MS + HOUR_MS);
    expect(await ids("note")).toEqual([]);
    await retention.close();
    expect(clock.pendingTimers).toBe(0);
  });

  it("that cannot be removed now are passed over, and looked at again an hour later", async () => {
    for (let index = 0; index < 250; index += 1) await put("file", `${index}`, 31);
    const held = new Set(["0", "99", "100", "249"]);
    const files = {
      named: async () => new Map<string, string>(),
      remove: async (_project: string, id: string) => {
        if (held.has(id)) throw new PerigeeError("conflict", "a task is working on it");
        await store.change([{ kind: "delete", collection: "file", id }]);
      },
    };
    const retention = start(keptFiles(files, 30 * DAY_MS));
    await clock.advance(65_000);
    expect(await ids("file")).toEqual([...held]);
    held.clear();
    await clock.advance(HOUR_MS);
    expect(await ids("file")).toEqual([]);
    expect(faults).toEqual([]);
    await retention.close();
  });

  it("of files that open work names stay until it has ended, found once for a page", async () => {
    for (let index = 0; index < 150; index += 1) await put("file", `${index}`, 31);
    const named = new Map([
      ["7", "a-task"],
      ["120", "another"],
    ]);
    const asked: number[] = [];
    const files = {
      named: async (_project: string, of: ReadonlySet<string>) => {
        asked.push(of.size);
        return new Map([...named].filter(([id]) => of.has(id)));
      },
      remove: async (_project: string, id: string) =>
        store.change([{ kind: "delete", collection: "file", id }]),
    };
    const retention = start(keptFiles(files, 30 * DAY_MS));
    await clock.advance(65_000);
    expect(await ids("file")).toEqual(["7", "120"]);
    expect(asked).toEqual([100, 50]); // not once a file: all open requests are read
    named.clear();
    await clock.advance(HOUR_MS);
    expect(await ids("file")).toEqual([]);
    expect(faults).toEqual([]);
    await retention.close();
  });

  it("wait while the disk has no room, and the fault is told", async () => {
    await put("a", "1", 31);
    await put("b", "1", 31);
    let isFull = true;
    const remove = async (): Promise<boolean> => {
      if (isFull) throw new PerigeeError("disk_full", "no room");
      await store.change([{ kind: "delete", collection: "a", id: "1" }]);
      return true;
    };
    const retention = start({ collection: "a", keepMs: DAY_MS, remove }, { collection: "b", keepMs: DAY_MS });
    await clock.advance(60_000);
    expect([await ids("a"), await ids("b"), faults]).toMatchObject([["1"], [], [{ code: "disk_full" }]]);
    isFull = false;
    await clock.advance(HOUR_MS);
    expect(await ids("a")).toEqual([]);
    await retention.close();
  });

  it("are left alone once it is closed, also in the middle of a sweep", async () => {
    for (let index = 0; index < 250; index += 1) await put("note", `old-${index}`, 31);
    const retention = start({ collection: "note", keepMs: 30 * DAY_MS });
    await clock.advance(60_000);
    await retention.close();
    await clock.advance(DAY_MS);
    expect(await ids("note")).toHaveLength(150);
    expect(faults).toEqual([]);
  });
});

describe("tasks", () => {
  it("are gone for their project when they are old enough", async () => {
    const folder = temporaryFolder();
    const { tasks, core, close } = await openTestTasks(folder.path);
    const { id } = await tasks.submit("one", {
      items: [{ model: "echo:test", input: "hello" }],
      hasOutputFile: false,
    });
    const later = (days: number) => new FakeClock({ wallMs: core.storage.clock.wallMs() + days * DAY_MS });
    for (const [days, isThere] of [
      [29, true],
      [31, false],
    ] as const) {
      clock = later(days);
      const kinds = [keptPosted(tasks, 30 * DAY_MS, () => undefined), keptTasks(tasks, 30 * DAY_MS)];
      const retention = startRetention({ clock, store: core.storage.store, kinds });
      await clock.advance(60_000);
      await retention.close();
      const found = await tasks.task("one", id).catch((error: PerigeeError) => error.code);
      expect(found === "not_found").toBe(!isThere);
    }
    await close();
    folder.remove();
  });

  it("go 30 days after they have ended, not after they were made", async () => {
    const ages = { "ended-long-ago": 31, "ended-lately": 29, running: undefined };
    const removed: string[] = [];
    for (const name of Object.keys(ages))
      await store.change([
        {
          kind: "put",
          record: taskToRecord({
            id: name,
            project: "one",
            createdWallMs: clock.wallMs() - 40 * DAY_MS,
            totalItems: 1,
            volumeTokens: 0,
            hasOutputFile: false,
            parts: [],
            spans: [],
          }),
        },
      ]);
    const tasks = {
      task: async (_project: string, id: string) => {
        const age = ages[id as keyof typeof ages];
        const view =
          age === undefined
            ? { status: "submitted" }
            : { status: "completed", finishedWallMs: clock.wallMs() - age * DAY_MS };
        return view as TaskView;
      },
      remove: async (_project: string, id: string) => void removed.push(id),
    };
    const retention = start(keptTasks(tasks, 30 * DAY_MS));
    await clock.advance(60_000);
    expect(removed).toEqual(["ended-long-ago"]);
    await retention.close();
  });
});

describe("a clock that is 40 days ahead at a start", () => {
  const notices: string[] = [];
  const kept: Kept = { collection: "note", keepMs: 30 * DAY_MS };
  const life = (): Retention =>
    startRetention({
      clock,
      store,
      kinds: [kept],
      isClockTrusted: () => isClockTrusted({ clock, store, notice: (text) => notices.push(text) }),
      onFault: (error) => faults.push(error),
    });
  /** A service that worked for an hour before its clock was put forward. */
  const ahead = async (): Promise<Retention> => {
    notices.length = 0;
    await put("note", "young", 1);
    const before = life();
    await clock.advance(HOUR_MS);
    await before.close();
    clock.jumpWall(40 * DAY_MS);
    return life();
  };

  it("removes nothing, which is said, and nothing once it is put right", async () => {
    const retention = await ahead();
    await clock.advance(20 * HOUR_MS);
    expect(await ids("note")).toEqual(["young"]);
    expect(notices).toEqual([
      "the clock is 40.0 days ahead of the last time that this data folder recorded; nothing is removed because of its age until the clock is corrected, or has stayed so for 24 hours of work",
    ]);
    await retention.close();
    clock.jumpWall(-40 * DAY_MS);
    const right = life();
    await clock.advance(5 * DAY_MS);
    expect(await ids("note")).toEqual(["young"]);
    expect(notices.at(-1)).toBe("the clock is believed again");
    await clock.advance(25 * DAY_MS);
    expect(await ids("note")).toEqual([]);
    await right.close();
    expect(faults).toEqual([]);
  });

  it("is believed after a day of work, over restarts", async () => {
    let retention = await ahead();
    await clock.advance(20 * HOUR_MS);
    await retention.close();
    retention = life();
    await clock.advance(2 * HOUR_MS);
    expect(await ids("note")).toEqual(["young"]);
    await clock.advance(5 * HOUR_MS);
    expect(await ids("note")).toEqual([]);
    await retention.close();
  });
});

describe("a clock that jumps by less than an hour", () => {
  const kept: Kept = { collection: "note", keepMs: 30 * DAY_MS };
  const notices: string[] = [];
  const life = (): Retention =>
    startRetention({
      clock,
      store,
      kinds: [kept],
      isClockTrusted: () => isClockTrusted({ clock, store, notice: (text) => notices.push(text) }),
      onFault: (error) => faults.push(error),
    });
  /** A record that is `minutes` short of its age when the clock jumps by 50 minutes. */
  const jumped = async (minutes: number): Promise<Retention> => {
    notices.length = 0;
    const before = life();
    await clock.advance(HOUR_MS);
    await before.close();
    await put("note", "old", 30 - minutes / 1_440);
    clock.jumpWall(50 * 60_000);
    return life();
  };

  it("removes nothing before its age, and what is old enough soon after, without a notice", async () => {
    const retention = await jumped(40);
    await clock.advance(39 * 60_000);
    expect(await ids("note")).toEqual(["old"]);
    await clock.advance(3 * HOUR_MS);
    expect(await ids("note")).toEqual([]);
    expect(notices).toEqual([]);
    expect(faults).toEqual([]);
    await retention.close();
  });

  it("over a restart waits no less", async () => {
    const first = await jumped(45);
    await clock.advance(20 * 60_000);
    await first.close();
    const second = life();
    await clock.advance(20 * 60_000);
    expect(await ids("note")).toEqual(["old"]);
    await clock.advance(3 * HOUR_MS);
    expect(await ids("note")).toEqual([]);
    await second.close();
  });

  it("in the middle of a sweep removes nothing by the time that nobody has looked at", async () => {
    await put("note", "young", 1);
    const retention = startRetention({
      clock,
      store,
      kinds: [kept],
      isClockTrusted: async () => {
        clock.jumpWall(40 * DAY_MS);
        return true;
      },
      onFault: (error) => faults.push(error),
    });
    clock.jumpWall(-40 * DAY_MS); // the first look has moved it
    await clock.advance(60_000);
    expect(await ids("note")).toEqual(["young"]);
    await retention.close();
  });
});
