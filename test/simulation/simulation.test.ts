/**
 * Seeds through the whole engine: those that once failed, and forty more from a start that is another one every day.
 *
 * Many of them, on all cores: npm run simulate -- --seeds 10000. A single one: npm run simulate -- --seeds 1 --from 17 --trace.
 */
import { describe, expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { ALL_DRAWN_FROM, PairTable } from "./features.ts";
import { FAILED_SEEDS } from "./seeds.ts";
import { simulate } from "./simulate.ts";

const DAY_MS = 86_400_000;
const COUNT = 40;
/** Of a group of seeds, so that a failure list stays short. */
const GROUP = 20;
const today = ALL_DRAWN_FROM + Math.floor(systemClock.wallMs() / DAY_MS) * 10_000;
const replay = (seed: number): string => `npm run simulate -- --seeds 1 --from ${seed} --trace`;

async function expectLawful(seeds: readonly number[], pairs?: PairTable): Promise<void> {
  for (const seed of seeds) {
    const { violations, met } = await simulate(seed);
    pairs?.add(met);
    expect(violations, `replay it: ${replay(seed)}`).toEqual([]);
  }
}

describe("a simulated world keeps every law through faults, crashes and restarts", () => {
  for (let from = 0; from < FAILED_SEEDS.length; from += GROUP) {
    const seeds = FAILED_SEEDS.slice(from, from + GROUP);
    it(`for the seeds that once broke one, ${seeds[0]} to ${seeds.at(-1)}`, {
      timeout: 240_000,
    }, async () => {
      await expectLawful(seeds);
    });
  }

  const pairs = new PairTable();
  for (let from = today; from < today + COUNT; from += GROUP) {
    it(`for today's seeds ${from} to ${from + GROUP - 1}`, { timeout: 240_000 }, async () => {
      await expectLawful(
        Array.from({ length: GROUP }, (_, index) => from + index),
        pairs,
      );
    });
  }

  it("in which most pairs of troubles meet", () => {
    process.stderr.write(`simulated seeds ${today} to ${today + COUNT - 1}\n`);
    expect(pairs.missing.length, pairs.toString()).toBeLessThan(pairs.pairs / 2);
  });
});

describe("a simulation", () => {
  it("is the same every time: equal seeds give equal traces, as the first and after others", async () => {
    for (const seed of [3, 1, 2, today]) {
      const [first, second] = [await simulate(seed), await simulate(seed)];
      expect(second.traceHash, `seed ${seed}`).toBe(first.traceHash);
    }
  });
});
