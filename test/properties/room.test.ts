/** Laws of space on disks: as long as any write lacks it nothing new is sent, and a waiting write gets the time that was promised. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DiskSpace, type Lack } from "../../src/engine/journal/disk_space.ts";
import { PerigeeError } from "../../src/errors.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";

const WAIT_MS = 60_000;
const step = fc.oneof(
  fc.record({ is: fc.constant("lack" as const) }),
  fc.record({ is: fc.constant("end" as const), place: fc.nat() }),
  fc.record({ is: fc.constant("wait" as const), ms: fc.constantFrom(1, 59_999, 60_000) }),
);

describe("room on the disks", () => {
  it("is lacking from the first who has none until the last has some, and says so once each", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
        const clock = new FakeClock();
        const told: boolean[] = [];
        const room = new DiskSpace({
          clock,
          dataDir: "data",
          waitMs: WAIT_MS,
          onRoom: (hasRoom) => told.push(hasRoom),
        });
        const lacks: { readonly lack: Lack; readonly sinceMs: number }[] = [];
        let sinceMs: number | undefined;
        for (const given of steps) {
          if (given.is === "wait") await clock.advance(given.ms);
          else if (given.is === "lack") {
            lacks.push({ lack: room.lack(), sinceMs: clock.nowMs() });
            sinceMs ??= clock.nowMs();
          } else {
            const [ended] = lacks.splice(given.place % Math.max(1, lacks.length), 1);
            ended?.lack.end();
            ended?.lack.end(); // changes nothing
            if (lacks.length === 0) sinceMs = undefined;
          }
          expect(room.lackingSinceMs).toBe(sinceMs);
          expect(told.at(-1) ?? true).toBe(sinceMs === undefined);
          expect(told).toEqual(told.map((_, index) => index % 2 === 1));
          for (const { lack, sinceMs: since } of lacks) {
            const isLong = clock.nowMs() - since >= WAIT_MS;
            const check = () => lack.check(undefined);
            if (isLong) expect(check).toThrow(expect.objectContaining({ code: "disk_full" }));
            else expect(check).not.toThrow();
          }
        }
      }),
    );
  });

  it("is waited for by several at once, each until its own write finds some", async () => {
    const clock = new FakeClock();
    const told: [hasRoom: boolean, atMs: number][] = [];
    const onRoom = (hasRoom: boolean) => void told.push([hasRoom, clock.nowMs()]);
    const room = new DiskSpace({ clock, dataDir: "data", waitMs: WAIT_MS, onRoom });
    const fullUntil = (ms: number) => async () => {
      if (clock.nowMs() < ms) throw new PerigeeError("disk_full", "no room");
      return clock.nowMs();
    };
    const writes = [2_500, 10_000, WAIT_MS].map((ms) => room.waitFor(fullUntil(ms)));
    const refused = room.waitFor(fullUntil(WAIT_MS + 1)).catch((error: unknown) => error);
    const found = await clock.runUntilSettled(Promise.all([...writes, refused]));
    expect(found).toMatchObject([3_000, 10_000, WAIT_MS, { code: "disk_full" }]);
    expect(told).toEqual([
      [false, 0],
      [true, WAIT_MS],
    ]);
  });
});
