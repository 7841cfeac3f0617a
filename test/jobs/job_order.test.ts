/**
 * The order of attempts: deadlines, destinations, projects.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Alarms } from "../../src/jobs/alarms.ts";
import { JobOrder, type Waiting } from "../../src/jobs/job_order.ts";
import { Heap } from "../../src/queue/heap.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { createRandom } from "../../src/testing/random.ts";
import { CountedDestinations } from "./counted_destinations.ts";

interface One extends Waiting {
  readonly name: string;
}

function one(
  name: string,
  project: string,
  deadlineMs: number,
  host?: string,
  concurrency = 1,
  share?: string,
): One {
  const destination = host === undefined ? undefined : { name: host, concurrency, share };
  return { name, project, deadlineMs, destination };
}

function open(placesMax: number) {
  const started: One[] = [];
  const destinations = new CountedDestinations();
  const queue = new JobOrder<One>({ placesMax, destinations, start: (given) => started.push(given) });
  const names = (): string => started.map(({ name }) => name).join(" ");
  /** Lets slots be given. */
  const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  return { queue, started, names, settle, destinations };
}

describe("the order of jobs", () => {
  it("takes the earliest deadline of a project first", async () => {
    const { queue, started, names } = open(1);
    queue.push(one("busy", "a", 0));
    for (const [name, deadline] of [
      ["late", 30],
      ["early", 10],
      ["middle", 20],
    ] as const)
      queue.push(one(name, "a", deadline));
    for (let index = 0; index < 4; index += 1) queue.ended(started[index] as One);
    expect(names()).toBe("busy early middle late");
  });

  it("lets nobody wait for a destination that is busy but those who go there", async () => {
    const { queue, started, names, settle } = open(8);
    for (let index = 0; index < 5; index += 1) queue.push(one(`slow${index}`, "a", index, "slow", 2));
    queue.push(one("fast", "a", 100, "fast", 2));
    queue.push(one("nowhere", "a", 200));
    await settle();
    expect(names().split(" ").sort()).toEqual(["fast", "nowhere", "slow0", "slow1"]);
    queue.ended(started.find(({ name }) => name === "slow0") as One);
    expect(names().endsWith("slow2")).toBe(true);
  });

  it("leaves slots of a destination to its other shares, and gives them to jobs that arrive", async () => {
    const { queue, started, names, settle } = open(100);
    for (let index = 0; index < 12; index += 1) queue.push(one(`hang${index}`, "a", 0, "host", 6, "hang"));
    await settle();
    expect(started).toHaveLength(4); // the fifth would have four under way and two free
    for (const project of ["a", "b"])
      queue.push(one(`ok-${project}`, project, 100, "host", 6, `of ${project}`));
    await settle();
    expect(names().endsWith("hang3 ok-a ok-b")).toBe(true);
    for (const name of ["ok-a", "hang0"]) queue.ended(started.find((job) => job.name === name) as One);
    await settle();
    expect(names().endsWith("ok-a ok-b hang4")).toBe(true); // three under way, two free: one more
    for (let index = 1; index < started.length; index += 1)
      if (started[index]?.name !== "ok-a") queue.ended(started[index] as One);
    await settle();
    expect(started).toHaveLength(14);
  });

  it("lets projects take turns, however much one of them has waiting", () => {
    const { queue, started, names } = open(1);
    queue.push(one("first", "many", 0));
    for (let index = 0; index < 1_000; index += 1) queue.push(one(`m${index}`, "many", index));
    for (let index = 0; index < 3; index += 1) queue.push(one(`f${index}`, "few", 5_000));
    for (let index = 0; index < 8; index += 1) queue.ended(started[index] as One);
    expect(
      names()
        .split(" ")
        .slice(0, 8)
        .filter((name) => name.startsWith("f") && name !== "first"),
    ).toEqual(["f0", "f1", "f2"]);
  });

  it("keeps places free for jobs that arrive, however long attempts take", () => {
    const { queue, started } = open(30);
    for (let index = 0; index < 100; index += 1) queue.push(one(`a${index}`, "a", index));
    expect(started).toHaveLength(20);
    for (let index = 0; index < 100; index += 1) queue.push(one(`b${index}`, "b", index));
    const ofB = started.filter(({ project }) => project === "b").length;
    expect(ofB).toBeGreaterThanOrEqual(6);
    expect(started.length).toBeLessThan(30);
  });

  it("runs nothing that was removed, and returns its slots", async () => {
    const { queue, names, settle, destinations } = open(4);
    const gone = one("gone", "a", 1, "host");
    queue.push(gone);
    queue.push(one("next", "a", 2, "host"));
    queue.remove(gone);
    await settle();
    expect(names()).toBe("next");
    expect(destinations.held.get("host")).toBe(1);
  });

  it("begins nothing while it is paused, and goes on", () => {
    const { queue, names } = open(4);
    queue.pause(true);
    queue.push(one("a", "a", 1));
    expect(names()).toBe("");
    queue.pause(false);
    expect(names()).toBe("a");
  });

  it("runs each once, never more than the bounds, in any order of events", async () => {
    for (let seed = 1; seed <= 30; seed += 1) {
      const random = createRandom(seed);
      const { queue, started, settle, destinations } = open(6);
      const running = new Set<One>();
      const removed = new Set<One>();
      const all: One[] = [];
      let seen = 0;
      for (let step = 0; step < 600 || running.size > 0 || seen < started.length; step += 1) {
        for (; seen < started.length; seen += 1) running.add(started[seen] as One);
        expect(running.size).toBeLessThanOrEqual(6);
        for (const held of destinations.held.values()) expect(held).toBeLessThanOrEqual(2);
        const what = random();
        if (what < 0.5 && step < 500) {
          const host = random() < 0.3 ? undefined : `h${Math.floor(random() * 3)}`;
          const share = random() < 0.5 ? undefined : `s${Math.floor(random() * 2)}`;
          const next = one(`${all.length}`, `p${Math.floor(random() * 4)}`, random() * 100, host, 2, share);
          all.push(next);
          queue.push(next);
        } else if (what < 0.6) {
          const some = all[Math.floor(random() * all.length)];
          if (some !== undefined && !started.includes(some)) {
            removed.add(some);
            queue.remove(some);
          }
        } else {
          const [some] = running;
          if (some !== undefined) {
            running.delete(some);
            queue.ended(some);
          }
        }
        if (random() < 0.3 || step >= 500) await settle();
      }
      expect(new Set(started).size).toBe(started.length);
      expect(started.length + removed.size).toBe(all.length);
      expect([...destinations.held.values()].every((held) => held === 0)).toBe(true);
    }
  });
});

describe("a heap", () => {
  it("returns the order of sorting, those of one key in order of arrival, and only what is kept", () => {
    const keys = fc.array(fc.nat({ max: 9 }), { maxLength: 40 });
    fc.assert(
      fc.property(keys, keys, fc.integer({ min: 1, max: 4 }), (before, after, part) => {
        const heap = new Heap<readonly [key: number, index: number]>();
        const all = [...before, ...after].map((key, index) => [key, index] as const);
        for (const value of all.slice(0, before.length)) heap.push(value[0], value);
        heap.keep(([, index]) => index % part === 0);
        for (const value of all.slice(before.length)) heap.push(value[0], value);
        const wanted = all.filter(([, index]) => index >= before.length || index % part === 0);
        wanted.sort((one, other) => one[0] - other[0] || one[1] - other[1]);
        expect(heap.peek()?.value).toEqual(wanted[0]);
        expect(Array.from(wanted, () => heap.pop())).toEqual(wanted);
        expect([heap.size, heap.pop()]).toEqual([0, undefined]);
      }),
    );
  });
});

describe("alarms", () => {
  it("call what is due on one timer, in order, and nothing that was cancelled", async () => {
    const clock = new FakeClock();
    const alarms = new Alarms(clock);
    const called: string[] = [];
    const set = (name: string, atMs: number) =>
      alarms.set(atMs, () => called.push(`${name}@${clock.nowMs()}`));
    set("late", 500);
    const gone = set("gone", 200);
    set("early", 100);
    expect(clock.pendingTimers).toBe(1);
    gone.cancel();
    await clock.advance(1_000);
    expect(called).toEqual(["early@100", "late@500"]);
    for (let index = 0; index < 5_000; index += 1) set("x", 2_000).cancel();
    set("last", 3_000);
    await clock.advance(5_000);
    expect(called.at(-1)).toBe("last@3000");
    for (let index = 0; index < 1_000; index += 1) set("together", 6_000);
    await clock.advance(1_000);
    expect(called.filter((name) => name === "together@6000")).toHaveLength(1_000);
    alarms.close();
    set("never", 7_000);
    expect(clock.pendingTimers).toBe(0);
  });
});
