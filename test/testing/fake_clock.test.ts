import { describe, expect, it } from "vitest";
import { FakeClock } from "../../src/testing/fake_clock.ts";

describe("FakeClock", () => {
  it("fires each timer at its own time, those armed on the way included", async () => {
    const clock = new FakeClock();
    const seen: number[] = [];
    clock.timer(10, () => {
      seen.push(clock.nowMs());
      clock.timer(5, () => seen.push(clock.nowMs()));
    });
    clock.timer(12, () => seen.push(clock.nowMs()));
    await clock.advance(20);
    expect(seen).toEqual([10, 12, 15]);
    expect(clock.nowMs()).toBe(20);
    expect(clock.pendingTimers).toBe(0);
  });

  it("lets chains of promises of any length come to rest between two timers", async () => {
    const clock = new FakeClock();
    const seen: string[] = [];
    clock.timer(1, async () => {
      for (let index = 0; index < 10_000; index += 1) await undefined;
      seen.push("chain of the first");
    });
    clock.timer(1, () => seen.push("second"));
    await clock.advance(1);
    expect(seen).toEqual(["chain of the first", "second"]);
  });

  it("runs soon callbacks and what they lead to before time moves on", async () => {
    const clock = new FakeClock();
    const seen: string[] = [];
    clock.timer(1, () => {
      clock.soon(async () => {
        await undefined;
        clock.soon(() => seen.push(`soon at ${clock.nowMs()}`));
      });
    });
    clock.timer(2, () => seen.push("timer"));
    await clock.advance(5);
    expect(seen).toEqual(["soon at 1", "timer"]);
  });

  it("advances to the next timer, and says when no timer is left", async () => {
    const clock = new FakeClock();
    clock.timer(3_000_000_000, () => {});
    clock.timer(7, () => {}).cancel();
    expect(await clock.advanceToNextTimer()).toBe(true);
    expect(clock.nowMs()).toBe(3_000_000_000);
    expect(await clock.advanceToNextTimer()).toBe(false);
  });

  it("runs until a promise settles, and says when nothing would ever wake it", async () => {
    const clock = new FakeClock();
    const work = async () => {
      await clock.sleep(60_000);
      await clock.sleep(60_000);
      return clock.nowMs();
    };
    expect(await clock.runUntilSettled(work())).toBe(120_000);
    await expect(clock.runUntilSettled(Promise.reject(new Error("no")))).rejects.toThrow("no");
    await expect(clock.runUntilSettled(new Promise(() => {}))).rejects.toThrow("stuck at 120000 ms");
  });

  it("runs until idle, but not beyond a limit", async () => {
    const clock = new FakeClock();
    const again = () => void clock.timer(1_000, again);
    clock.timer(5, () => {});
    await clock.runUntilIdle();
    expect(clock.nowMs()).toBe(5);
    again();
    await expect(clock.runUntilIdle(10_000)).rejects.toThrow("still armed after 10000 ms");
  });

  it("jumps the wall clock without moving time", async () => {
    const clock = new FakeClock({ wallMs: 1_000 });
    clock.jumpWall(-400);
    await clock.advance(50.5);
    expect(clock.wallMs()).toBe(650);
    expect(clock.nowMs()).toBe(50.5);
  });

  it("boots the machine again without moving time: its moments count from there under another id", async () => {
    const clock = new FakeClock({ wallMs: 1_000 });
    await clock.advance(50);
    const before = clock.moment();
    clock.reboot();
    await clock.advance(7);
    expect(before).toMatchObject({ wallMs: 1_050, sinceBootMs: 50 });
    expect(clock.moment()).toMatchObject({ wallMs: 1_057, sinceBootMs: 7 });
    expect(clock.moment().bootId).not.toBe(before.bootId);
    expect(clock.nowMs()).toBe(57);
  });

  it("draws the same numbers from the same seed", () => {
    const draw = (seed: number) => {
      const clock = new FakeClock({ seed });
      return [clock.random(), clock.random(), clock.random()];
    };
    expect(draw(3)).toEqual(draw(3));
    expect(draw(3)).not.toEqual(draw(4));
  });

  it("refuses to be moved by two at once", async () => {
    const clock = new FakeClock();
    const first = clock.advance(1);
    await expect(clock.advance(1)).rejects.toThrow("being moved already");
    await first;
  });
});
