/** Rows of tiers and hours: flex that refuses a part, and a week of DeepSeek's prices. */
import { openaiAnswer } from "../../src/testing/index.ts";
import { createRandom } from "../../src/testing/random.ts";
import { ITEMS, shedTrial } from "../engine/shed_trials.ts";
import { INPUT, OUTPUT, World } from "../engine/world.ts";
import { eachSeed, faultsOf, percentOf, type Row, seedsOf } from "./row.ts";

export const SHED_FLEX: Row = {
  name: "flex with 0 to 60 % shed",
  passesAt: "no deadline missed; price <= 1.03 of the oracle's",
  trials: 24,
  weight: 3,
  async run(terms) {
    const results = await eachSeed(terms, async (seed) => {
      const random = createRandom(seed);
      const shed = 0.6 * random();
      const sla = [8, 20, 60][Math.floor(random() * 3)] as number;
      return { seed, sla, shed, ...(await shedTrial(sla, shed, seed)) };
    });
    // The oracle does not pay for what is needed to learn how much the tier refuses: 2 % of the list price.
    const dear = results.filter(({ share, best }) => share > best * 1.03 + 0.02);
    const late = results.filter(({ completed }) => completed < ITEMS);
    const worst = Math.max(...results.map(({ share, best }) => share / best));
    return {
      faults: faultsOf({
        [`nothing is late (seeds ${late.map(({ seed }) => seed).join(", ")})`]: late.length === 0,
        [`at most 1.03 of the oracle's price, and 0.02 of the list price (seeds ${dear.map(({ seed }) => seed).join(", ")})`]:
          dear.length === 0,
      }),
      figures: `${results.length} runs of ${ITEMS} items: ${late.length} with late items, the dearest ${worst.toFixed(3)} of the oracle's price`,
      seeds: seedsOf(results),
    };
  },
};

const MODEL = "deepseek:deepseek-v4-flash";
const HOUR_MS = 3_600_000;
/** A Monday. */
const WEEK_MS = Date.UTC(2026, 10, 23);
const RPM = 60;
/** Peak hours by UTC, Monday to Friday: twice the price. */
const PEAKS = [
  [1, 4],
  [6, 10],
] as const;

/** Minutes of cheap hours between two moments of the week. */
function cheapMinutes(fromMs: number, untilMs: number): number {
  let minutes = 0;
  for (let atMs = fromMs; atMs < untilMs; atMs += 60_000) {
    const at = new Date(atMs);
    const isWeekend = at.getUTCDay() === 0 || at.getUTCDay() === 6;
    const isPeak =
      !isWeekend && PEAKS.some(([from, to]) => at.getUTCHours() >= from && at.getUTCHours() < to);
    if (!isPeak) minutes += 1;
  }
  return minutes;
}

async function deepseekTrial(seed: number): Promise<{ readonly late: number; readonly ratio: number }> {
  const random = createRandom(seed);
  const wallMs = WEEK_MS + Math.floor(random() * 7 * 24) * HOUR_MS + Math.floor(random() * 60) * 60_000;
  const sla = 60 + Math.floor(random() * 600);
  const items = 100 + Math.floor(random() * Math.min(1_500, 0.8 * RPM * sla - 100));
  const world = new World({
    wallMs,
    latencyMs: 1_000,
    answer: (line) =>
      openaiAnswer(`answer ${line}`, { inputTokens: 1_000, outputTokens: 100 }, "deepseek-v4-flash"),
    config: {
      providers: { deepseek: { baseUrl: "http://deepseek.test/v1", key: "k" } },
      limits: { deepseek: { requestsPerMinute: RPM } },
    },
  });
  world.input(items, MODEL);
  const engine = await world.engine();
  const { counts, cost } = await world.settle(engine.run(INPUT, { out: OUTPUT, sla }).finished);
  await world.settle(engine.close());
  const keptMinutes = 1.25; // for an answer in realtime, of which nothing is known yet
  const untilMs = wallMs + (sla - keptMinutes) * 60_000;
  const cheap = Math.min(items, RPM * cheapMinutes(wallMs, untilMs));
  const low = 1_000 * 0.22e-6 + 100 * 0.66e-6;
  const oracleUsd = low * (cheap + 2 * (items - cheap));
  return { late: items - counts.completed, ratio: cost.billed_usd / oracleUsd };
}

export const DEEPSEEK_WEEK: Row = {
  name: "a DeepSeek week: runs that begin at any minute of it",
  passesAt: "no deadline missed; price <= 1.03 of the oracle's",
  trials: 60,
  weight: 5,
  async run(terms) {
    const results = await eachSeed(terms, deepseekTrial);
    const late = results.reduce((sum, result) => sum + result.late, 0);
    const mean = results.reduce((sum, { ratio }) => sum + ratio, 0) / results.length;
    const worst = Math.max(...results.map(({ ratio }) => ratio));
    return {
      faults: faultsOf({
        "nothing is late": late === 0,
        "together at most 1.03 of the oracle's price": mean <= 1.03,
        [`no run above 1.1 of it (seed ${results.findIndex(({ ratio }) => ratio === worst) + 1})`]:
          worst <= 1.1,
      }),
      figures: `${results.length} runs: ${late} late, ${percentOf(mean)} of the oracle's price, the dearest ${percentOf(worst)}`,
      seeds: seedsOf(results),
    };
  },
};
