/** A cap of several engines, on one clock, with a pool in memory: never exceeded, used to the last item, and raised. */
import { describe, expect, it } from "vitest";
import type { CapPool } from "../../src/price/shared/cap_pool.ts";
import { type MoneyAsk, type MoneyGrant, SharedMoney } from "../../src/price/shared/shared_money.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { INPUT, mortal, OUTPUT, ok, World } from "./world.ts";

/** An answer takes 0.035 USD; up to 0.13 USD are held for it. */
const PRICES = { "alpha:*": { inputUsdPerMillion: 1_000, outputUsdPerMillion: 5_000 } };
const ANSWER_USD = 0.035;
const MOST_USD = 0.13;

/** Answers after 5 ms; while `isAway`, not at all, though the ask is booked. */
class MemoryCaps {
  isAway = false;
  readonly #clock: FakeClock;
  readonly #money = new Map<string, SharedMoney>();

  constructor(clock: FakeClock) {
    this.#clock = clock;
  }

  /** Each engine that opens has a higher epoch. */
  of(holder: string): CapPool {
    let epoch = 0;
    return {
      holder,
      get epoch() {
        epoch += 1;
        return epoch;
      },
      draw: (cap, ask) => this.#draw(cap, ask),
    };
  }

  async #draw(cap: string, ask: MoneyAsk): Promise<MoneyGrant> {
    await this.#clock.sleep(5);
    const money = this.#money.get(cap) ?? new SharedMoney();
    this.#money.set(cap, money);
    const grant = money.draw(this.#clock.nowMs(), ask);
    if (this.isAway || grant === undefined) throw new Error("away");
    return grant;
  }
}

interface Fleet {
  readonly clock: FakeClock;
  readonly pool: MemoryCaps;
  readonly worlds: readonly World[];
  readonly billedUsd: () => number;
}

function fleet(count: number, usd: number): Fleet {
  const clock = new FakeClock();
  const pool = new MemoryCaps(clock);
  let billedUsd = 0;
  const answer = (line: number): ReturnType<typeof ok> => {
    billedUsd += ANSWER_USD;
    expect(billedUsd).toBeLessThanOrEqual(usd + 1e-9); // at every moment
    return ok(line);
  };
  const config = { prices: PRICES, cap: { name: "all", usd } };
  const worlds = Array.from({ length: count }, (_, index) => {
    const world = new World({ clock, capPool: pool.of(`p${index}`), config, latencyMs: 300, answer });
    world.input(200);
    return world;
  });
  return { clock, pool, worlds, billedUsd: () => billedUsd };
}

describe("a cap that engines share", () => {
  it("is never exceeded, and used until less than one item is left", async () => {
    const { clock, worlds, billedUsd } = fleet(3, 10);
    const runs = await Promise.all(
      worlds.map(async (world) =>
        (await world.engine()).run(INPUT, { out: OUTPUT, onHeld: () => undefined }),
      ),
    );
    await clock.advance(120_000);
    expect(billedUsd()).toBeGreaterThan(10 - MOST_USD);
    for (const run of runs) {
      const [hold] = run.progress().held;
      expect(hold).toMatchObject({ reason: "cap_reached", cap: "all" });
      expect(hold?.message).toMatch(/^the cap "all" of \$10\.00 has \$0\.\d+ left/);
    }
  });

  it("is all for one that has something to send, but for what another's log says of it after a kill", async () => {
    const { clock, worlds, billedUsd } = fleet(3, 10);
    const [busy, idle, dying] = worlds;
    await idle!.engine();
    const life = mortal(clock);
    void (await dying!.engine(life.clock)).run(INPUT, { out: OUTPUT, onHeld: () => undefined }).finished;
    await clock.advance(400);
    life.kill();
    dying!.kill();
    expect(dying!.sent.length).toBeGreaterThan(3);
    void (await busy!.engine()).run(INPUT, { out: OUTPUT, onHeld: () => undefined }).finished;
    await clock.advance(60_000);
    expect(busy!.sent.length).toBeGreaterThan(100); // beside what the dead one was granted
    const run = (await dying!.engine()).run(INPUT, { out: OUTPUT, onHeld: () => undefined }); // continues with its grant
    await clock.advance(180_000);
    const { ambiguousUsd } = run.progress();
    expect(billedUsd()).toBeGreaterThan(10 - ambiguousUsd - MOST_USD);
    expect(run.progress().held).toMatchObject([{ reason: "cap_reached" }]);
  });

  it("holds no item while the pool is away, though asks that were booked are not answered, and goes on when it is back", async () => {
    const { clock, pool, worlds, billedUsd } = fleet(2, 10);
    const [first, second] = worlds;
    const run = (await first!.engine()).run(INPUT, { out: OUTPUT, onHeld: () => undefined });
    void (await second!.engine()).run(INPUT, { out: OUTPUT, onHeld: () => undefined }).finished;
    await clock.advance(1_000);
    pool.isAway = true;
    await clock.advance(30_000);
    const sent = billedUsd();
    await clock.advance(30_000);
    expect(billedUsd()).toBe(sent);
    expect(run.progress().held).toEqual([]);
    pool.isAway = false;
    await clock.advance(120_000);
    expect(billedUsd()).toBeGreaterThan(10 - MOST_USD);
  });

  it("lets held items of all go on when all have a higher one, and until then the lowest holds", async () => {
    const { clock, worlds, billedUsd } = fleet(2, 10);
    const start = async (world: World): Promise<() => Promise<unknown>> => {
      const engine = await world.engine();
      const run = engine.run(INPUT, { out: OUTPUT, onHeld: () => undefined });
      return () => {
        run.stop();
        return world.settle(engine.close());
      };
    };
    for (const world of worlds) world.reconfigure({ cap: { name: "all", usd: 2 } });
    const stops = await Promise.all(worlds.map(start));
    await clock.advance(60_000);
    expect(billedUsd()).toBeGreaterThan(2 - MOST_USD);
    for (const [index, world] of worlds.entries()) {
      expect(billedUsd()).toBeLessThanOrEqual(2);
      await stops[index]?.();
      world.reconfigure({ cap: { name: "all", usd: 10 } });
      await start(world);
      await clock.advance(60_000);
    }
    expect(billedUsd()).toBeGreaterThan(10 - MOST_USD);
    expect(Math.min(...worlds.map(({ sent }) => sent.length))).toBeGreaterThan(60);
  });
});
