/** Outages with seconds between them, beside answers that take half a minute: no item ends for what its lane did. */
import { describe, expect, it } from "vitest";
import type { WireResult } from "../../src/dispatch/transport.ts";
import { createRandom } from "../../src/testing/index.ts";
import { INPUT, OUTPUT, ok, status, World } from "./world.ts";

const FAILS: Readonly<Record<string, WireResult>> = {
  reset: { ok: false, failure: "lost", message: "connection reset" },
  "500": status(500),
  "502": status(502),
  "503": status(503),
};

/** `TEST_LIMIT_SEEDS` draws more. */
const SEEDS = Number(process.env["TEST_LIMIT_SEEDS"] ?? 1);
const BURST_SEEDS = Math.max(8, SEEDS);

type Times = readonly (readonly [fromS: number, toS: number])[];
const TWO: Times = [
  [2, 20],
  [24, 50],
];
const SIX: Times = [1, 12, 23, 34, 45, 56].map((fromS) => [fromS, fromS + 8] as const);

const cases = Object.keys(FAILS).flatMap((kind) => [
  { kind, name: "two outages of 18 and 26 s", times: TWO, items: 200, slow: 0.1 },
  { kind, name: "two outages of 18 and 26 s", times: TWO, items: 100, slow: 0.2 },
  { kind, name: "one outage of 36 s", times: [[4, 40]] as Times, items: 100, slow: 0.2 },
  { kind, name: "six outages of 8 s", times: SIX, items: 400, slow: 0.1 },
  { kind, name: "six outages of 8 s", times: SIX, items: 400, slow: 0 },
]);

describe("items that fail with all others", () => {
  it("survive an outage although one was given up as hung while others of its burst were slow", async () => {
    for (let seed = 1; seed <= BURST_SEEDS; seed++) {
      const random = createRandom(seed);
      const slowMs = new Map<number, number>();
      const world: World = new World({
        config: { maxInFlight: 64 },
        answer: (line) => {
          if (!slowMs.has(line)) slowMs.set(line, random() < 0.3 ? 20_000 + 10_000 * random() : 0);
          const atMs = world.clock.nowMs();
          if (atMs >= 3_000 && atMs < 60_000)
            return { afterMs: 3, result: status(seed % 2 === 0 ? 500 : 502) };
          return { afterMs: slowMs.get(line) || 250 + 500 * random(), result: ok(line) };
        },
      });
      world.input(100 + (seed % 3) * 25);
      const summary = await world.settle((await world.engine()).run(INPUT, { out: OUTPUT }).finished);
      expect(summary.counts, `seed ${seed}`).toMatchObject({ failed: 0 });
    }
  });

  it.each(cases)("($kind) survive $name, $items of them, a share of $slow slow", async (one) => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const random = createRandom(seed);
      const slow = new Set<number>();
      const seen = new Set<number>();
      const world: World = new World({
        config: { maxInFlight: 64 },
        answer: (line) => {
          if (!seen.has(line) && random() < one.slow) slow.add(line);
          seen.add(line);
          const atS = world.clock.nowMs() / 1_000;
          const isDown = one.times.some(([fromS, toS]) => atS >= fromS && atS < toS);
          if (isDown) return { afterMs: 3, result: FAILS[one.kind] ?? status(500) };
          return { afterMs: slow.has(line) ? 20_000 + 10_000 * random() : 800, result: ok(line) };
        },
      });
      world.input(one.items);
      const summary = await world.settle((await world.engine()).run(INPUT, { out: OUTPUT }).finished);
      expect(summary.counts).toMatchObject({ completed: one.items, failed: 0 });
    }
  });
});

describe("items that always fail", () => {
  const worlds = ["500", "503"].flatMap((kind) =>
    [50, 800, 30_000].flatMap((answerMs) =>
      (answerMs === 30_000 ? [0.001, 0.1] : [0.001, 0.1, 0.5]).map((share) => {
        return { kind, answerMs, share, chance: 0, requestsMax: 10 };
      }),
    ),
  );
  const flaky = [50, 5_000].map((answerMs) => {
    return { kind: "500", answerMs, share: 0.01, chance: 0.1, requestsMax: 20 };
  });
  it.each([...worlds, ...flaky])(
    "($kind, a share of $share, and $chance of all requests) end beside answers of $answerMs ms",
    async ({ kind, answerMs, share, chance, requestsMax }) => {
      const random = createRandom(1);
      const count = share < 0.01 ? 1_000 : 400; // one bad item at least
      const bad = new Set(
        Array.from({ length: count * share }, (_, index) => Math.ceil((index + 0.5) / share)),
      );
      const world: World = new World({
        config: { maxInFlight: 64 },
        answer: (line) =>
          bad.has(line) || random() < chance
            ? { afterMs: 3, result: FAILS[kind] ?? status(500) }
            : { afterMs: answerMs, result: ok(line) },
      });
      world.input(count);
      const summary = await world.settle((await world.engine()).run(INPUT, { out: OUTPUT }).finished);
      expect(summary).toMatchObject({
        status: "completed",
        counts: { completed: count - bad.size, failed: bad.size },
      });
      expect(world.sent.length).toBeLessThanOrEqual(
        (count - bad.size) * (1 + 2 * chance) + bad.size * requestsMax,
      );
    },
  );
});
