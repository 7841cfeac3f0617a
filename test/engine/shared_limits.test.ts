/** Several engines under one limit, on one clock, with a pool in memory. */
import { describe, expect, it } from "vitest";
import type { LimitPool } from "../../src/limits/shared/limit_pool.ts";
import { type BlockGrant, SharedWindow } from "../../src/limits/shared/shared_window.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { mostInAMinute } from "./runs.ts";
import { INPUT, OUTPUT, World } from "./world.ts";

/** Answers after 5 ms; while `isAway`, not at all. */
class MemoryPool implements LimitPool {
  isAway = false;
  readonly quotas = new Set<string>();
  readonly #clock: FakeClock;
  readonly #windows = new Map<string, SharedWindow>();

  constructor(clock: FakeClock) {
    this.#clock = clock;
  }

  async draw(asks: Parameters<LimitPool["draw"]>[0]): Promise<readonly BlockGrant[]> {
    await this.#clock.sleep(5);
    if (this.isAway) throw new Error("away");
    return asks.map(({ quota, ask }) => {
      const window = this.#windows.get(quota) ?? new SharedWindow();
      this.#windows.set(quota, window);
      this.quotas.add(quota);
      return window.draw(this.#clock.nowMs(), ask);
    });
  }
}

interface Fleet {
  readonly clock: FakeClock;
  readonly pool: MemoryPool;
  readonly worlds: readonly World[];
  /** When requests were sent, by all. */
  readonly sentMs: () => number[];
}

function fleet(count: number, limits: Record<string, number>): Fleet {
  const clock = new FakeClock();
  const pool = new MemoryPool(clock);
  const config = { limits: { alpha: limits } };
  const worlds = Array.from(
    { length: count },
    () => new World({ clock, limitPool: pool, config, latencyMs: 300 }),
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

  it("draws nothing where nothing is limited", async () => {
    const { pool, worlds } = fleet(1, {});
    const [world] = worlds;
    world!.input(50);
    await world!.settle((await world!.engine()).run(INPUT, { out: OUTPUT }).finished);
    expect(pool.quotas.size).toBe(0);
  });
});
