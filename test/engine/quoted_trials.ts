/**
 * Quotes after a pilot of 50 items each, against what the rest then took. Used by tests and by the check of lanes.
 */
import type { Quote } from "../../src/price/quote.ts";
import type { Workload } from "./workloads.ts";
import { INPUT, OUTPUT, World } from "./world.ts";

/** A quote after a pilot of 50 items, against what the rest then took. */
export interface Compared {
  /** Of the quote, relative to what was billed. */
  readonly moneyError: number;
  readonly isInBand: boolean;
  readonly timeError: number;
  /** Width of the band over that of a quote by the output limits. */
  readonly bandShare: number;
}

/** Runs a workload with a pilot. Throws if an item has no answer. */
export async function compared({ config, answer, lines }: Workload): Promise<Compared> {
  const world = new World({ config, answer });
  world.disk.put(INPUT, lines.join(""));
  const engine = await world.engine();
  const ceiling = await world.settle(engine.quote(INPUT));
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
  if (counts.completed !== lines.length) throw new Error(`${counts.completed} of ${lines.length} answered`);
  if (rest === undefined) throw new Error("it was not quoted");
  const billed = cost.billed_usd - billedBefore;
  return {
    moneyError: rest.billed_usd / billed - 1,
    isInBand: rest.billed_usd_low <= billed && billed <= rest.billed_usd_high,
    timeError: rest.time.seconds / seconds - 1,
    bandShare: widthOf(rest) / widthOf(ceiling),
  };
}

function widthOf({ billed_usd_low, billed_usd_high }: Quote): number {
  return billed_usd_high - billed_usd_low;
}
