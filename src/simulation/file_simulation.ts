/**
 * What a file would take, by simulations of it in virtual time. The shape that `perigee simulate --json` prints.
 *
 * One simulation has one seed. Several show what chance decides: half of the figures, and between which they are. As many are made as
 * fit into `REQUESTS_MAX` requests, one at least.
 */
import { roundedUsd } from "../price/cost.ts";
import { countsOf } from "./file_shape.ts";
import { replay, type SimulatedWork } from "./replay.ts";
import type { LaneTally, SimulationTally } from "./tally.ts";

/** Of all simulations together: 3 s. */
const REQUESTS_MAX = 1_500_000;
const SEEDS_USUAL = 5;

/** A figure over all simulations. */
export interface SimulatedRange {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

/** Means over all simulations. */
export interface SimulatedLaneShare {
  readonly provider: string;
  readonly lane: "realtime" | "flex" | "slow" | "batch";
  readonly items: number;
  /** Of all items of the file, 0 to 1. */
  readonly share: number;
  readonly list_usd: number;
  readonly billed_usd: number;
}

/** The items of one model. */
export interface SimulatedModel {
  readonly model: string;
  readonly items: number;
  /** Until its last answer. */
  readonly seconds: SimulatedRange;
  /** Share of simulations in which items missed the deadline, 0 to 1. */
  readonly at_risk: number;
  readonly missed_items: SimulatedRange;
  /** Where its answers' times are from. */
  readonly latency: "given" | "learnt" | "assumed";
}

/** The result. */
export interface FileSimulation {
  readonly object: "simulation";
  readonly items: number;
  readonly rejected_lines: number;
  readonly sampled_share: number;
  /** Of tokens and money, relative. */
  readonly sampling_error: number;
  readonly sla_minutes: number | null;
  readonly seeds: readonly number[];
  /** Until the last item is answered, or the deadline. */
  readonly seconds: SimulatedRange;
  readonly list_usd: number;
  readonly billed_usd: SimulatedRange;
  readonly requests: number;
  readonly lanes: readonly SimulatedLaneShare[];
  /** Share of simulations in which items missed the deadline. */
  readonly at_risk: number;
  readonly missed_items: SimulatedRange;
  /** Not sent because `--max-cost` was reached. */
  readonly left_items: SimulatedRange;
  readonly unpriced_models: readonly string[];
  readonly models: readonly SimulatedModel[];
}

export interface FileSimulationTerms {
  readonly slaMinutes: number | undefined;
  readonly seed: number;
  /** How many simulations; undefined: as many as fit, at most 5. */
  readonly seeds?: number | undefined;
  readonly latencies: readonly SimulatedModel["latency"][];
  readonly unpricedModels: readonly string[];
}

/** Simulates the work. */
export function simulateWork(work: SimulatedWork, terms: FileSimulationTerms): FileSimulation {
  const { shape } = work;
  const tallies: SimulationTally[] = [];
  const wanted = terms.seeds ?? SEEDS_USUAL;
  let requests = 0;
  do {
    const tally = replay(work, terms.seed + tallies.length);
    tallies.push(tally);
    requests += tally.requests;
  } while (
    tallies.length < wanted &&
    (terms.seeds !== undefined || requests * (1 + 1 / tallies.length) <= REQUESTS_MAX)
  );
  const missedOf = (tally: SimulationTally): number => sum(tally.models.map(({ missed }) => missed));
  return {
    object: "simulation",
    items: shape.items,
    rejected_lines: shape.rejectedLines,
    sampled_share: rounded(shape.sampledShare),
    sampling_error: rounded(shape.samplingError),
    sla_minutes: terms.slaMinutes ?? null,
    seeds: tallies.map((_, index) => terms.seed + index),
    seconds: secondsOf(tallies, (tally) => Math.max(0, ...tally.models.map(({ endMs }) => endMs))),
    list_usd: roundedUsd(listUsdOf(tallies)),
    billed_usd: rangeOf(tallies, ({ billedUsd }) => billedUsd, roundedUsd),
    requests: Math.round(requests / tallies.length),
    lanes: lanesOf(tallies, shape.items),
    at_risk: rounded(tallies.filter((tally) => missedOf(tally) > 0).length / tallies.length),
    missed_items: rangeOf(tallies, missedOf, Math.round),
    left_items: rangeOf(tallies, (tally) => sum(tally.models.map(({ left }) => left)), Math.round),
    unpriced_models: terms.unpricedModels,
    models: modelsOf(work, tallies, terms),
  };
}

/** Of the answered items. */
function listUsdOf(tallies: readonly SimulationTally[]): number {
  return (
    sum(tallies.flatMap(({ lanes }) => [...lanes.values()].map(({ listUsd }) => listUsd))) / tallies.length
  );
}

function modelsOf(
  { shape }: SimulatedWork,
  tallies: readonly SimulationTally[],
  { latencies }: FileSimulationTerms,
): SimulatedModel[] {
  const counts = countsOf(shape.modelOf, shape.items, shape.models.length);
  return shape.models.map((model, index) => {
    const missed = (tally: SimulationTally): number => tally.models[index]?.missed ?? 0;
    return {
      model,
      items: counts[index] as number,
      seconds: secondsOf(tallies, (tally) => tally.models[index]?.endMs ?? 0),
      at_risk: rounded(tallies.filter((tally) => missed(tally) > 0).length / tallies.length),
      missed_items: rangeOf(tallies, missed, Math.round),
      latency: latencies[index] ?? "assumed",
    };
  });
}

function lanesOf(tallies: readonly SimulationTally[], items: number): SimulatedLaneShare[] {
  const names = new Set(tallies.flatMap(({ lanes }) => [...lanes.keys()]));
  return [...names].sort().flatMap((name) => {
    const same = tallies.flatMap(({ lanes }) => lanes.get(name) ?? []);
    const [first] = same;
    if (first === undefined) return [];
    const mean = (of: (lane: LaneTally) => number): number => sum(same.map(of)) / tallies.length;
    const count = mean((lane) => lane.items);
    return [
      {
        provider: first.provider,
        lane: first.kind,
        items: Math.round(count),
        share: rounded(count / Math.max(1, items)),
        list_usd: roundedUsd(mean(({ listUsd }) => listUsd)),
        billed_usd: roundedUsd(mean(({ billedUsd }) => billedUsd)),
      },
    ];
  });
}

function secondsOf(
  tallies: readonly SimulationTally[],
  msOf: (tally: SimulationTally) => number,
): SimulatedRange {
  return rangeOf(
    tallies,
    (tally) => msOf(tally) / 1_000,
    (seconds) => Math.round(seconds * 10) / 10,
  );
}

function rangeOf(
  tallies: readonly SimulationTally[],
  of: (tally: SimulationTally) => number,
  shown: (value: number) => number,
): SimulatedRange {
  const values = tallies.map(of).sort((left, right) => left - right);
  const median = values[Math.floor((values.length - 1) / 2)] ?? 0;
  return { median: shown(median), low: shown(values[0] ?? 0), high: shown(values.at(-1) ?? 0) };
}

function rounded(share: number): number {
  return Math.round(share * 10_000) / 10_000;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
