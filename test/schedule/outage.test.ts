/** When nothing works: probes, and the way back. */
import { describe, expect, it } from "vitest";
import { Outage } from "../../src/schedule/outage.ts";

function fallen(): Outage {
  const outage = new Outage();
  for (let each = 0; each <= 10; each++) outage.failed(each * 1_000);
  return outage;
}

describe("Outage", () => {
  it("begins with five failures in a row over 10 s, or twenty over 2 s", () => {
    const slow = new Outage();
    for (const atMs of [0, 2_000, 4_000, 9_999]) slow.failed(atMs);
    expect(slow.isDown).toBe(false);
    slow.failed(10_000);
    expect(slow.isDown).toBe(true);
    const fast = new Outage();
    for (let each = 0; each < 500; each++) fast.failed(each);
    expect(fast.isDown).toBe(false);
    for (let each = 0; each < 20; each++) fast.failed(2_000);
    expect(fast.isDown).toBe(true);
  });

  it("does not begin while anything is answered in between, nor by failures long after the last answer", () => {
    const outage = new Outage();
    for (let each = 0; each < 1_000; each++) {
      outage.failed(each * 100);
      if (each % 15 === 0) outage.answered(each * 100);
    }
    outage.answered(100_000);
    for (let each = 0; each < 6; each++) outage.failed(3_600_000 + each);
    expect(outage.isDown).toBe(false);
  });

  it("lets one probe per 5 s through while it lasts", () => {
    const outage = fallen();
    expect(outage.waitMs(10_000)).toBe(5_000);
    expect(outage.waitMs(15_000)).toBe(0);
    outage.probed(15_000);
    outage.failed(15_100);
    expect(outage.waitMs(15_100)).toBe(4_900);
  });

  it("ramps from a twentieth to all in 15 s after the first answer", () => {
    const outage = fallen();
    expect(outage.answered(20_000)).toBe(true);
    expect(outage.share(20_000)).toBeCloseTo(0.05, 6);
    expect(outage.share(27_500)).toBeCloseTo(Math.sqrt(0.05), 6);
    expect(outage.share(35_000)).toBe(1);
    expect(outage.answered(36_000)).toBe(false);
  });

  it("falls again at once when five in a row fail during the ramp", () => {
    const outage = fallen();
    outage.answered(20_000);
    for (let each = 0; each < 5; each++) outage.failed(21_000);
    expect(outage.isDown).toBe(true);
    expect(outage.waitMs(21_000)).toBe(5_000);
  });
});
