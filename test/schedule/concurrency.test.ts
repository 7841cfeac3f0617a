/** Places in flight: slow start, additive increase, multiplicative decrease. */
import { describe, expect, it } from "vitest";
import { Concurrency } from "../../src/limits/concurrency.ts";

/** One round trip in which every place is used and every answer is a success. */
function fullRound(concurrency: Concurrency, heldMs = 100): void {
  const places = concurrency.limit;
  while (concurrency.inFlight < places) concurrency.take();
  for (let each = 0; each < places; each++) {
    concurrency.succeeded();
    concurrency.free(heldMs);
    if (each < places - 1) concurrency.take();
  }
  while (concurrency.inFlight > 0) concurrency.free(heldMs);
}

describe("Concurrency", () => {
  it("doubles each round trip, from 64 to 2,048 in five", () => {
    const concurrency = new Concurrency({ max: 2_048 });
    expect(concurrency.limit).toBe(64);
    for (let round = 0; round < 5; round++) fullRound(concurrency);
    expect(concurrency.limit).toBe(2_048);
  });

  it("starts at the maximum when that is below 64, and never passes it", () => {
    const concurrency = new Concurrency({ max: 10 });
    fullRound(concurrency);
    expect(concurrency.limit).toBe(10);
  });

  it("halves at the first refusal and then adds a thirty-second of the maximum per round trip", () => {
    const concurrency = new Concurrency({ max: 640, start: 640 });
    concurrency.congested(1_000, true, 1);
    expect(concurrency.limit).toBe(320);
    fullRound(concurrency);
    expect(concurrency.limit).toBeGreaterThan(330);
    expect(concurrency.limit).toBeLessThanOrEqual(341);
  });

  it("decreases at most once per round trip, however many refusals one burst brings", () => {
    const concurrency = new Concurrency({ max: 512, start: 512 });
    concurrency.take();
    concurrency.free(200);
    for (let each = 0; each < 300; each++) concurrency.congested(1_000 + each / 2, true, 1);
    expect(concurrency.limit).toBe(256);
    concurrency.congested(1_201, true, 1);
    expect(concurrency.limit).toBeLessThan(140);
  });

  it("is cut little by a stray failure among successes", () => {
    const concurrency = new Concurrency({ max: 1_000, start: 1_000 });
    for (let each = 1; each <= 10_000; each++) {
      while (concurrency.hasRoom(1)) concurrency.take();
      if (each % 100 === 0) concurrency.congested(each, false, 1);
      else concurrency.succeeded();
      concurrency.free(100);
    }
    expect(concurrency.limit).toBeGreaterThan(900);
  });

  it("goes down to 1 and no further when everything fails, and to the floor when there is one", () => {
    const concurrency = new Concurrency({ max: 64 });
    for (let each = 0; each < 100; each++) concurrency.congested(each * 2_000, false, 1);
    expect(concurrency.limit).toBe(1);
    expect(concurrency.hasRoom(0.1)).toBe(true);
    const floored = new Concurrency({ max: 64 });
    for (let each = 0; each < 100; each++) floored.congested(each * 2_000, true, 32);
    expect(floored.limit).toBe(32);
  });

  it("does not grow on what it does not use", () => {
    const concurrency = new Concurrency({ max: 1_000 });
    for (let each = 0; each < 5_000; each++) {
      concurrency.take();
      concurrency.succeeded();
      concurrency.free(10);
    }
    expect(concurrency.limit).toBe(64);
  });

  it("begins again with slow start after a restart", () => {
    const concurrency = new Concurrency({ max: 1_024 });
    for (let each = 0; each < 100; each++) concurrency.congested(each * 2_000, false, 1);
    concurrency.restart();
    for (let round = 0; round < 4; round++) fullRound(concurrency);
    expect(concurrency.limit).toBe(1_024);
  });

  it("grows by half after every 15 s of full use without any answer, up to the maximum", () => {
    const concurrency = new Concurrency({ max: 130 });
    expect([0, 14_999, 15_000].map((nowMs) => concurrency.growsInMs(nowMs))).toEqual([15_000, 1, 0]);
    expect(concurrency.limit).toBe(96);
    expect(concurrency.growsInMs(15_000)).toBe(15_000);
    concurrency.take();
    concurrency.free(20_000); // an answer, whatever it says
    expect(concurrency.growsInMs(29_999)).toBe(15_000);
    expect(concurrency.growsInMs(44_999)).toBe(0);
    expect(concurrency.limit).toBe(130);
    expect(concurrency.growsInMs(90_000)).toBe(Number.POSITIVE_INFINITY);
  });

  it("does not grow as if nothing were answered while first parts of answers arrive", () => {
    const concurrency = new Concurrency({ max: 1_000 });
    expect(concurrency.growsInMs(0)).toBe(15_000);
    concurrency.take();
    concurrency.begun(10);
    expect(concurrency.growsInMs(15_000)).toBe(15_000);
    expect(concurrency.limit).toBe(64);
  });

  it.each([true, false])(
    "does not grow without answers after one that failed (a refusal: %s), until a restart",
    (isRefusal) => {
      const concurrency = new Concurrency({ max: 1_000 });
      concurrency.congested(0, isRefusal, 1);
      const { limit } = concurrency;
      for (let nowMs = 0; nowMs <= 120_000; nowMs += 5_000)
        expect(concurrency.growsInMs(nowMs)).toBe(Number.POSITIVE_INFINITY);
      expect(concurrency.limit).toBe(limit);
      concurrency.restart();
      expect(concurrency.growsInMs(120_000)).toBe(15_000);
    },
  );
});
