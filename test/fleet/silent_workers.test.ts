/** Pings to a worker while requests to it are open. */
import { describe, expect, it } from "vitest";
import { SilentWorkers } from "../../src/fleet/hops/silent_workers.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";

describe("a worker that never answers a ping", () => {
  it("has no ping open after the last request to it has ended", async () => {
    const clock = new FakeClock();
    const pings: AbortSignal[] = [];
    const workers = new SilentWorkers(clock, (_address, signal) => {
      pings.push(signal);
      return new Promise(() => undefined);
    });
    const [first, second] = [workers.watch("http://a"), workers.watch("http://a")];
    await clock.advance(2_000);
    first.end();
    expect(pings.map(({ aborted }) => aborted)).toEqual([false]);
    second.end();
    expect(pings.map(({ aborted }) => aborted)).toEqual([true]);
  });

  it("is silent after 10 s, and has one ping open at a time until then", async () => {
    const clock = new FakeClock();
    const pings: AbortSignal[] = [];
    const workers = new SilentWorkers(clock, (_address, signal) => {
      pings.push(signal);
      return new Promise(() => undefined);
    });
    const { signal } = workers.watch("http://a");
    await clock.advance(8_000);
    expect([signal.aborted, pings.filter(({ aborted }) => !aborted).length]).toEqual([false, 1]);
    await clock.advance(2_000);
    expect([signal.aborted, pings.filter(({ aborted }) => !aborted).length]).toEqual([true, 0]);
  });
});

it("a worker is not silent because this process stalled, and is heard again after it", () => {
  let nowMs = 0;
  let look = (): void => undefined;
  const clock = {
    nowMs: () => nowMs,
    timer: (_delayMs: number, callback: () => void) => {
      look = callback;
      return { cancel: () => undefined };
    },
  };
  const workers = new SilentWorkers(clock, () => new Promise(() => undefined));
  const { signal } = workers.watch("http://a");
  nowMs = 32_000; // 30 s late
  look();
  expect(signal.aborted).toBe(false);
  for (nowMs = 34_000; nowMs <= 40_000; nowMs += 2_000) look();
  expect(signal.aborted).toBe(true); // 10 s without an answer besides
});
