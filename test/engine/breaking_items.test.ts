/**
 * Items that are never answered, among others that are: they end after their attempts, wherever they stand in the input, and
 * keep nobody else from being answered.
 */
import { describe, expect, it } from "vitest";
import { INPUT, OUTPUT, ok, type Reply, status, World } from "./world.ts";

const OPTIONS = { out: OUTPUT, waitMs: 21_600_000 };

const KINDS: Readonly<Record<string, () => Reply>> = {
  "503": () => status(503),
  "502": () => status(502),
  reset: () => ({ ok: false, failure: "lost", message: "connection reset" }),
  refused: () => ({ ok: false, failure: "not_sent", message: "connection refused" }),
};
/** Attempts that end an item, and those before another item was answered. */
const ATTEMPTS_MAX: Readonly<Record<string, number>> = { "503": 12, "502": 8, reset: 8, refused: 12 };

const lines = (count: number, lineOf: (index: number) => number): readonly number[] =>
  Array.from({ length: count }, (_, index) => lineOf(index));

/** 100 items, of which `breaking` are never answered; all others are, in 200 ms. */
async function runBeside(breaking: readonly number[], maxInFlight: number, fail: () => Reply) {
  const world: World = new World({
    latencyMs: 200,
    config: {
      maxInFlight,
      providers: { alpha: { baseUrl: "http://alpha.test/v1", timeoutMs: 60_000 } },
    },
    answer: (line) => (breaking.includes(line) ? fail() : ok(line)),
  });
  world.input(100);
  const engine = await world.engine();
  const summary = await world.settle(engine.run(INPUT, OPTIONS).finished);
  const attempts = breaking.map((line) => world.sent.filter((sent) => sent.line === line).length);
  const tookMs = world.clock.nowMs();
  await world.settle(engine.close());
  return { summary, attemptsMax: Math.max(...attempts), tookMs };
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
