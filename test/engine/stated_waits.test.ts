/** 429s that state how long to wait: after the wait one request looks whether the reason is gone. */
import { describe, expect, it } from "vitest";
import type { WireResult } from "../../src/dispatch/transport.ts";
import { createRandom } from "../../src/testing/index.ts";
import { INPUT, OUTPUT, ok, status, World } from "./world.ts";

const REFUSAL_MS = 50;
const IN_FLIGHT = 128;

/** Refused by a provider that says when to come again. */
function refusal(waitMs: number): WireResult {
  return status(429, "rate_limit_exceeded", { "retry-after-ms": String(Math.ceil(waitMs)) });
}

interface Job {
  readonly items: number;
  readonly latencyMs: number;
  /** Milliseconds to wait for a request at this time; 0 if it is answered. */
  readonly waitMs: (nowMs: number) => number;
}

const NONSENSE = ["9999999999", "-5", "soon", "Wed, 21 Oct 2015 07:28:00 GMT", "1, 2", "9".repeat(18)];

/** Until all are answered: when each request was sent, and whether it was refused. */
async function run({ items, latencyMs, waitMs }: Job): Promise<readonly Sent[]> {
  const sent: Sent[] = [];
  const world: World = new World({
    config: { maxInFlight: IN_FLIGHT, waitMs: 36_000_000 },
    answer: (line) => {
      const atMs = world.clock.nowMs();
      const refusedMs = waitMs(atMs);
      sent.push({ atMs, isRefused: refusedMs > 0 });
      return refusedMs > 0
        ? { afterMs: REFUSAL_MS, result: refusal(refusedMs) }
        : { afterMs: latencyMs, result: ok(line) };
    },
  });
  world.input(items);
  const engine = await world.engine();
  const { finished } = engine.run(INPUT, { out: OUTPUT });
  let isOver = false;
  void finished.then(() => {
    isOver = true;
  });
  for (let atMs = 0; atMs < 1_200_000 && !isOver; atMs += 1_000) await world.clock.advance(1_000);
  expect((await finished).counts.completed).toBe(items);
  return sent;
}

interface Sent {
  readonly atMs: number;
  readonly isRefused: boolean;
}

/** Requests refused in each row of less than a second between them. */
function bursts(sent: readonly Sent[]): readonly number[] {
  const found: number[] = [];
  let lastMs = Number.NEGATIVE_INFINITY;
  for (const { atMs } of sent.filter(({ isRefused }) => isRefused)) {
    if (atMs - lastMs >= 1_000) found.push(0);
    found.push((found.pop() ?? 0) + 1);
    lastMs = atMs;
  }
  return found;
}

describe("a Retry-After", () => {
  it.each([
    [5, 200],
    [30, 200],
    [30, 5_000],
    [120, 5_000],
  ])(
    "of %i s, again and again for five minutes, answers of %i ms: one request after each",
    async (waitS, latencyMs) => {
      const sent = await run({
        items: latencyMs === 200 ? 1_000 : 500, // 640 are answered before the first refusal
        latencyMs,
        waitMs: (nowMs) => (nowMs >= 1_000 && nowMs < 301_000 ? waitS * 1_000 : 0),
      });
      const [first = 0, ...later] = bursts(sent);
      expect(first).toBeLessThanOrEqual(IN_FLIGHT);
      expect(later.length).toBeGreaterThan(0);
      expect(Math.max(...later)).toBe(1);
    },
  );

  it.each([
    [0, 200],
    [500, 200],
    [2_000, 200],
    [500, 2_000],
    [2_000, 2_000],
  ])("of %i ms from a bucket does not keep answers of %i ms back", async (statedMs, latencyMs) => {
    const [perSecond, capacity, items] = [10, 60, 2_000];
    let [level, levelAtMs] = [capacity, 0];
    const sent = await run({
      items,
      latencyMs,
      waitMs: (nowMs) => {
        level = Math.min(capacity, level + ((nowMs - levelAtMs) * perSecond) / 1_000);
        levelAtMs = nowMs;
        if (level < 1) return statedMs > 0 ? statedMs : Math.max(100, ((1 - level) * 1_000) / perSecond);
        level -= 1;
        return 0;
      },
    });
    expect(sent.at(-1)?.atMs).toBeLessThan((1.15 * ((items - capacity) * 1_000)) / perSecond);
  });

  it("that is nonsense, on every second request by chance, does not stop the provider", async () => {
    const random = createRandom(1);
    const world: World = new World({
      config: { maxInFlight: 64 },
      answer: (line) => {
        const wait = NONSENSE[Math.floor(random() * 2 * NONSENSE.length)];
        if (wait === undefined) return { afterMs: 20, result: ok(line) };
        return { afterMs: 20, result: status(429, "rl", { "retry-after": wait }) };
      },
    });
    world.input(300);
    const engine = await world.engine();
    const { finished } = engine.run(INPUT, { out: OUTPUT, sla: 2 });
    for (let second = 0; second < 120; second++) await world.clock.advance(1_000);
    expect((await finished).counts).toMatchObject({ completed: 300, failed: 0, expired: 0 });
  });
});

describe("a request whose intent is being recorded when a 429 with a wait arrives", () => {
  it.each([1, 10, 100])("is not sent before the wait is over (commits of %i ms)", async (commitMs) => {
    const FROM_MS = 2_000;
    const sent: number[] = [];
    const world: World = new World({
      commitMs,
      config: { maxInFlight: IN_FLIGHT },
      answer: (line) => {
        const atMs = world.clock.nowMs();
        sent.push(atMs);
        return atMs >= FROM_MS && atMs < FROM_MS + 1_000
          ? { afterMs: 5, result: refusal(20_000) }
          : { afterMs: 200 + 7 * (line % 100), result: ok(line) };
      },
    });
    world.input(900);
    const summary = await world.settle((await world.engine()).run(INPUT, { out: OUTPUT }).finished);
    expect(summary.counts).toMatchObject({ completed: 900 });
    const refusedMs = sent.find((atMs) => atMs >= FROM_MS) as number;
    expect(sent.filter((atMs) => atMs > refusedMs + 5 && atMs < refusedMs + 20_000)).toEqual([]);
  });
});
