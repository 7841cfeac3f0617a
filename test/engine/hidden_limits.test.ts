/** 429s that say nothing, where no limit is known. */
import { describe, expect, it } from "vitest";
import { createRandom } from "../../src/testing/index.ts";
import { LimitedProvider } from "../schedule/limited_provider.ts";
import { INPUT, mortal, OUTPUT, ok, status, World } from "./world.ts";

const OPTIONS = { out: OUTPUT };

describe("refusals that no limit explains", () => {
  const refused = status(429, "rate_limit_exceeded");

  it.each([
    ["that began with the first requests", 100, 10, 2],
    ["that began later", 3_000, 200, 2],
    ["that began while many were in flight", 20_000, 5_000, 64],
  ])(
    "of all for ten minutes, %s, do not slow down later requests",
    async (_, fromMs, latencyMs, maxInFlight) => {
      const world: World = new World({
        config: { maxInFlight, waitMs: 3_600_000 },
        answer: (line) => {
          const nowMs = world.clock.nowMs();
          return nowMs > fromMs && nowMs < 620_000 ? refused : ok(line);
        },
        latencyMs,
      });
      world.input(1_000);
      const engine = await world.engine();
      const summary = await world.settle(engine.run(INPUT, OPTIONS).finished);
      expect(summary).toMatchObject({ status: "completed", counts: { completed: 1_000 } });
      expect(world.clock.nowMs()).toBeLessThan(620_000 + 150_000);
      await world.settle(engine.close());
    },
  );

  it.each([5, 20, 40, 90])("of all for the first %i s do not slow down later requests", async (seconds) => {
    const world: World = new World({
      answer: (line) => (world.clock.nowMs() < seconds * 1_000 ? refused : ok(line)),
      latencyMs: 200,
    });
    world.input(200);
    const engine = await world.engine();
    await world.settle(engine.run(INPUT, OPTIONS).finished);
    expect(world.clock.nowMs() - seconds * 1_000).toBeLessThan(10_000);
    await world.settle(engine.close());
  });

  const weather = [1, 5, 20, 64].flatMap((first) => [20, 40, 90].map((seconds) => [first, seconds] as const));

  it.each(weather)(
    "of all but the first %i, for %i s, do not slow down later requests",
    async (first, seconds) => {
      let accepted = 0;
      const world: World = new World({
        answer: (line) => {
          if (world.clock.nowMs() < seconds * 1_000 && accepted >= first) return refused;
          accepted += 1;
          return ok(line);
        },
        latencyMs: 200,
      });
      world.input(first + 200);
      const engine = await world.engine();
      await world.settle(engine.run(INPUT, OPTIONS).finished);
      expect(world.clock.nowMs() - seconds * 1_000).toBeLessThan(60_000);
      await world.settle(engine.close());
    },
  );

  it.each(weather)(
    "of all but the first %i, twice for %i s, do not slow down later requests",
    async (first, seconds) => {
      let accepted = 0;
      const [firstEndMs, againMs, endMs] = [
        seconds * 1_000,
        seconds * 1_000 + 10_000,
        seconds * 2_000 + 10_000,
      ];
      const world: World = new World({
        answer: (line) => {
          const nowMs = world.clock.nowMs();
          if (nowMs < firstEndMs && accepted >= first) return refused;
          if (nowMs > againMs && nowMs < endMs) return refused;
          accepted += 1;
          return ok(line);
        },
        latencyMs: 200,
      });
      world.input(first + 400);
      const engine = await world.engine();
      await world.settle(engine.run(INPUT, OPTIONS).finished);
      expect(world.clock.nowMs() - endMs).toBeLessThan(90_000);
      await world.settle(engine.close());
    },
  );

  it.each([
    ["8th", 8],
    ["20th", 20],
  ])("of every %s request, by chance, never bring it to a stop", async (_, nth) => {
    const random = createRandom(7);
    const world = new World({
      answer: (line) => (random() < 1 / nth ? refused : ok(line)),
      latencyMs: 100,
      config: { maxInFlight: 8 },
    });
    world.input(1_000);
    const engine = await world.engine();
    await world.settle(engine.run(INPUT, OPTIONS).finished);
    expect(world.clock.nowMs() / 60_000).toBeLessThan(40); // 25 a minute
    await world.settle(engine.close());
  });
});

describe("a limit of a sliding minute that others have used up when the run begins", () => {
  it.each([
    [30, 1],
    [60, 30],
    [600, 1],
  ])("is found and used all the same: %i requests, %i s ago", async (limit, agoSeconds) => {
    const sent: { readonly atMs: number; readonly isRefused: boolean }[] = Array.from(
      { length: limit },
      () => ({ atMs: -agoSeconds * 1_000, isRefused: false }),
    );
    const accepted = (fromMs: number, toMs: number): number =>
      sent.filter(({ atMs, isRefused }) => !isRefused && atMs > fromMs && atMs <= toMs).length;
    const world: World = new World({
      answer: (line) => {
        const atMs = world.clock.nowMs();
        const isRefused = accepted(atMs - 60_000, atMs) >= limit;
        sent.push({ atMs, isRefused });
        return isRefused ? status(429, "rate_limit_exceeded") : ok(line);
      },
      latencyMs: 200,
    });
    world.input(limit * 6);
    const engine = await world.engine();
    engine.run(INPUT, OPTIONS).finished.catch(() => undefined);
    const freeMs = (60 - agoSeconds) * 1_000;
    await world.clock.advance(freeMs + 300_000);
    const [fromMs, toMs] = [freeMs + 60_000, freeMs + 300_000]; // minutes 2 to 5
    const refusals = sent.filter(({ atMs, isRefused }) => isRefused && atMs > fromMs && atMs <= toMs).length;
    expect(accepted(fromMs, toMs)).toBeGreaterThanOrEqual(0.9 * 4 * limit);
    expect(refusals).toBeLessThan(0.03 * 4 * limit);
  });
});

describe("a limit of a minute that is met first after a time of little work", () => {
  const LIMIT = 60;

  /** How long 240 items take after `before` single ones, which come one each `everyMs`; in minutes. */
  async function minutesAfter(kind: "sliding" | "fixed", before: number, everyMs: number): Promise<number> {
    const provider = new LimitedProvider({ kind, counted: "requests", limit: LIMIT });
    const request = { inputTokens: 1, outputTokens: 1 };
    const world: World = new World({
      answer: (line) =>
        provider.arrives(world.clock.nowMs(), request)
          ? ok(line)
          : { afterMs: 50, result: status(429, "rate_limit_exceeded") },
      latencyMs: 200,
    });
    const engine = await world.engine();
    for (let index = 0; index < before; index += 1) {
      const path = `/single${index}.jsonl`;
      world.input(1, "alpha:m1", path);
      await world.settle(engine.run(path, { out: `/single${index}.out.jsonl` }).finished);
      await world.clock.advance(everyMs);
    }
    await world.clock.advance(60_001 - (world.clock.nowMs() % 60_000)); // a fixed minute begins
    const fromMs = world.clock.nowMs();
    world.input(4 * LIMIT);
    const { counts } = await world.settle(engine.run(INPUT, OPTIONS).finished);
    expect(counts.completed).toBe(4 * LIMIT);
    const tookMs = world.clock.nowMs() - fromMs;
    await world.settle(engine.close());
    return tookMs / 60_000;
  }

  it.each([
    ["sliding", 1, 3_600_000],
    ["fixed", 1, 3_600_000],
    ["sliding", 40, 100_000],
    ["fixed", 40, 100_000],
    ["sliding", 60, 5_000],
  ] as const)(
    "%s: is used as well as at the start, after %i items, one each %i ms",
    async (kind, before, everyMs) => {
      expect(await minutesAfter(kind, before, everyMs)).toBeLessThan(4.5);
    },
  );

  it.each([5_000, 20_000, 30_000, 40_000])(
    "fixed: is used at half at least, after 60 items, one each %i ms",
    async (everyMs) => {
      expect(await minutesAfter("fixed", 60, everyMs)).toBeLessThan(8);
    },
  );
});

describe("a limit of 300 requests in a sliding minute, over kills", () => {
  it.each([[[75]], [[75, 140, 200]], [[30, 75, 100]]])(
    "after %j s is used, with few refusals",
    async (seconds) => {
      const provider = new LimitedProvider({ kind: "sliding", counted: "requests", limit: 300 });
      const answers: { readonly atMs: number; readonly isRefused: boolean }[] = [];
      const world: World = new World({
        answer: (line) => {
          const atMs = world.clock.nowMs();
          const isRefused = !provider.arrives(atMs, { inputTokens: 1, outputTokens: 1 });
          answers.push({ atMs, isRefused });
          return isRefused ? { afterMs: 50, result: status(429, "rate_limit_exceeded") } : ok(line);
        },
        latencyMs: 200,
      });
      world.input(2_000);
      for (const second of [...seconds, 300]) {
        const process = mortal(world.clock);
        const engine = await world.engine(process.clock);
        engine.run(INPUT, OPTIONS).finished.catch(() => undefined);
        await world.clock.advance(second * 1_000 - world.clock.nowMs());
        process.kill();
        world.kill();
      }
      const late = answers.filter(({ atMs }) => atMs > 60_000);
      const refused = late.filter(({ isRefused }) => isRefused).length;
      expect(refused / late.length).toBeLessThan(0.03);
      expect(late.length - refused).toBeGreaterThan(0.9 * 4 * 300);
    },
  );
});
