/** Several engines under one limit, on one clock, with a pool in memory. */
import { describe, expect, it } from "vitest";
import { FakeClock } from "../../src/testing/index.ts";
import { MemoryPool } from "./memory_pool.ts";
import { mostInAMinute } from "./runs.ts";
import { INPUT, OUTPUT, ok, status, World } from "./world.ts";

const LATENCY_MS = 300;

function slowly(line: number): { readonly afterMs: number; readonly result: ReturnType<typeof ok> } {
  return { afterMs: 2_000, result: ok(line) };
}

interface Fleet {
  readonly clock: FakeClock;
  readonly pool: MemoryPool;
  readonly worlds: readonly World[];
  /** When requests were sent, by all. */
  readonly sentMs: () => number[];
}

function fleet(count: number, limits: Record<string, number>, maxInFlight = 512): Fleet {
  const clock = new FakeClock();
  const pool = new MemoryPool(clock);
  const config = { limits: { alpha: limits }, maxInFlight };
  const worlds = Array.from(
    { length: count },
    () => new World({ clock, limitPool: pool, config, latencyMs: LATENCY_MS }),
  );
  const sentMs = (): number[] =>
    worlds.flatMap(({ sent }) => sent.map(({ atMs }) => atMs)).sort((left, right) => left - right);
  return { clock, pool, worlds, sentMs };
}

describe("limits that engines share", () => {
  it.each([
    ["requestsPerMinute", 300, 1],
    ["tokensPerMinute", 4_500, 15],
  ] as const)(
    "keep %s of all together in every minute, and use at least 0.97 of it",
    async (name, limit, units) => {
      const { clock, worlds, sentMs } = fleet(3, { [name]: limit });
      for (const world of worlds) {
        world.input(600);
        void (await world.engine()).run(INPUT, { out: OUTPUT }).finished;
      }
      await clock.advance(180_000);
      const atMs = sentMs();
      expect(mostInAMinute(atMs) * units).toBeLessThanOrEqual(limit);
      const used = atMs.filter((one) => one >= 60_000 && one < 180_000).length * units;
      expect(used / 2).toBeGreaterThan(0.97 * limit);
      const shares = worlds.map(({ sent }) => sent.length);
      expect(Math.min(...shares) / Math.max(...shares)).toBeGreaterThan(0.7);
    },
  );

  it("gives one engine all of a limit while the others have nothing to send", async () => {
    const { clock, worlds } = fleet(3, { requestsPerMinute: 300 });
    const [busy, ...idle] = worlds;
    for (const world of idle) await world.engine();
    busy!.input(1_000);
    void (await busy!.engine()).run(INPUT, { out: OUTPUT }).finished;
    await clock.advance(120_000);
    expect(busy!.sent.filter(({ atMs }) => atMs >= 60_000).length).toBeGreaterThan(0.97 * 300);
  });

  it("sends nothing more when the pool is away for longer than a block lives, and goes on when it is back", async () => {
    const { clock, pool, worlds } = fleet(1, { requestsPerMinute: 6_000 });
    const [world] = worlds;
    world!.input(1_000);
    const run = (await world!.engine()).run(INPUT, { out: OUTPUT });
    await clock.advance(3_000);
    pool.isAway = true;
    await clock.advance(2_000);
    const sent = world!.sent.length;
    expect(sent).toBeGreaterThan(100);
    await clock.advance(60_000);
    expect(world!.sent).toHaveLength(sent);
    pool.isAway = false;
    expect((await world!.settle(run.finished)).counts.completed).toBe(1_000);
  });

  it("draws nothing where nothing is limited, and exchanges nothing when nothing is sent", async () => {
    const { clock, pool, worlds } = fleet(1, {});
    const [world] = worlds;
    world!.input(50);
    await world!.settle((await world!.engine()).run(INPUT, { out: OUTPUT }).finished);
    expect(pool.quotas.size).toBe(0);
    await clock.advance(5_000);
    const { draws } = pool;
    await clock.advance(120_000);
    expect(pool.draws).toBe(draws);
  });
});

describe("places that engines share", () => {
  it.each([6, 1])("are never more than %i for all together, and mostly used", async (concurrency) => {
    const { clock, worlds } = fleet(3, { concurrency });
    for (const world of worlds) {
      world.input(3_000);
      void (await world.engine()).run(INPUT, { out: OUTPUT }).finished;
    }
    await clock.advance(180_000);
    const times = worlds.flatMap(({ sent }) => sent.map(({ atMs }) => atMs));
    const inFlight = (nowMs: number): number =>
      times.filter((atMs) => atMs <= nowMs && atMs + LATENCY_MS > nowMs).length;
    expect(Math.max(...times.map(inFlight))).toBeLessThanOrEqual(concurrency);
    expect((times.length * LATENCY_MS) / 180_000).toBeGreaterThan(0.8 * concurrency);
    const shares = worlds.map(({ sent }) => sent.length);
    expect(Math.min(...shares) / Math.max(...shares)).toBeGreaterThan(0.6);
  });

  it.each([0, 700])(
    "are free for the others when an engine is closed, with the pool away for %i ms",
    async (awayMs) => {
      const { clock, pool, worlds } = fleet(2, { concurrency: 4 });
      const [first, second] = worlds;
      first!.input(12);
      const engine = await first!.engine();
      await first!.settle(engine.run(INPUT, { out: OUTPUT }).finished);
      pool.isAway = awayMs > 0;
      await first!.settle(engine.close());
      await clock.advance(awayMs);
      pool.isAway = false;
      await clock.advance(600);
      second!.input(40);
      const startedMs = clock.nowMs();
      await second!.settle((await second!.engine()).run(INPUT, { out: OUTPUT }).finished);
      expect(clock.nowMs() - startedMs).toBeLessThan(5_000);
    },
  );
});

describe("what engines know of a lane", () => {
  /** Two engines that send all the time; `answer` of the first. */
  async function two(answer: World["answer"]): Promise<{ clock: FakeClock; first: World; second: World }> {
    const { clock, worlds } = fleet(2, {}, 8);
    const [first, second] = worlds as [World, World];
    for (const world of worlds) world.answer = slowly;
    first.answer = answer;
    for (const world of worlds) {
      world.input(2_000);
      void (await world.engine()).run(INPUT, { out: OUTPUT }).finished;
    }
    return { clock, first, second };
  }

  it("is a cool-down: a wait that one is told stops the others within a second, until it is over", async () => {
    let untilMs = Number.POSITIVE_INFINITY;
    const { clock, second } = await two((line) => {
      if (clock.nowMs() < 5_000) return slowly(line);
      if (untilMs === Number.POSITIVE_INFINITY) untilMs = clock.nowMs() + 20_000;
      return clock.nowMs() < untilMs ? status(429, "rate_limited", { "retry-after": "20" }) : slowly(line);
    });
    await clock.advance(30_000);
    const sent = second.sent.map(({ atMs }) => atMs);
    expect(sent.filter((atMs) => atMs > 4_000 && atMs < 5_000).length).toBeGreaterThan(0);
    expect(sent.filter((atMs) => atMs > 6_100 && atMs < 25_000)).toEqual([]);
    expect(sent.filter((atMs) => atMs > 25_000).length).toBeGreaterThan(0);
  });

  it("is a cool-down also for an engine that begins to send later", async () => {
    const { clock, worlds } = fleet(2, {});
    const [first, second] = worlds as [World, World];
    first.answer = () => status(429, "rate_limited", { "retry-after": "30" });
    first.input(1);
    void (await first.engine()).run(INPUT, { out: OUTPUT }).finished;
    await clock.advance(2_000);
    second.input(5);
    const run = (await second.engine()).run(INPUT, { out: OUTPUT });
    await clock.advance(20_000);
    expect(second.sent).toEqual([]);
    expect((await second.settle(run.finished)).counts.completed).toBe(5);
  });

  it("is a pause: an account without money stops all, one of them probes, and its success lets all go on", async () => {
    let isPaid = true;
    const paid: World["answer"] = (line) => (isPaid ? slowly(line) : status(429, "insufficient_quota"));
    const { clock, first, second } = await two(paid);
    second.answer = paid;
    await clock.advance(5_000);
    isPaid = false;
    await clock.advance(2_000);
    const before = first.sent.length + second.sent.length;
    await clock.advance(33_000);
    const probes = [first, second].map(({ sent }) => sent.filter(({ atMs }) => atMs > 7_000).length);
    expect(first.sent.length + second.sent.length - before).toBeLessThanOrEqual(2);
    expect(Math.min(...probes)).toBe(0);
    isPaid = true;
    const paidMs = clock.nowMs();
    await clock.advance(63_000);
    const goneOnMs = [first, second].map(({ sent }) => sent.find(({ atMs }) => atMs > paidMs)?.atMs ?? 0);
    expect(Math.min(...goneOnMs)).toBeGreaterThan(paidMs);
    expect(Math.abs(goneOnMs[0]! - goneOnMs[1]!)).toBeLessThan(3_000); // the answer to the probe takes 2 s
  });

  it("is a limit in headers: what one has read holds for another, which has not", async () => {
    const { clock, worlds } = fleet(2, {});
    const [first, second] = worlds as [World, World];
    const answered = ok(1) as { readonly headers?: object };
    first.answer = (line) =>
      ({ ...ok(line), headers: { ...answered.headers, "x-ratelimit-limit-requests": "60" } }) as ReturnType<
        typeof ok
      >;
    first.input(2);
    await first.settle((await first.engine()).run(INPUT, { out: OUTPUT }).finished);
    await clock.advance(2_000);
    const startedMs = clock.nowMs();
    second.input(200);
    void (await second.engine()).run(INPUT, { out: OUTPUT }).finished;
    await clock.advance(50_000);
    const sent = second.sent.filter(({ atMs }) => atMs >= startedMs).length;
    expect(sent).toBeGreaterThan(20);
    expect(sent).toBeLessThanOrEqual(60);
  });

  it("is a limit in headers: what was sent until it was read is not missing later", async () => {
    const { clock, worlds } = fleet(1, {});
    const [world] = worlds as [World];
    const answered = ok(1) as { readonly headers?: object };
    world.answer = (line) =>
      ({ ...ok(line), headers: { ...answered.headers, "x-ratelimit-limit-requests": "60" } }) as ReturnType<
        typeof ok
      >;
    world.input(1_000);
    void (await world.engine()).run(INPUT, { out: OUTPUT }).finished;
    await clock.advance(300_000);
    const sent = world.sent.filter(({ atMs }) => atMs >= 120_000).length;
    expect(sent).toBeGreaterThan(0.95 * 3 * 60);
    expect(sent).toBeLessThanOrEqual(3 * 60);
  });
});
