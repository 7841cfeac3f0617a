/**
 * Quotes of 50 workloads after a pilot of 50 items each, against what the rest then took. At least: half of the bills within
 * 10 %, 85 of 100 inside of the band, and 80 of 100 times within 20 %.
 */
import { describe, expect, it } from "vitest";
import type { Quote } from "../../src/price/quote.ts";
import { drawWorkload, type Workload } from "./workloads.ts";
import { INPUT, OUTPUT, World } from "./world.ts";

const WORKLOADS = 50;

interface Compared {
  /** Of the quote, relative to what was billed. */
  readonly moneyError: number;
  readonly isInBand: boolean;
  readonly timeError: number;
}

async function compared({ config, answer, lines }: Workload): Promise<Compared> {
  const world = new World({ config, answer });
  world.disk.put(INPUT, lines.join(""));
  const engine = await world.engine();
  let rest: Quote | undefined;
  let startMs = 0;
  let billedBefore = 0;
  const run = engine.run(INPUT, {
    out: OUTPUT,
    pilot: 50,
    onPilot: (quote) => {
      rest = quote;
      startMs = world.clock.nowMs();
      billedBefore = run.progress().billedUsd;
      return true;
    },
  });
  const { cost, counts } = await world.settle(run.finished);
  const seconds = (world.clock.nowMs() - startMs) / 1_000;
  await world.settle(engine.close());
  expect(counts.completed).toBe(lines.length);
  if (rest === undefined) throw new Error("it was not quoted");
  const billed = cost.billed_usd - billedBefore;
  return {
    moneyError: rest.billed_usd / billed - 1,
    isInBand: rest.billed_usd_low <= billed && billed <= rest.billed_usd_high,
    timeError: rest.time.seconds / seconds - 1,
  };
}

const results: Compared[] = [];

describe("quotes after a pilot", () => {
  for (let seed = 1; seed <= WORKLOADS; seed += 1) {
    const workload = drawWorkload(seed);
    it(`compare with the results: ${seed}: ${workload.name}`, { timeout: 120_000 }, async () => {
      const result = await compared(workload);
      results.push(result);
      expect(result.moneyError).toBeGreaterThan(-0.6);
      expect(result.moneyError).toBeLessThan(0.6);
    });
  }

  it("are right about money and time as often as promised", () => {
    const errors = results.map(({ moneyError }) => Math.abs(moneyError)).sort((a, b) => a - b);
    const shareOf = (isRight: (result: Compared) => boolean): number =>
      results.filter(isRight).length / results.length;
    expect(results).toHaveLength(WORKLOADS);
    expect(errors[Math.floor(WORKLOADS / 2)]).toBeLessThanOrEqual(0.1);
    expect(shareOf(({ isInBand }) => isInBand)).toBeGreaterThanOrEqual(0.85);
    expect(shareOf(({ timeError }) => Math.abs(timeError) <= 0.2)).toBeGreaterThanOrEqual(0.8);
  });
});
