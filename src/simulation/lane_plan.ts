/**
 * What a simulation knows of a lane before it begins: its items, how long answers take, and what it has for less.
 */
import type { LaneLimits } from "../limits/limits.ts";
import type { LatencyPrior } from "../queue/lane_priors.ts";
import type { TierOffer } from "../queue/offers.ts";
import type { LatencyTable } from "./latency_table.ts";

/** A lane: the models of a provider that share limits. */
export interface SimulatedLanePlan {
  readonly provider: string;
  readonly family: string;
  /** Rows of its items, in the order of the file. */
  readonly rows: Int32Array;
  /** Makes its limits, as they are at the start of a run. */
  readonly limits: (nowMs: number, random: () => number, shared: LaneLimits) => LaneLimits;
  /** Latencies in realtime, by the number of the model; undefined: as long as its output asks for. */
  readonly realtime: ReadonlyMap<number, LatencyTable | undefined>;
  /** Whether two requests are tried first, as with a new key. */
  readonly isTried: boolean;
  readonly offer: OfferPlan | undefined;
  readonly batch: BatchPlan | undefined;
}

/** A cheaper tier. */
export interface OfferPlan {
  readonly offer: TierOffer;
  readonly latency: LatencyTable;
  /** Share of requests that are refused for want of capacity. */
  readonly refusedShare: number;
}

/** Batches. */
export interface BatchPlan {
  /** Whether all models of the lane cost nothing. */
  readonly isFree: boolean;
  /** Share of the list price. */
  readonly priceFactor: number;
  readonly prior: LatencyPrior;
  /** Of whole batches; Infinity for those that do not end. */
  readonly latency: LatencyTable;
  readonly pollMs: { readonly min: number; readonly max: number };
  readonly itemsMax: number;
  readonly bytesMax: number;
  /** Input tokens of all open batches of a model. */
  readonly enqueuedTokensMax: number;
  /** Whether what was finished before a cancel can be fetched. */
  readonly keepsOnCancel: boolean;
}
