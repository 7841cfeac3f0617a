/** Rows of money: caps over all lanes, quotes, and receipts. */
import { ReceiptChecker } from "../../src/jsonl/receipt_check.ts";
import { createRandom } from "../../src/testing/random.ts";
import type { BatchFake } from "../batch_servers/fake.ts";
import { BatchWorld } from "../engine/batches/batch_world.ts";
import { WIRES, type WireCase } from "../engine/batches/wires.ts";
import { compared } from "../engine/quoted_trials.ts";
import { BULK, drawWorkload } from "../engine/workloads.ts";
import { eachSeed, faultsOf, percentOf, quantileOf, type Row, seedsOf } from "./row.ts";

const SLAS = [undefined, 10, 60, 240, 1_440] as const;
/** What one item costs at most, in realtime. */
const MOST_USD = 64 * 4e-6 + 40e-6;

/** What became of one run under a cap. */
interface CapTrial {
  readonly faults: readonly string[];
  /** Of the cap, where work remains; undefined where none does. */
  readonly usedShare: number | undefined;
}

/**
 * One run under a cap that does not suffice for its items, in realtime, flex or batches, beside lost answers, slow batches and
 * refusals. The first answers show whether the model keeps its output limits.
 */
async function capTrial(seed: number): Promise<CapTrial> {
  const random = createRandom(seed * 7_919);
  const wire = WIRES[Math.floor(random() * WIRES.length)] as WireCase;
  const sla = SLAS[Math.floor(random() * SLAS.length)];
  const items = 200 + Math.floor(random() * 100);
  const isFlexed = random() < 0.5;
  const [faultShare, stalledShare] = [0.02 * random(), random() < 0.3 ? random() : 0];
  let fake: BatchFake | undefined;
  const world = new BatchWorld(
    (nowMs) => {
      fake = wire.make({
        seed: Math.floor(random() * 1e9),
        ...{ nowMs, stalledShare },
        realtime: { flexShedShare: 0.4 * random() },
        faults: ({ kind }) => (kind === "realtime" && random() < faultShare ? "lost" : undefined),
      });
      return { [wire.origin]: fake };
    },
    { ...wire.config, ...(isFlexed ? { lanes: {} } : {}) },
  );
  world.input(items, wire.model);
  const maxCostUsd = items * MOST_USD * (0.2 + 0.15 * random()); // one item is at most 2.5 % of it
  const { counts, cost } = await world.run({ maxCostUsd, ...(sla === undefined ? {} : { sla }) });
  const charged = (fake as unknown as BatchFake).ledger.charges;
  const books = charged.reduce((sum, { nanoUsd }) => sum + nanoUsd, 0) / 1e9;
  const used = cost.billed_usd + cost.ambiguous_usd;
  const rounding = items / 1e9;
  const wrong = faultsOf({
    "billed and in doubt are at most the cap": used <= maxCostUsd + rounding,
    "the books are at most the cap": books <= maxCostUsd + rounding,
    "the books are between what is billed and what is in doubt":
      cost.billed_usd <= books + rounding && books <= used + rounding,
  });
  const isOpen = counts.submitted > 0;
  return {
    faults: wrong.map(
      (fault) =>
        `seed ${seed} (${wire.name}, sla ${sla ?? "none"}): ${fault}: cap ${maxCostUsd.toFixed(6)}, used ${used.toFixed(6)}, books ${books.toFixed(6)}`,
    ),
    usedShare: isOpen ? used / maxCostUsd : undefined,
  };
}

export const CAPS: Row = {
  name: "cap over all lanes, adversarial runs",
  passesAt: "billed + ambiguous <= cap; >= 97 % used while work remains",
  trials: 1_000,
  weight: 20,
  async run(terms) {
    const results = await eachSeed(terms, capTrial);
    const shares = results.map(({ usedShare }) => usedShare);
    const used = shares.filter((share) => share !== undefined);
    const low = shares.findIndex((share) => share !== undefined && share < 0.97) + 1;
    return {
      faults: [
        ...results.flatMap(({ faults }) => faults),
        ...faultsOf({ [`97 % is used while work remains (first seed ${low})`]: low === 0 }),
      ],
      figures: `${results.length} runs, ${used.length} with work left: at least ${percentOf(Math.min(1, ...used))} used, half of them ${percentOf(quantileOf(used, 0.5))}`,
      seeds: seedsOf(results),
    };
  },
};

export const QUOTES: Row = {
  name: "quote: workloads from log-normal to heavy tail, after a pilot of 50 items",
  passesAt:
    "88 to 95 % in the 90 % band, band <= 1/3 of the ceiling's; median error <= 10 %; finish within 15 % in 80 %",
  trials: 200,
  weight: 20,
  async run(terms) {
    const results = await eachSeed(terms, (seed) => compared(drawWorkload(seed, BULK)));
    const part = (holds: (result: (typeof results)[number]) => boolean): number =>
      results.filter(holds).length / results.length;
    const inBand = part((result) => result.isInBand);
    const median = quantileOf(
      results.map(({ moneyError }) => Math.abs(moneyError)),
      0.5,
    );
    const inTime = part(({ timeError }) => Math.abs(timeError) <= 0.15);
    const width = quantileOf(
      results.map(({ bandShare }) => bandShare),
      0.95,
    );
    return {
      faults: faultsOf({
        "88 to 95 of 100 bills are in the 90 % band": inBand >= 0.88 && inBand <= 0.95,
        "19 of 20 bands are at most a third of the ceiling's": width <= 1 / 3,
        "the median error is at most 10 %": median <= 0.1,
        "80 of 100 times are within 15 %": inTime >= 0.8,
      }),
      figures: `${percentOf(inBand)} in the band, 19 of 20 bands at most ${percentOf(width)} of the ceiling's, median error ${percentOf(median)}, ${percentOf(inTime)} of times within 15 %`,
      seeds: seedsOf(results),
    };
  },
};

export const RECEIPTS: Row = {
  name: "receipts of runs in realtime and batches",
  passesAt: "sum exactly; 1,000 flipped bytes found",
  trials: 1_000,
  weight: 1,
  async run(terms) {
    const [wire] = WIRES as [WireCase, ...WireCase[]];
    const world = new BatchWorld((nowMs) => ({ [wire.origin]: wire.make({ seed: 1, nowMs }) }), wire.config);
    world.input(300, wire.model);
    const { cost } = await world.run({ sla: 1_440, receipts: "/receipts.jsonl" });
    const bytes = Buffer.from(world.disk.text("/receipts.jsonl") ?? "");
    const lines = bytes.toString().split("\n").slice(0, -2);
    const billed = lines.reduce((sum, line) => sum + (JSON.parse(line) as Billed).billed_nano_usd, 0);
    const isWhole = (changed: Buffer): boolean => {
      const checker = new ReceiptChecker();
      checker.add(changed);
      return checker.end().isWhole;
    };
    const random = createRandom(1);
    const missed = (
      await eachSeed(terms, () => {
        const changed = Buffer.from(bytes);
        const at = Math.floor(random() * bytes.length);
        changed[at] = (changed[at] as number) ^ (1 << Math.floor(random() * 8));
        return isWhole(changed);
      })
    ).map((isMissed, index) => (isMissed ? index + 1 : 0));
    const found = missed.filter((seed) => seed === 0).length;
    return {
      faults: faultsOf({
        "300 receipts are whole": lines.length === 300 && isWhole(bytes),
        "they sum to what is billed": Math.abs(billed - cost.billed_usd * 1e9) < 0.5,
        [`every flipped byte is found (missed: ${missed.filter((seed) => seed > 0).join(", ")})`]:
          found === missed.length,
      }),
      figures: `${lines.length} receipts, ${billed} nano-USD as billed; ${found} of ${missed.length} flipped bytes found`,
      seeds: "1",
    };
  },
};

interface Billed {
  readonly billed_nano_usd: number;
}
