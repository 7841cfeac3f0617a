/** Outages of seconds, in which everything fails as fast as it is sent: few requests are lost to them, and little time. */
import { describe, expect, it } from "vitest";
import type { WireResult } from "../../src/dispatch/transport.ts";
import { createRandom } from "../../src/testing/random.ts";
import { INPUT, OUTPUT, ok, status, World } from "./world.ts";

const FROM_MS = 2_500;
const LOST: WireResult = { ok: false, failure: "lost", message: "connection reset" };
const FAILS: Readonly<Record<string, WireResult>> = {
  reset: LOST,
  refused: { ok: false, failure: "not_sent", message: "connection refused" },
  "503": status(503),
};
/** Besides what was in flight: until the lane closes, 4 a second and what the first row of failures let through. */
const REQUESTS_MAX = 30;

/** Answers take 400 ms, failures 3 ms. */
function worldOut(kind: string, places: number, lengthMs: number, config: object = {}): World {
  const world: World = new World({
    config: { maxInFlight: places, ...config },
    answer: (line) => {
      const nowMs = world.clock.nowMs();
      const isOut = nowMs >= FROM_MS && nowMs < FROM_MS + lengthMs;
      return isOut ? { afterMs: 3, result: FAILS[kind] ?? LOST } : { afterMs: 400, result: ok(line) };
    },
  });
  return world;
}

const cases = Object.keys(FAILS).flatMap((kind) =>
  [1, 8, 64, kind === "reset" ? 512 : 128].map((places) => [kind, places] as const),
);

describe("an outage of 5 s in the middle of a run", () => {
  it.each(cases)("(%s) at %i in flight is sent few requests", async (kind, places) => {
    const world = worldOut(kind, places, 5_000);
    const count = places * 10; // a place answers six before the outage
    world.input(count);
    const summary = await world.settle((await world.engine()).run(INPUT, { out: OUTPUT }).finished);
    expect(summary).toMatchObject({ status: "completed", counts: { completed: count } });
    const lost = world.sent.filter(({ atMs }) => atMs >= FROM_MS && atMs < FROM_MS + 5_000).length;
    expect(lost).toBeLessThanOrEqual(places + REQUESTS_MAX);
  });

  it("does not use up a cap that is a third larger than what the run costs", async () => {
    const prices = { "alpha:*": { inputUsdPerMillion: 0, outputUsdPerMillion: 1_000 } };
    const world = worldOut("reset", 8, 5_000, { prices });
    world.input(235);
    const run = (await world.engine()).run(INPUT, { out: OUTPUT, maxCostUsd: 5 });
    const summary = await world.settle(run.finished);
    expect(summary).toMatchObject({ status: "completed", counts: { completed: 235 } });
    expect(summary.cost.ambiguous_usd).toBeLessThan(0.6);
  });
});

describe("connections that are all lost at once", () => {
  it("cost a run with answers of 20 s few seconds more than those answers", async () => {
    const lengthMs = 500;
    const world: World = new World({
      config: { maxInFlight: 64 },
      answer: (line) => {
        const nowMs = world.clock.nowMs();
        const answerMs = nowMs >= FROM_MS + lengthMs ? 20_000 : Math.max(3, FROM_MS - nowMs);
        return { afterMs: answerMs, result: answerMs === 20_000 ? ok(line) : LOST };
      },
    });
    world.input(30);
    const summary = await world.settle((await world.engine()).run(INPUT, { out: OUTPUT }).finished);
    expect(summary).toMatchObject({ status: "completed", counts: { completed: 30 } });
    expect(world.clock.nowMs()).toBeLessThan(FROM_MS + lengthMs + 20_000 + 8_000);
  });
});

describe("an outage while answers to earlier requests still arrive", () => {
  const LONG_MS = 20_000;

  it.each(Object.keys(FAILS))(
    "(%s) of 10 s is sent few requests more than one without them",
    async (kind) => {
      const world: World = new World({
        config: { maxInFlight: 64 },
        answer: (line) => {
          const nowMs = world.clock.nowMs();
          const isOut = nowMs >= 40_000 && nowMs < 50_000;
          if (isOut) return { afterMs: 3, result: FAILS[kind] ?? LOST };
          return { afterMs: nowMs === 0 ? 300 * line : LONG_MS, result: ok(line) }; // 3 a second from then on
        },
      });
      world.input(500);
      const summary = await world.settle((await world.engine()).run(INPUT, { out: OUTPUT }).finished);
      expect(summary).toMatchObject({ status: "completed", counts: { completed: 500 } });
      const lost = world.sent.filter(({ atMs }) => atMs >= 40_000 && atMs < 50_000).length;
      expect(lost).toBeLessThanOrEqual(30 + REQUESTS_MAX); // 30 answers free their places
    },
  );

  it.each([0.05, 0.1])("is not seen in failures that come by chance: %f of all", async (share) => {
    const random = createRandom(3);
    const world: World = new World({
      config: { maxInFlight: 64 },
      answer: (line) =>
        random() < share
          ? { afterMs: 50, result: status(500) }
          : { afterMs: LONG_MS * (0.5 + random()), result: ok(line) },
    });
    world.input(1_000);
    await world.settle((await world.engine()).run(INPUT, { out: OUTPUT }).finished);
    expect(world.clock.nowMs()).toBeLessThan((1.5 * 1_000 * LONG_MS) / 64);
  });
});

describe("the first request after an outage, which hangs", () => {
  it.each([1, 2, 3])("does not keep the others back (%i)", async (seed) => {
    const random = createRandom(seed);
    const answered = new Set<number>();
    let hangs = "no";
    const world: World = new World({
      config: { limits: { alpha: { concurrency: 6 } } },
      answer: (line) => {
        const nowMs = world.clock.nowMs();
        if (nowMs > 10_000 && nowMs < 40_000) return { afterMs: 500, result: status(504) };
        if (nowMs >= 40_000 && hangs === "no") hangs = "next";
        else if (hangs === "next") {
          hangs = "once";
          return "hang";
        }
        answered.add(line);
        return { afterMs: 300 + 2_500 * random(), result: ok(line) };
      },
    });
    world.input(300);
    (await world.engine()).run(INPUT, { out: OUTPUT }).finished.catch(() => undefined);
    await world.clock.advance(240_000);
    expect(hangs).toBe("once");
    expect(answered.size).toBeGreaterThanOrEqual(299);
  });
});
