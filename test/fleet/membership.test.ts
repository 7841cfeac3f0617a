/** The heartbeat of a worker whose database, or whose own process, was away. */
import { expect, it, onTestFinished } from "vitest";
import { Membership } from "../../src/fleet/membership.ts";
import type { FleetReading, WorkerRow } from "../../src/fleet/worker_rows.ts";
import { FakeClock } from "../../src/testing/index.ts";

const worker = (id: string): WorkerRow => ({
  ...{ id, name: id, address: "", role: "all", version: "1", isLeaving: false, startedWallMs: 0 },
});

/** A worker `a` with partition 1, in a fleet with `b`, which has partition 2. */
async function entered() {
  const clock = new FakeClock();
  const taken: number[] = [];
  const beats: boolean[] = [];
  let beatMs = 0;
  let released = (): void => undefined;
  const releasing = new Promise<void>((resolve) => {
    released = resolve;
  });
  let reading: FleetReading | undefined;
  const read = (isFree: boolean): void => {
    const partitions = [
      { part: 1, owner: "a" },
      { part: 2, owner: isFree ? undefined : "b" },
    ];
    reading = { workers: isFree ? [worker("a")] : [worker("a"), worker("b")], partitions, endsInMs: 6_000 };
  };
  read(false);
  const membership = new Membership({
    clock,
    rows: {
      id: "a",
      beat: async (isLeaving) => {
        beats.push(isLeaving);
        if (beatMs > 0) await clock.sleep(beatMs);
        if (reading === undefined) throw new Error("away");
        return reading;
      },
      leave: () => Promise.resolve(),
      sweep: () => Promise.resolve(),
      makePartition: () => Promise.resolve(3),
    },
    directory: { take: () => undefined, leave: () => undefined },
    owned: {
      state: { kept: [1], closing: [], barred: new Set() },
      take: (part) => {
        taken.push(part);
        return Promise.resolve();
      },
      release: () => Promise.resolve(),
      releaseAll: () => releasing,
    },
    role: "all",
    onNotice: () => undefined,
  });
  await membership.enter();
  onTestFinished(async () => {
    released();
    await membership.leave();
  });
  const away = (): void => {
    reading = undefined;
  };
  const slow = (ms: number): void => {
    beatMs = ms;
  };
  const leave = (): Promise<void> => membership.leave();
  return { clock, taken, beats, read, away, slow, leave, released: () => released() };
}

it("a worker takes the partition of one that died", async () => {
  const { clock, taken, read } = await entered();
  read(true);
  await clock.advance(1_000);
  expect(taken).toContain(2);
});

it("a worker leaves partitions to living owners that renew once the database is back, and takes those of the dead 3 s later", async () => {
  const { clock, taken, read, away } = await entered();
  away();
  await clock.advance(8_000);
  read(true); // all leases have ended
  await clock.advance(2_900);
  expect(taken).toEqual([]);
  read(false); // its owner renewed
  await clock.advance(10_000);
  expect(taken).toEqual([]);
  away();
  await clock.advance(8_000);
  read(true);
  await clock.advance(4_100);
  expect(taken).toContain(2);
});

it("a worker that leaves beats on until its partitions are released, and takes nothing then", async () => {
  const { clock, beats, taken, read, leave, released } = await entered();
  const before = beats.length;
  const left = leave();
  read(true); // another one died meanwhile
  await clock.advance(7_000);
  expect(beats.slice(before)).toEqual(beats.slice(before).map(() => true));
  expect(beats.length - before).toBeGreaterThanOrEqual(7);
  released();
  await clock.advance(0);
  await left;
  const last = beats.length;
  await clock.advance(5_000);
  expect([beats.length, taken]).toEqual([last, []]);
});

it("a worker that leaves during a beat says so at once after it", async () => {
  const { clock, beats, slow, leave, released } = await entered();
  slow(300);
  await clock.advance(1_100); // a beat has been under way for 100 ms
  const before = beats.length;
  const left = leave();
  await clock.advance(200);
  expect(beats.slice(before)).toEqual([true]);
  await clock.advance(1_200); // the next one comes after a second, as before
  expect(beats.slice(before)).toEqual([true]);
  await clock.advance(100);
  expect(beats.slice(before)).toEqual([true, true]);
  released();
  await clock.advance(300);
  await left;
});
