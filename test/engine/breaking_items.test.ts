/**
 * Items that are never answered, among others that are: they end after their attempts, at any place in the input, and
 * keep nobody else from being answered.
 */
import { describe, expect, it } from "vitest";
import type { WireResult } from "../../src/dispatch/transport.ts";
import { INPUT, OUTPUT, ok, type Reply, status, World } from "./world.ts";

const OPTIONS = { out: OUTPUT, waitMs: 21_600_000 };

const RESET: WireResult = { ok: false, failure: "lost", message: "connection reset" };
const KINDS: Readonly<Record<string, () => Reply>> = {
  "503": () => status(503),
  "502": () => status(502),
  reset: () => RESET,
  refused: () => ({ ok: false, failure: "not_sent", message: "connection refused" }),
};
/** Attempts that end an item, and those before another item was answered. */
const ATTEMPTS_MAX: Readonly<Record<string, number>> = { "503": 12, "502": 8, reset: 8, refused: 12 };

const lines = (count: number, lineOf: (index: number) => number): readonly number[] =>
  Array.from({ length: count }, (_, index) => lineOf(index));

interface Case {
  readonly items: number;
  readonly maxInFlight: number;
  readonly timeoutMs: number;
  readonly latencyMs: number;
  readonly answer: (line: number, attempt: number, nowMs: number) => Reply;
}

/** One run to its end. */
async function runOf({ items, maxInFlight, timeoutMs, latencyMs, answer }: Case) {
  const world: World = new World({
    latencyMs,
    config: {
      maxInFlight,
      providers: { alpha: { baseUrl: "http://alpha.test/v1", needsKey: false, timeoutMs } },
    },
    answer: (line, attempt) => answer(line, attempt, world.clock.nowMs()),
  });
  world.input(items);
  const engine = await world.engine();
  const summary = await world.settle(engine.run(INPUT, OPTIONS).finished);
  const tookMs = world.clock.nowMs();
  await world.settle(engine.close());
  const attemptsOf = (line: number): number => world.sent.filter((sent) => sent.line === line).length;
  return { summary, attemptsOf, tookMs };
}

/** 100 items, of which `breaking` are never answered; all others are, in 200 ms. */
async function runBeside(breaking: readonly number[], maxInFlight: number, fail: () => Reply) {
  const answer = (line: number): Reply => (breaking.includes(line) ? fail() : ok(line));
  const ended = await runOf({ items: 100, maxInFlight, timeoutMs: 60_000, latencyMs: 200, answer });
  return { ...ended, attemptsMax: Math.max(...breaking.map(ended.attemptsOf)) };
}

describe.each(Object.keys(KINDS))("items that always fail (%s)", (kind) => {
  it.each([
    ["the first", 1, [1]],
    ["the first", 64, [1]],
    ["one in the middle", 8, [24]],
    ["a fifth", 8, lines(20, (index) => 5 * index + 3)],
    ["the first 20", 1, lines(20, (index) => index + 1)],
    ["the first 20", 8, lines(20, (index) => index + 1)],
  ])("end in 5 minutes while others are answered: %s, %i in flight", async (_which, inFlight, breaking) => {
    const { summary, attemptsMax, tookMs } = await runBeside(breaking, inFlight, KINDS[kind] as () => Reply);
    expect(summary).toMatchObject({
      status: "completed",
      counts: { completed: 100 - breaking.length, failed: breaking.length },
    });
    expect(attemptsMax).toBeLessThanOrEqual(ATTEMPTS_MAX[kind] as number);
    expect(tookMs).toBeLessThan(300_000);
  });
});

describe("an item that always hangs", () => {
  it("ends after 3 attempts when quick answers to later requests showed that it hung", async () => {
    const { summary, attemptsMax, tookMs } = await runBeside([24], 8, () => "hang");
    expect(summary.counts).toMatchObject({ completed: 99, failed: 1 });
    expect(attemptsMax).toBe(3);
    expect(tookMs).toBeLessThan(240_000);
  });

  it("ends although another one does so, too, and all others are done", async () => {
    const { summary, attemptsMax, tookMs } = await runBeside([20, 24], 8, () => "hang");
    expect(summary.counts).toMatchObject({ completed: 98, failed: 2 });
    expect(attemptsMax).toBe(3);
    expect(tookMs).toBeLessThan(240_000);
  });

  it("is held like the others when all that was sent since hangs, too", async () => {
    const { summary } = await runOf({
      ...{ items: 100, maxInFlight: 8, timeoutMs: 5_000, latencyMs: 200 },
      answer: (line, _attempt, nowMs) => (nowMs > 2_000 && nowMs < 1_800_000 ? "hang" : ok(line)),
    });
    expect(summary).toMatchObject({ status: "completed", counts: { completed: 100, failed: 0 } });
  });
});

describe("an item that hung once while others were answered", () => {
  it.each([
    [2, 9_000],
    [2, 10_000],
    [2, 11_000],
    [4, 9_000],
  ])(
    "survives an outage that begins then, in which all hang (%i in flight, from %i ms)",
    async (maxInFlight, fromMs) => {
      const { summary } = await runOf({
        ...{ items: 1_000, maxInFlight, timeoutMs: 30_000, latencyMs: 200 },
        answer: (line, attempt, nowMs) => {
          const isOut = nowMs >= fromMs && nowMs < 400_000;
          return isOut || (line === 40 && attempt === 1) ? "hang" : ok(line);
        },
      });
      expect(summary).toMatchObject({ status: "completed", counts: { completed: 1_000, failed: 0 } });
    },
  );

  it.each(["503", "504", "reset"])(
    "survives an outage that begins when it is all that is left (%s)",
    async (kind) => {
      const fail = KINDS[kind] ?? (() => status(504));
      const world: World = new World({
        latencyMs: 200,
        config: {
          maxInFlight: 8,
          providers: { alpha: { baseUrl: "http://alpha.test/v1", needsKey: false, timeoutMs: 20_000 } },
        },
        answer: (line, attempt) => {
          if (line === 40 && attempt === 1) return "hang";
          const nowMs = world.clock.nowMs();
          return nowMs >= 10_100 && nowMs < 120_000 ? fail() : ok(line);
        },
      });
      world.input(300);
      const engine = await world.engine();
      const summary = await world.settle(engine.run(INPUT, OPTIONS).finished);
      expect(summary).toMatchObject({ status: "completed", counts: { completed: 300, failed: 0 } });
      await world.settle(engine.close());
    },
  );

  it.each([4, 8, 64])(
    "survives an outage that begins at its next attempt, in which all are reset (%i in flight)",
    async (maxInFlight) => {
      const items = 100 * maxInFlight;
      let fromMs = Number.POSITIVE_INFINITY;
      const { summary, tookMs } = await runOf({
        ...{ items, maxInFlight, timeoutMs: 20_000, latencyMs: 1_000 },
        answer: (line, attempt, nowMs) => {
          if (line === maxInFlight && attempt === 1) return "hang";
          if (line === maxInFlight && attempt === 2) fromMs = nowMs;
          return nowMs >= fromMs && nowMs < fromMs + 120_000 ? { afterMs: 3, result: RESET } : ok(line);
        },
      });
      expect(fromMs).toBeLessThan(tookMs);
      expect(summary).toMatchObject({ status: "completed", counts: { completed: items, failed: 0 } });
    },
  );
});

describe("an item that always fails where others need several attempts", () => {
  it.each(["503", "reset"])("ends although it is the only one that is left (%s)", async (kind) => {
    const fail = KINDS[kind] as () => Reply;
    const { summary, attemptsOf, tookMs } = await runOf({
      ...{ items: 100, maxInFlight: 8, timeoutMs: 600_000, latencyMs: 30 },
      answer: (line, attempt) => (line === 90 || (line % 2 === 0 && attempt === 1) ? fail() : ok(line)),
    });
    expect(summary).toMatchObject({ status: "completed", counts: { completed: 99, failed: 1 } });
    expect(attemptsOf(90)).toBeLessThanOrEqual(40);
    expect(tookMs).toBeLessThan(900_000);
  });
});
