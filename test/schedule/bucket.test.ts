/** The window bucket by example; its laws are in test/properties/schedule_bucket.test.ts. */
import { describe, expect, it } from "vitest";
import { WindowBucket } from "../../src/limits/bucket.ts";

/** Takes `amount` as soon as the bucket allows; returns when that was. */
function takeWhenAllowed(bucket: WindowBucket, nowMs: number, amount: number): number {
  const take = bucket.take(nowMs, amount);
  if (take.ok) return nowMs;
  expect(bucket.take(nowMs + take.waitMs, amount).ok).toBe(true);
  return nowMs + take.waitMs;
}

describe("WindowBucket", () => {
  it("spaces 3 a minute by 20 s and frees the first place when its minute and guard are over", () => {
    const bucket = new WindowBucket({ limit: 3 });
    const first = takeWhenAllowed(bucket, 1_000, 1);
    const second = takeWhenAllowed(bucket, first, 1);
    const third = takeWhenAllowed(bucket, second, 1);
    const fourth = takeWhenAllowed(bucket, third, 1);
    expect([first, second, third]).toEqual([1_000, 21_000, 41_000]);
    expect(fourth - first).toBeGreaterThanOrEqual(60_250);
    expect(fourth - first).toBeLessThan(60_320);
  });

  it("lets 1 % of the limit go at once and then a sixtieth per second", () => {
    const bucket = new WindowBucket({ limit: 6_000 });
    for (let each = 0; each < 60; each++) expect(bucket.take(0, 1).ok).toBe(true);
    const take = bucket.take(0, 1);
    expect(take.ok).toBe(false);
    expect(!take.ok && take.waitMs).toBeCloseTo(10, 6);
  });

  it("frees a lowered take in its own slot, so that the window has room again", () => {
    const bucket = new WindowBucket({ limit: 100, burst: 100 });
    const take = bucket.take(0, 100);
    expect(bucket.take(1_000, 10).ok).toBe(false);
    bucket.adjust(1_000, take.ok ? take.slot : -1, -90);
    expect(bucket.used(1_000)).toBe(10);
    expect(bucket.take(1_000, 90).ok).toBe(true);
  });

  it("keeps a raise above the limit as debt until enough has aged out", () => {
    const bucket = new WindowBucket({ limit: 100, burst: 100 });
    const take = bucket.take(0, 50);
    bucket.adjust(30_000, take.ok ? take.slot : -1, 100);
    expect(bucket.used(30_000)).toBe(150);
    expect(bucket.take(59_000, 1).ok).toBe(false);
    expect(takeWhenAllowed(bucket, 59_000, 1)).toBeLessThan(61_000);
  });

  it("counts a raise now when the take itself has aged out, and ignores a lowering then", () => {
    const bucket = new WindowBucket({ limit: 100, burst: 100 });
    const take = bucket.take(0, 50);
    bucket.adjust(120_000, take.ok ? take.slot : -1, 30);
    bucket.adjust(120_000, take.ok ? take.slot : -1, -50);
    expect(bucket.used(120_000)).toBe(30);
  });

  it("takes an amount above the limit from an empty window alone, and blocks until it has aged out", () => {
    const bucket = new WindowBucket({ limit: 100, burst: 100 });
    expect(bucket.take(0, 1).ok).toBe(true);
    const atMs = takeWhenAllowed(bucket, 0, 250);
    expect(atMs).toBeGreaterThanOrEqual(60_250);
    expect(takeWhenAllowed(bucket, atMs, 1) - atMs).toBeGreaterThanOrEqual(60_000);
    expect(takeWhenAllowed(bucket, atMs + 60_400, 1) - atMs).toBeLessThan(60_500);
  });

  it("counts what was sent before a restart, but not what is older than the window", () => {
    const bucket = new WindowBucket({ limit: 10 });
    bucket.restore(1_000, -58_000, 6);
    bucket.restore(1_000, -61_000, 6);
    bucket.restore(1_000, 900, 4);
    expect(bucket.used(1_000)).toBe(10);
    const take = bucket.take(1_000, 1);
    expect(!take.ok && take.waitMs).toBeGreaterThan(1_250);
  });

  it("rescales its pacing when the limit changes, so that a slow past does not slow a fast future", () => {
    const bucket = new WindowBucket({ limit: 1 });
    bucket.take(0, 1);
    bucket.setLimit(1_000, 60_000);
    expect(bucket.take(1_010, 1).ok).toBe(true);
  });

  it("paces at a share of the limit when told to", () => {
    const bucket = new WindowBucket({ limit: 60, burst: 1 });
    bucket.setPace(0, 0.5);
    bucket.take(0, 1);
    const take = bucket.take(0, 1);
    expect(!take.ok && take.waitMs).toBeCloseTo(2_000, 3);
  });

  it("counts without limiting when the limit is Infinity", () => {
    const bucket = new WindowBucket({ limit: Number.POSITIVE_INFINITY });
    for (let each = 0; each < 1_000; each++) expect(bucket.take(each, 1_000_000).ok).toBe(true);
    bucket.setLimit(1_000, 5);
    expect(bucket.used(1_000)).toBe(1_000_000_000);
    expect(bucket.take(1_000, 1).ok).toBe(false);
  });

  it("stands still when time goes back", () => {
    const bucket = new WindowBucket({ limit: 2, burst: 2 });
    bucket.add(100_000, 1);
    bucket.add(10, 1);
    expect(bucket.used(10)).toBe(2);
    expect(bucket.used(100_000)).toBe(2);
  });
});
