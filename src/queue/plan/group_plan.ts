/**
 * What a plan says of a group: its shares, with the reason of each, and what each lane would have been.
 */
import type { LaneOutcome, PlanCost, PlanFinish } from "./lane_outcome.ts";
import type { PlanGroup, PlanOffer } from "./plan_input.ts";

/** Why a share is where it is. */
export type PlanReason =
  | "no_deadline"
  | "cheapest"
  | "earliest_finish"
  | "no_cheaper_lane"
  | "deadline_too_near"
  | "realtime_reserved"
  | "beyond_realtime"
  | "no_lane"
  | "no_money";

/** A part of a group, in one lane. */
export interface PlanShare {
  /** Undefined: it waits, for the reason that `why` says. */
  readonly offer: PlanOffer | undefined;
  /** In (0, 1]; the shares of a group are 1 together. */
  readonly share: number;
  readonly startMs: number;
  /** When realtime takes over what is not done; Infinity where nothing does. */
  readonly switchMs: number;
  /** The part of the share that its lane is expected to have done by then. */
  readonly doneShare: number;
  /** The chance that an item of it is on time. */
  readonly onTime: number;
  /** Of the share. */
  readonly cost: PlanCost;
  readonly finish: PlanFinish;
  readonly why: PlanReason;
}

/** What becomes of a group. */
export interface GroupPlan {
  readonly group: PlanGroup;
  readonly shares: readonly PlanShare[];
  /** The chance that an item is on time. */
  readonly onTime: number;
  readonly cost: PlanCost;
  readonly finish: PlanFinish;
  /** All of the group in each lane of its model, and what that would be. */
  readonly lanes: readonly LaneOutcome[];
}
