/** What latencies say of attempts: which are too late, and which hang. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Latencies, type LatencyKey } from "../../src/queue/latency.ts";

const KEY: LatencyKey = { model: "alpha:m", maxOutputTokens: 100 };

/** So many answers that took `ms`, one a second until `untilMs`. */
function answers(latencies: Latencies, count: number, ms: number, untilMs: number, key = KEY): void {
  for (let each = count - 1; each >= 0; each -= 1) {
    const endMs = untilMs - each * 1_000;
    latencies.answered(key, endMs - ms, endMs);
  }
}

describe("whether it is too late for a request", () => {
  it("is never said on fewer than 20 ends, and then as soon as nine of ten take longer than what is left", () => {
    const latencies = new Latencies();
    answers(latencies, 19, 40_000, 100_000);
    expect(latencies.isTooLate(KEY, 1, 100_000)).toBe(false);
    answers(latencies, 1, 40_000, 101_000);
    expect(latencies.isTooLate(KEY, 39_000, 101_000)).toBe(true);
    expect(latencies.isTooLate(KEY, 40_000, 101_000)).toBe(false);
    answers(latencies, 3, 1_000, 105_000);
    expect(latencies.isTooLate(KEY, 39_000, 105_000)).toBe(false);
  });

  it("goes by attempts that were never answered, too, for no longer than they had", () => {
    const latencies = new Latencies();
    for (let each = 0; each < 30; each += 1) latencies.unanswered(KEY, 0, 60_000);
    expect(latencies.isTooLate(KEY, 50_000, 60_000)).toBe(true);
    expect(latencies.isTooLate(KEY, 61_000, 60_000)).toBe(false);
  });

  it("takes attempts that had less time for no answers in that time", () => {
    const latencies = new Latencies();
    answers(latencies, 15, 40_000, 60_000);
    for (let each = 0; each < 60; each += 1) latencies.unanswered(KEY, 30_000, 60_000);
    expect(latencies.isTooLate(KEY, 39_000, 60_000)).toBe(true);
    expect(latencies.isTooLate(KEY, 40_000, 60_000)).toBe(false);
  });

  it("is said by model and by class of output limits", () => {
    const latencies = new Latencies();
    answers(latencies, 30, 40_000, 100_000);
    expect(latencies.isTooLate({ ...KEY, maxOutputTokens: 64 }, 10_000, 100_000)).toBe(false);
    expect(latencies.isTooLate({ ...KEY, maxOutputTokens: 256 }, 10_000, 100_000)).toBe(true);
    expect(latencies.isTooLate({ ...KEY, maxOutputTokens: 0 }, 10_000, 100_000)).toBe(false);
    expect(latencies.isTooLate({ ...KEY, model: "alpha:other" }, 10_000, 100_000)).toBe(false);
  });

  it("is not said of a request without deadline", () => {
    const latencies = new Latencies();
    answers(latencies, 30, 40_000, 100_000);
    expect(latencies.isTooLate(KEY, Number.POSITIVE_INFINITY, 100_000)).toBe(false);
  });

  it("lets one request go in five minutes when nothing ended for as long", () => {
    const latencies = new Latencies();
    answers(latencies, 30, 40_000, 100_000);
    const [first, second] = [{ ...KEY }, { ...KEY }];
    expect(latencies.isTooLate(first, 10_000, 400_000)).toBe(true);
    expect(latencies.isTooLate(first, 10_000, 400_001)).toBe(false);
    expect(latencies.isTooLate(second, 10_000, 400_001)).toBe(true);
    expect(latencies.isTooLate(first, 10_000, 400_002)).toBe(false);
    latencies.answered(first, 400_002, 402_000);
    expect(latencies.isTooLate(second, 10_000, 402_000)).toBe(true);
    answers(latencies, 10, 2_000, 412_000);
    expect(latencies.isTooLate(second, 10_000, 412_000)).toBe(false);
  });
});

describe("patience with an attempt under way", () => {
  const attempt = (elapsedMs: number, leftMs: number, sentMs = 100_000) => ({
    sentMs,
    nowMs: sentMs + elapsedMs,
    leftMs,
    freshMs: leftMs,
  });

  it("has no end before the attempt's own while too little is known", () => {
    const latencies = new Latencies();
    answers(latencies, 49, 1_000, 200_000);
    expect(latencies.patienceMs(KEY, attempt(0, 60_000))).toBe(10_000);
    expect(latencies.patienceMs(KEY, attempt(40_000, 20_000))).toBe(20_000);
    expect(latencies.patienceMs(KEY, attempt(59_999, 1))).toBe(1);
  });

  it("ends with one that hangs among quick ones that were sent after it", () => {
    const latencies = new Latencies();
    answers(latencies, 60, 1_000, 99_000);
    expect(latencies.patienceMs(KEY, attempt(0, 60_000))).toBe(5_000);
    expect(latencies.patienceMs(KEY, attempt(5_000, 55_000))).toBeGreaterThan(0);
    answers(latencies, 8, 1_000, 110_000);
    expect(latencies.patienceMs(KEY, attempt(5_000, 55_000))).toBe(0);
  });

  it("ends when all of the last eight answers are to requests sent after it, in whatever order they came", () => {
    const order = fc.shuffledSubarray([1, 2, 3, 4, 5, 6, 7, 8], { minLength: 8 });
    fc.assert(
      fc.property(order, fc.boolean(), (places, isOneOfBefore) => {
        const latencies = new Latencies();
        answers(latencies, 60, 1_000, 99_000);
        for (const place of places) {
          const sentMs = isOneOfBefore && place === 1 ? 99_999 : 100_000 + place;
          latencies.answered(KEY, sentMs, 102_000);
        }
        const patienceMs = latencies.patienceMs(KEY, attempt(5_000, 55_000));
        if (isOneOfBefore) expect(patienceMs).toBeGreaterThan(0);
        else expect(patienceMs).toBe(0);
      }),
    );
  });

  it("goes on when the clock is a rounding short of the time from which on an attempt may hang", () => {
    const latencies = new Latencies();
    answers(latencies, 60, 1_000, 99_000);
    expect(latencies.patienceMs(KEY, attempt(5_000 - 1e-11, 55_000))).toBeGreaterThanOrEqual(1);
    expect(latencies.patienceMs(KEY, attempt(4_998, 55_000))).toBe(2);
  });

  it("does not end when a fresh attempt would hardly be answered in what is left", () => {
    const latencies = new Latencies();
    answers(latencies, 60, 10_000, 200_000);
    expect(latencies.patienceMs(KEY, attempt(30_000, 9_000))).toBe(9_000);
    expect(latencies.patienceMs(KEY, attempt(30_000, 30_000))).toBe(0);
  });

  it("does not end when those that took as long were answered in the end", () => {
    const latencies = new Latencies();
    answers(latencies, 1_000, 1_000, 99_000);
    answers(latencies, 9, 40_000, 99_500);
    answers(latencies, 8, 1_000, 120_000);
    expect(latencies.patienceMs(KEY, attempt(10_000, 50_000))).toBeGreaterThan(0);
  });

  it("ends with fewer than one of a hundred answers that take as long as they like", () => {
    for (const sigma of [0.1, 0.5, 1]) {
      const latencies = new Latencies();
      let state = 7;
      const uniform = (): number => {
        state = (state * 48_271) % 2_147_483_647;
        return state / 2_147_483_647;
      };
      const drawn = (): number =>
        10_000 * Math.exp(sigma * Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform()));
      let cut = 0;
      let nowMs = 0;
      for (let each = 0; each < 5_000; each += 1) {
        nowMs += 1_000_000;
        const ms = drawn();
        const [sentMs, endMs] = [nowMs, nowMs + 600_000];
        for (let later = 0; later < 8; later += 1) latencies.answered(KEY, sentMs + 1, sentMs + 1 + drawn());
        for (let elapsedMs = 0; elapsedMs < ms; ) {
          const at = {
            sentMs,
            nowMs: sentMs + elapsedMs,
            leftMs: endMs - sentMs - elapsedMs,
            freshMs: 600_000,
          };
          const moreMs = latencies.patienceMs(KEY, at);
          if (moreMs === 0) {
            cut += 1;
            break;
          }
          elapsedMs += moreMs;
        }
      }
      expect(cut).toBeLessThan(50);
    }
  });
});

describe("what is kept of latencies", () => {
  it("says of requests what it said before, from counts that are small enough to be outweighed", () => {
    const latencies = new Latencies();
    answers(latencies, 2_000, 40_000, 3_000_000);
    const [[model, kept] = ["", []]] = [...latencies.changes()];
    expect(kept.map(([kind]) => kind)).toEqual([2]);
    expect([...latencies.changes()]).toEqual([]);
    const next = new Latencies();
    next.restore(model, kept);
    expect([...next.changes()]).toEqual([]);
    expect(next.isTooLate({ ...KEY }, 30_000, 0)).toBe(false); // one request looks whether it still is so
    expect(next.isTooLate({ ...KEY }, 30_000, 0)).toBe(true);
    expect(next.isTooLate(KEY, 41_000, 0)).toBe(false);
    next.answered(KEY, 0, 50_000);
    const [[, after] = ["", []]] = [...next.changes()];
    expect(after[0]?.[1].reduce((sum, [, count]) => sum + count, 0)).toBeCloseTo(201, 9);
  });

  it("is left out where it cannot be", () => {
    const next = new Latencies();
    const rows = [
      [50, 100, 3],
      [1.5, 9, 9],
      [-1, 9, 9],
      [7_000, 9, 9],
      [113, Number.NaN, 17_000],
    ] as const;
    next.restore("alpha:m", [
      [2, rows, rows],
      [99, rows, rows],
      [-1, [], []],
    ]);
    expect(next.isTooLate(KEY, 1, 0)).toBe(false);
  });
});
