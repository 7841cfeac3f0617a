/**
 * What a plan is made from: groups of like items, what is sold for each model, and what may be spent. Plain data.
 *
 * All times are milliseconds of one clock, which the caller chooses; all prices are USD. Models that share their limits are one
 * model here: the caller names their family.
 */
import type { LanePolicy, OfferKind } from "../lane_choice.ts";
import type { Capacity } from "../planner.ts";
import type { LatencyCurve } from "./latency_curve.ts";

/** Items that are alike for a plan. */
export interface PlanGroup {
  /** Unique within the input; stays the same from one plan to the next. */
  readonly id: string;
  readonly model: string;
  readonly project: string;
  /** Of the prefix that its items share. */
  readonly prefix?: string;
  /** Infinity without an sla. */
  readonly deadlineMs: number;
  /** A whole number above 0. */
  readonly items: number;
  /** Of all items together. */
  readonly inputTokens: number;
  /** Expected, of all items together. */
  readonly outputTokens: number;
  /** The 90th percentile of `outputTokens`; absent: the same. */
  readonly outputTokens90?: number;
}

/** When finished results of a batch can be fetched: as they finish, once it was cancelled or has ended, only if it ends by itself. */
export type BatchResults = "running" | "cancelled" | "ended";

/** What an account may have with a batch lane, and what leaving it takes. */
export interface BatchTerms {
  /** Input tokens that may still be enqueued; absent: unlimited. */
  readonly enqueuedTokensLeft?: number;
  /** Batches that may still be opened; absent: unlimited. */
  readonly openBatchesLeft?: number;
  /** Of one batch. */
  readonly itemsMax: number;
  /** Fewer items in all are not sent as a batch; 1. */
  readonly minItems?: number;
  /** Milliseconds from asking for a cancel until the batch has ended: the 99th percentile. */
  readonly cancelMs: number;
  /** Milliseconds to fetch the results. */
  readonly collectMs: number;
  readonly results: BatchResults;
}

/** Hours in which a lane costs less. */
export interface CheapHours {
  readonly fromMs: number;
  readonly untilMs: number;
}

/** A lane that sells a model. */
export interface PlanOffer {
  /** `<provider>:<kind>`; unique for its model. */
  readonly name: string;
  readonly kind: OfferKind;
  /** Of the list price, above 0; at cheap hours, theirs. */
  readonly priceFactor: number;
  /** List prices. */
  readonly usdPerInputToken: number;
  readonly usdPerOutputToken: number;
  /** Of one answer, or of a batch from its creation to its end. */
  readonly latency: LatencyCurve;
  /** What it can do beside what is sent already. */
  readonly capacity: Capacity;
  /** `batch` and `deferred` only. */
  readonly batch?: BatchTerms;
  /** `offpeak` only: the next, or those that are now. */
  readonly hours?: CheapHours;
}

/** One moment. */
export interface PlanInput {
  readonly nowMs: number;
  readonly groups: readonly PlanGroup[];
  /** What is sold, by model. */
  readonly offers: ReadonlyMap<string, readonly PlanOffer[]>;
  /** Absent: unlimited. */
  readonly moneyLeftUsd?: number;
  /**
   * `cheapest`, the default: the least expected cost that is on time. `balanced`: the same, but cheaper lanes have half of the time.
   * `fastest`: the earliest expected finish.
   */
  readonly policy?: LanePolicy;
  /** The least chance to be on time that is accepted, in (0, 1); 0.99. */
  readonly minOnTime?: number;
}
