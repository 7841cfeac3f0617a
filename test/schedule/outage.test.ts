/** When nothing works: probes, and the way back. */
import { describe, expect, it } from "vitest";
import { Outage } from "../../src/limits/outage.ts";

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

  it("says when its ramp opens a share", () => {
    const outage = fallen();
    expect(outage.rampsInMs(12_000, 0.5)).toBe(Number.POSITIVE_INFINITY);
    outage.answered(20_000);
    const inMs = outage.rampsInMs(20_000, 0.5);
    expect(outage.share(20_000 + inMs - 1)).toBeLessThan(0.5);
    expect(outage.share(20_000 + inMs + 1)).toBeGreaterThan(0.5);
    expect(outage.rampsInMs(20_000, 1)).toBe(15_000);
    expect(outage.rampsInMs(20_000, 1.01)).toBe(Number.POSITIVE_INFINITY);
  });

  it("says when the next probe goes: 5 s after the last one, or 30 s where that hangs", () => {
    const outage = fallen();
    outage.sent(20_000);
    expect(outage.retryMs(21_000)).toBe(4_000);
    expect(outage.retryMs(25_000)).toBe(25_000);
    expect(outage.retryMs(49_000)).toBe(1_000);
    outage.failed(49_500);
    expect(outage.retryMs(49_500)).toBe(0);
  });

  it("is feared after five failures in a row: until an answer comes, a request goes every 250 ms", () => {
    const outage = new Outage();
    for (let each = 0; each < 4; each++) outage.failed(0);
    expect(outage.waitMs(0)).toBe(0);
    outage.sent(0);
    outage.failed(0);
    expect(outage.waitMs(0)).toBe(250);
    expect(outage.waitMs(250)).toBe(0);
    outage.sent(250);
    outage.failed(251);
    expect(outage.waitMs(251)).toBe(249);
    expect(outage.isDown).toBe(false);
    expect(outage.answered(300)).toBe(false);
    expect(outage.waitMs(300)).toBe(0);
    expect(outage.share(300)).toBe(1);
  });

  it("is feared less by the second: 250 requests go in the first 7 s without a failure", () => {
    const outage = new Outage();
    for (let each = 0; each < 5; each++) outage.failed(0);
    let sent = 0;
    for (let nowMs = 0; nowMs < 7_000; nowMs += 1) {
      while (outage.waitMs(nowMs) === 0 && sent < 10_000) {
        outage.sent(nowMs);
        sent += 1;
      }
    }
    expect(sent).toBeGreaterThan(250);
    expect(sent).toBeLessThan(1_000);
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

  it("is not ended by an answer to a request from before it while all that was sent since has failed", () => {
    const outage = new Outage();
    for (let atMs = 1_000; atMs < 1_005; atMs++) {
      outage.failed(atMs, atMs - 3);
      outage.sent(atMs);
      outage.answered(atMs, 500);
    }
    for (let atMs = 1_005; atMs < 1_015; atMs++) outage.failed(atMs, atMs - 4);
    outage.answered(1_015, 900);
    expect(outage.waitMs(1_015)).toBeGreaterThan(200);
    outage.answered(1_016, 1_002);
    expect(outage.waitMs(1_016)).toBe(0);
  });

  it("is not feared for failures while most of what was sent since the first one has not failed", () => {
    const outage = new Outage();
    for (let atMs = 0; atMs < 20_000; atMs += 250) {
      outage.sent(atMs);
      if (atMs % 1_000 === 0) outage.failed(atMs + 50, atMs);
      if (atMs % 2_000 === 0) outage.answered(atMs + 60, atMs - 20_000);
      expect(outage.waitMs(atMs + 70)).toBe(0);
    }
  });

  it("lets one probe per 5 s through while it lasts", () => {
    const outage = fallen();
    expect(outage.waitMs(10_000)).toBe(5_000);
    expect(outage.waitMs(15_000)).toBe(0);
    outage.sent(15_000);
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

  it("is feared after a wait that a 429 states: one request goes, and after an answer all", () => {
    const outage = new Outage();
    outage.stated(1_000, 31_000, 900);
    expect(outage.isDown).toBe(false);
    outage.answered(5_000, 800); // sent before the wait
    expect(outage.waitMs(31_000)).toBe(0);
    outage.sent(31_000);
    expect(outage.waitMs(31_000)).toBe(250);
    expect(outage.waitMs(31_200)).toBeGreaterThan(0);
    outage.answered(31_210, 31_000);
    expect(outage.waitMs(31_210)).toBe(0);
    expect(outage.share(31_210)).toBe(1);
  });

  it("waits for a slow refusal of that request", () => {
    const outage = new Outage();
    outage.stated(1_000, 31_000, 0); // 1 s after it was sent
    outage.sent(31_000);
    expect(outage.waitMs(31_000)).toBe(2_000);
    expect(outage.waitMs(31_900)).toBeGreaterThan(0);
    const slower = new Outage();
    slower.stated(10_000, 31_000, 0);
    slower.sent(31_000);
    expect(slower.waitMs(31_000)).toBe(3_000);
  });

  it("goes on where the wait is stated again, and ramps up after more than a minute", () => {
    const outage = new Outage();
    outage.stated(0, 40_000, 0);
    outage.stated(20_000, 62_000, 19_950);
    outage.sent(62_000);
    expect(outage.answered(62_100, 62_000)).toBe(false);
    expect(outage.share(62_000)).toBeCloseTo(0.05);
    expect(outage.share(77_000)).toBe(1);
    const short = new Outage();
    short.stated(0, 61_000, 0);
    short.sent(61_000);
    short.answered(61_100, 61_000);
    expect(short.share(61_100)).toBe(1);
  });

  it("is feared only after the eighth wait of up to 2 s in which nothing was answered", () => {
    const outage = new Outage();
    const wait = (atMs: number): number => {
      outage.stated(atMs, atMs + 2_000, atMs - 50);
      outage.sent(atMs + 2_000);
      return outage.waitMs(atMs + 2_000);
    };
    for (let count = 0; count < 7; count++) expect(wait(1_000 + count * 3_000)).toBe(0);
    outage.answered(23_500, 500); // also of what was sent before
    for (let count = 0; count < 7; count++) expect(wait(24_000 + count * 3_000)).toBe(0);
    expect(wait(45_000)).toBe(250);
    outage.answered(47_100, 47_000);
    expect(wait(48_000)).toBe(0);
  });

  it("is not feared for several short waits that add up to a long one", () => {
    const outage = new Outage();
    outage.stated(1_000, 2_000, 600, 1_000);
    outage.stated(1_900, 2_900, 700, 1_000);
    outage.stated(2_800, 3_800, 800, 1_000);
    expect(outage.waitMs(3_800)).toBe(0);
    outage.stated(3_700, 6_700, 3_650, 3_000);
    outage.sent(6_700);
    expect(outage.waitMs(6_700)).toBe(250);
  });
});
