/** The row of prompt caches: 50 workloads on a model of the caches. */
import { type PrefixTrial, runTrial } from "../engine/prefixes/prefix_world.ts";
import { eachSeed, percentOf, quantileOf, type Row, seedsOf } from "./row.ts";

/** Of the tokens that could have been read. */
const SHARE_MIN = 0.97;

export const PREFIXES: Row = {
  name: "prefixes: workloads on a cache that models length, blocks, TTL, batch and realtime",
  passesAt: "cached share within 3 % of the oracle's; never dearer than without",
  trials: 50,
  weight: 11,
  async run(terms) {
    const trials = await eachSeed(terms, runTrial);
    const shares = trials.filter(({ oracleTokens }) => oracleTokens > 0).map(shareOf);
    const costs = trials.map(({ result, without }) => result.costTokens / without.costTokens);
    const batched = trials.filter(({ result }) => result.batched > 0).length;
    const hours = trials.filter(({ result }) => result.hourTokens > 0).length;
    return {
      faults: trials.flatMap(faultsOfTrial),
      figures: `cached share of the oracle's: least ${percentOf(Math.min(...shares))}, median ${percentOf(quantileOf(shares, 0.5))}; input cost of what it was: median ${percentOf(quantileOf(costs, 0.5))}, most ${percentOf(Math.max(...costs))}; ${batched} in batches, ${hours} with writes for an hour`,
      seeds: seedsOf(trials),
    };
  },
};

function shareOf({ result, oracleTokens }: PrefixTrial): number {
  return result.cachedTokens / oracleTokens;
}

/** What is wrong with one workload. */
function faultsOfTrial(trial: PrefixTrial): readonly string[] {
  const { seed, workload, result, without, oracleTokens } = trial;
  const claims: Readonly<Record<string, boolean>> = {
    [`${result.completed} of ${workload.items.length} items completed`]:
      result.completed < workload.items.length,
    [`cached share ${percentOf(shareOf(trial))} of the oracle's`]:
      result.cachedTokens < SHARE_MIN * oracleTokens,
    [`input costs ${percentOf(result.costTokens / without.costTokens)} of what it did without`]:
      result.costTokens > without.costTokens,
    [`billed ${result.billedUsd} USD, booked ${result.bookedUsd}`]:
      Math.abs(result.billedUsd - result.bookedUsd) > 1e-9 * workload.items.length,
  };
  return Object.entries(claims).flatMap(([text, isFault]) => (isFault ? [`seed ${seed}: ${text}`] : []));
}
