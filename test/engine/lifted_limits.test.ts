/** Limits that only 429s show, when they are lifted, and beside 429s that come by chance. */
import { describe, expect, it } from "vitest";
import { createRandom } from "../../src/testing/random.ts";
import { INPUT, OUTPUT, ok, status, World } from "./world.ts";

interface Provider {
  /** Requests in flight, or accepted requests of the last minute. */
  readonly places?: number;
  readonly perMinute?: number;
  readonly liftedMs?: number;
  readonly chanceShare?: number;
  readonly latencyMs: readonly [number, number];
  readonly seed: number;
}

/** A provider with one limit that it does not announce, and the run of `items` through it. */
class LiftedRun {
  readonly world: World;
  #ends: number[] = [];
  #accepted: number[] = [];
  requests = 0;
  answered = 0;
  lastMs = 0;

  constructor(items: number, maxInFlight: number, provider: Provider) {
    const random = createRandom(provider.seed);
    const [least, most] = provider.latencyMs;
    this.world = new World({
      config: { maxInFlight, waitMs: 36_000_000 },
      answer: (line) => {
        this.requests += 1;
        const nowMs = this.world.clock.nowMs();
        if (this.#isFull(nowMs, provider) || random() < (provider.chanceShare ?? 0))
          return { afterMs: 50, result: status(429, "rate_limit_exceeded") };
        const afterMs = least + (most - least) * random();
        this.#accepted.push(nowMs);
        this.#ends.push(nowMs + afterMs);
        this.answered += 1;
        this.lastMs = nowMs + afterMs;
        return { afterMs, result: ok(line) };
      },
    });
    this.world.input(items);
  }

  /** Until all items are answered, or until `untilMs`. */
  async run(items: number, untilMs: number): Promise<void> {
    const engine = await this.world.engine();
    engine.run(INPUT, { out: OUTPUT }).finished.catch(() => undefined); // left under way
    while (this.world.clock.nowMs() < untilMs && this.answered < items) await this.world.clock.advance(1_000);
  }

  inFlight(): number {
    const nowMs = this.world.clock.nowMs();
    this.#ends = this.#ends.filter((endMs) => endMs > nowMs);
    return this.#ends.length;
  }

  #isFull(nowMs: number, { places, perMinute, liftedMs = Number.POSITIVE_INFINITY }: Provider): boolean {
    if (nowMs >= liftedMs) return false;
    if (places !== undefined) return this.inFlight() >= places;
    this.#accepted = this.#accepted.filter((atMs) => atMs > nowMs - 60_000);
    return this.#accepted.length >= (perMinute ?? Infinity);
  }
}

const QUICK = [1_000, 3_000] as const;
const SLOW = [5_000, 10_000] as const;
/** `TEST_LIMIT_SEEDS` draws more. */
const SEEDS = Array.from({ length: Number(process.env["TEST_LIMIT_SEEDS"] ?? 1) }, (_, index) => index + 1);

describe("an unannounced limit that is lifted", () => {
  it.each(
    SEEDS.flatMap((seed) => [
      { places: 20, liftedMs: 25_000, latencyMs: QUICK, chanceShare: 0, afterS: 60, least: 64, seed },
      { places: 20, liftedMs: 25_000, latencyMs: QUICK, chanceShare: 0.01, afterS: 60, least: 64, seed },
      { places: 20, liftedMs: 25_000, latencyMs: QUICK, chanceShare: 0.1, afterS: 75, least: 21, seed },
      { places: 20, liftedMs: 30_000, latencyMs: SLOW, chanceShare: 0, afterS: 100, least: 64, seed },
      { places: 20, liftedMs: 30_000, latencyMs: SLOW, chanceShare: 0.01, afterS: 100, least: 64, seed },
      { perMinute: 300, liftedMs: 25_000, latencyMs: QUICK, chanceShare: 0, afterS: 90, least: 64, seed },
    ]),
  )(
    "($places places, $perMinute a minute, answers of $latencyMs ms, $chanceShare refused by chance, seed $seed) allows $least in flight $afterS s later",
    async ({ liftedMs, afterS, least, ...provider }) => {
      const run = new LiftedRun(8_000, 128, { ...provider, liftedMs });
      await run.run(8_000, liftedMs + afterS * 1_000);
      expect(run.inFlight()).toBeGreaterThanOrEqual(least);
    },
  );
});

describe("600 requests a minute that nobody announces", () => {
  it.each(
    SEEDS.flatMap((seed) => [
      { chanceShare: 0, latencyMs: 500, seconds: 320, seed },
      { chanceShare: 0.01, latencyMs: 500, seconds: 330, seed },
      { chanceShare: 0.01, latencyMs: 10_000, seconds: 330, seed },
      { chanceShare: 0.1, latencyMs: 2_500, seconds: 450, seed },
      { chanceShare: 0.1, latencyMs: 10_000, seconds: 700, seed },
    ]),
  )(
    "take 3,000 items in $seconds s beside $chanceShare of 429s by chance, answers of $latencyMs ms, seed $seed",
    async ({ chanceShare, latencyMs, seconds, seed }) => {
      const provider = { perMinute: 600, chanceShare, latencyMs: [latencyMs, latencyMs], seed } as const;
      const run = new LiftedRun(3_000, 256, provider);
      await run.run(3_000, seconds * 1_000);
      expect(run.answered).toBe(3_000);
      expect(run.lastMs).toBeLessThan(seconds * 1_000);
      expect(run.requests).toBeLessThan((3_000 + 250) / (1 - chanceShare) + 250);
    },
  );
});
