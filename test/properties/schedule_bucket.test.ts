/** Laws of the window bucket: the cap of any window, the use of it, and the truth of its waits. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { WindowBucket } from "../../src/limits/bucket.ts";

interface Taken {
  readonly atMs: number;
  amount: number;
}

/** The most that any window of `windowMs` holds; windows are half open, as `atMs .. atMs + windowMs`. */
function fullestWindow(taken: readonly Taken[], windowMs: number): number {
  let most = 0;
  let sum = 0;
  let oldest = 0;
  for (const each of taken) {
    sum += each.amount;
    while (taken[oldest]!.atMs <= each.atMs - windowMs) sum -= taken[oldest++]!.amount;
    most = Math.max(most, sum);
  }
  return most;
}

const limits = fc.oneof(
  fc.integer({ min: 1, max: 20 }),
  fc.integer({ min: 21, max: 3_000 }),
  fc.integer({ min: 3_001, max: 1_000_000 }),
);

describe("WindowBucket", () => {
  it("never lets more than the limit through any 60 s and its guard, for any requests at any times", () => {
    const step = fc.record({
      gapMs: fc.oneof(
        fc.constant(0),
        fc.double({ min: 0, max: 50, noNaN: true }),
        fc.double({ min: 0, max: 70_000, noNaN: true }),
      ),
      share: fc.double({ min: 0, max: 1, noNaN: true }),
      obeys: fc.boolean(),
      settles: fc.double({ min: 0, max: 1, noNaN: true }),
    });
    fc.assert(
      fc.property(
        limits,
        fc.double({ min: 0, max: 1e9, noNaN: true }),
        fc.array(step, { minLength: 20, maxLength: 120 }),
        (limit, startMs, steps) => {
          const bucket = new WindowBucket({ limit });
          const taken: Taken[] = [];
          let nowMs = startMs;
          for (const { gapMs, share, obeys, settles } of steps) {
            nowMs += gapMs;
            const amount = Math.max(1, Math.floor(limit * share));
            let take = bucket.take(nowMs, amount);
            if (!take.ok && obeys) {
              nowMs += take.waitMs;
              take = bucket.take(nowMs, amount);
              expect(take.ok).toBe(true);
            }
            if (!take.ok) continue;
            const entry = { atMs: nowMs, amount };
            taken.push(entry);
            if (settles > 0.5) {
              const actual = Math.floor(amount * (settles - 0.5));
              bucket.adjust(nowMs, take.slot, actual - amount);
              entry.amount = actual;
            }
          }
          expect(fullestWindow(taken, 60_250)).toBeLessThanOrEqual(limit);
        },
      ),
      { numRuns: 300 },
    );
  });

  it("keeps the cap while its limit is lowered: no take passes the limit of its moment", () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: 1, max: 500 }), fc.integer({ min: 0, max: 20_000 })), {
          minLength: 5,
          maxLength: 60,
        }),
        (changes) => {
          const bucket = new WindowBucket({ limit: 500 });
          const taken: Taken[] = [];
          let nowMs = 0;
          for (const [limit, gapMs] of changes) {
            bucket.setLimit(nowMs, limit);
            const untilMs = nowMs + gapMs;
            while (nowMs < untilMs) {
              const take = bucket.take(nowMs, 1);
              if (!take.ok) {
                nowMs += Math.min(take.waitMs, untilMs - nowMs + 1);
                continue;
              }
              taken.push({ atMs: nowMs, amount: 1 });
              const window = taken.filter((each) => each.atMs > nowMs - 60_000).length;
              expect(window).toBeLessThanOrEqual(limit);
            }
          }
        },
      ),
      { numRuns: 30 },
    );
  });

  it("uses at least 97 % of any limit under backlog, even when every wait is overslept by 2 ms", () => {
    fc.assert(
      fc.property(limits, fc.double({ min: 0, max: 1e8, noNaN: true }), (limit, startMs) => {
        const bucket = new WindowBucket({ limit });
        const amount = Math.max(1, Math.floor(limit / 2_000));
        const minutes = 10;
        let nowMs = startMs;
        let used = 0;
        let firstMs: number | undefined;
        let lastMs = 0;
        // The minutes after the first, so that the burst at the start flatters nothing, and from one take to another, as
        // a limit of one has but ten of them.
        while (nowMs < startMs + (minutes + 1) * 60_300) {
          const take = bucket.take(nowMs, amount);
          if (!take.ok) nowMs += take.waitMs + 2;
          else if (firstMs !== undefined) {
            used += amount;
            lastMs = nowMs;
          } else if (nowMs >= startMs + 60_300) firstMs = nowMs;
        }
        // A limit that the amount does not divide leaves its rest unused.
        const whole = limit - (limit % amount);
        expect(used / ((whole * (lastMs - (firstMs ?? 0))) / 60_000)).toBeGreaterThanOrEqual(0.97);
      }),
      { numRuns: 40, examples: [[1, 12.251]] },
    );
  });

  it("uses at least 97 % with amounts of mixed size that settle lower later", () => {
    fc.assert(
      fc.property(fc.integer({ min: 10_000, max: 1_000_000 }), fc.integer(), (limit, seed) => {
        const bucket = new WindowBucket({ limit });
        const random = randomOf(seed);
        let nowMs = 0;
        let used = 0;
        const unsettled: { readonly atMs: number; readonly slot: number; readonly over: number }[] = [];
        while (nowMs < 300_000) {
          while (unsettled[0] !== undefined && unsettled[0].atMs <= nowMs) {
            const { slot, over } = unsettled.shift()!;
            bucket.adjust(nowMs, slot, -over);
          }
          const actual = 1 + Math.floor((random() * limit) / 1_000);
          const over = Math.floor((random() * limit) / 1_000);
          const take = bucket.take(nowMs, actual + over);
          if (take.ok) {
            unsettled.push({ atMs: nowMs + 500, slot: take.slot, over });
            if (nowMs > 60_000) used += actual;
          } else nowMs += Math.min(take.waitMs, (unsettled[0]?.atMs ?? Number.POSITIVE_INFINITY) - nowMs);
        }
        expect(used / (limit * 4)).toBeGreaterThanOrEqual(0.97);
      }),
      { numRuns: 15 },
    );
  });

  it("spreads: no second holds more than a second's worth, the burst and one", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 20_000 }), (limit) => {
        const bucket = new WindowBucket({ limit });
        const taken: Taken[] = [];
        let nowMs = 0;
        while (nowMs < 130_000) {
          const take = bucket.take(nowMs, 1);
          if (take.ok) taken.push({ atMs: nowMs, amount: 1 });
          else nowMs += take.waitMs;
        }
        expect(fullestWindow(taken, 1_000)).toBeLessThanOrEqual(limit / 60 + Math.max(1, limit / 100) + 1);
      }),
      { numRuns: 20 },
    );
  });
});

function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}
