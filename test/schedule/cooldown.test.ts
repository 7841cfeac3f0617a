/** The wait after a 429. */
import { describe, expect, it } from "vitest";
import { Cooldown } from "../../src/limits/cooldown.ts";

const half = (): number => 0.5;
const ROUND_TRIP_MS = 100;

describe("Cooldown", () => {
  it("fault 49: obeys a told wait up to 15 minutes", () => {
    const cooldown = new Cooldown();
    cooldown.refused(0, 7_000, ROUND_TRIP_MS, half);
    expect(cooldown.waitMs(0)).toBe(7_000);
    expect(cooldown.waitMs(6_999)).toBe(1);
    expect(cooldown.waitMs(7_000)).toBe(0);
    const huge = new Cooldown();
    huge.refused(0, 1e13, ROUND_TRIP_MS, half);
    expect(huge.waitMs(0)).toBe(900_000);
  });

  it("keeps to the longest wait that it was told, also where a later refusal names a shorter one", () => {
    const cooldown = new Cooldown();
    cooldown.refused(0, 30_000, ROUND_TRIP_MS, half);
    cooldown.refused(10, 2_000, ROUND_TRIP_MS, half);
    expect(cooldown.waitMs(10)).toBe(29_990);
    cooldown.refused(20, 40_000, ROUND_TRIP_MS, half);
    expect(cooldown.waitMs(20)).toBe(40_000);
  });

  it.each([0, -5_000, Number.NaN, undefined])(
    "fault 49: takes its own backoff of 0.5 to 1 s when told %s",
    (toldMs) => {
      for (const lot of [0, 0.999]) {
        const cooldown = new Cooldown();
        cooldown.refused(0, toldMs, ROUND_TRIP_MS, () => lot);
        expect(cooldown.waitMs(0)).toBeGreaterThanOrEqual(500);
        expect(cooldown.waitMs(0)).toBeLessThanOrEqual(1_000);
      }
    },
  );

  it("doubles its own backoff from wait to wait up to a minute, and begins again after a success", () => {
    const cooldown = new Cooldown();
    const waits: number[] = [];
    let nowMs = 0;
    for (let each = 0; each < 9; each++) {
      for (let burst = 0; burst < 10; burst++) cooldown.refused(nowMs, undefined, ROUND_TRIP_MS, half);
      waits.push(cooldown.waitMs(nowMs));
      nowMs += cooldown.waitMs(nowMs) + ROUND_TRIP_MS;
    }
    expect(waits).toEqual([750, 1_500, 3_000, 6_000, 12_000, 24_000, 45_000, 45_000, 45_000]);
    cooldown.succeeded();
    cooldown.refused(nowMs, undefined, ROUND_TRIP_MS, half);
    expect(cooldown.waitMs(nowMs)).toBe(750);
  });

  it("doubles for single refusals only after every four in a row", () => {
    const cooldown = new Cooldown();
    const waits: number[] = [];
    for (let nowMs = 0; nowMs < 90_000; nowMs += 10_000) {
      cooldown.refused(nowMs, undefined, ROUND_TRIP_MS, half);
      waits.push(cooldown.waitMs(nowMs));
    }
    expect(waits).toEqual([750, 750, 750, 750, 1_500, 1_500, 1_500, 1_500, 3_000]);
  });

  it("counts the refusals of one burst once, those that come after a short wait too", () => {
    const cooldown = new Cooldown();
    for (let each = 0; each < 100; each++) cooldown.refused(each / 2, undefined, 2_000, half);
    expect(cooldown.waitMs(0)).toBe(750);
    cooldown.refused(1_000, undefined, 2_000, half);
    expect(cooldown.waitMs(1_000)).toBe(0);
    cooldown.refused(2_001, undefined, 2_000, half);
    expect(cooldown.waitMs(2_001)).toBe(1_500);
  });

  it("is not ended by a success that was on its way", () => {
    const cooldown = new Cooldown();
    cooldown.refused(0, 5_000, ROUND_TRIP_MS, half);
    cooldown.succeeded();
    expect(cooldown.waitMs(100)).toBe(4_900);
  });

  it("fault 49: a told wait of 1 ms that is refused again and again makes no storm", () => {
    const cooldown = new Cooldown();
    let waits = 0;
    for (let nowMs = 0; nowMs < 60_000; nowMs += Math.max(1, cooldown.waitMs(nowMs))) {
      cooldown.refused(nowMs, 1, ROUND_TRIP_MS, half);
      waits += 1;
    }
    expect(waits).toBeLessThan(200);
  });

  it("goes on where an earlier process was, for at most 15 minutes", () => {
    const cooldown = new Cooldown();
    cooldown.restore(1_000, 7_000);
    expect(cooldown.waitMs(1_000)).toBe(7_000);
    cooldown.refused(1_500, 9_000, ROUND_TRIP_MS, half); // told to a request that was under way
    expect(cooldown.waitMs(1_500)).toBe(9_000);
    const long = new Cooldown();
    long.restore(0, 1e12);
    expect(long.waitMs(0)).toBe(900_000);
  });
});
