/**
 * What a plan says of a group: its shares, with the reason of each, and what each lane would have been.
 */
import { costOf, firstDoneMs, type LaneOutcome, type PlanCost, type PlanFinish } from "./lane_outcome.ts";
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

/** A part of a group in a lane. */
export function shareIn(outcome: LaneOutcome, share: number, nowMs: number, why: PlanReason): PlanShare {
  const { offer, switchMs, doneShare, onTime, cost, finish } = outcome;
  const startMs = offer.kind === "offpeak" ? firstDoneMs(offer, nowMs) : nowMs;
  return { offer, share, startMs, switchMs, doneShare, onTime, cost: costOf(cost, share), finish, why };
}

/** The part of a group that stays in realtime; without one, it is never done. */
export function realtimeShare(
  realtime: LaneOutcome | undefined,
  share: number,
  nowMs: number,
  why: PlanReason,
): PlanShare {
  if (realtime !== undefined) return shareIn(realtime, share, nowMs, why);
  return unsentShare(share, nowMs, "no_lane");
}

/** A part that nothing sends. */
export function unsentShare(share: number, nowMs: number, why: PlanReason): PlanShare {
  const never = Number.POSITIVE_INFINITY;
  return {
    offer: undefined,
    share,
    startMs: nowMs,
    switchMs: never,
    doneShare: 0,
    onTime: 0,
    cost: { expectedUsd: 0, usd90: 0 },
    finish: { expectedMs: never, earlyMs: never, lateMs: never },
    why,
  };
}

/** What becomes of a group, from what becomes of its parts. */
export function joined(
  group: PlanGroup,
  shares: readonly PlanShare[],
  lanes: readonly LaneOutcome[],
): GroupPlan {
  let [onTime, expectedUsd, usd90] = [0, 0, 0];
  let [expectedMs, earlyMs, lateMs] = [0, 0, 0];
  for (const { share, onTime: chance, cost, finish } of shares) {
    onTime += share * chance;
    expectedUsd += cost.expectedUsd;
    usd90 += cost.usd90;
    expectedMs = Math.max(expectedMs, finish.expectedMs);
    earlyMs = Math.max(earlyMs, finish.earlyMs);
    lateMs = Math.max(lateMs, finish.lateMs);
  }
  return {
    group,
    shares,
    onTime,
    cost: { expectedUsd, usd90 },
    finish: { expectedMs, earlyMs, lateMs },
    lanes,
  };
}
