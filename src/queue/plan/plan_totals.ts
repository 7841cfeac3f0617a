/**
 * Sums over groups: what all of a plan costs, how likely it is in time, and when it ends.
 */
import type { GroupPlan } from "./group_plan.ts";
import type { PlanCost, PlanFinish } from "./lane_outcome.ts";

/** Of groups, or of all. */
export interface PlanTotals {
  readonly cost: PlanCost;
  /** Everything in realtime, where there is realtime. */
  readonly realtimeUsd: number;
  /** The least of all groups. */
  readonly onTime: number;
  /** Of the group that ends last. */
  readonly finish: PlanFinish;
  /** The first moment at which realtime may have to take over something; Infinity without one. */
  readonly nextSwitchMs: number;
}

/** The totals of groups. */
export function totalsOf(groups: Iterable<GroupPlan>): PlanTotals {
  let [expectedUsd, usd90, realtimeUsd, onTime] = [0, 0, 0, 1];
  let [expectedMs, earlyMs, lateMs] = [0, 0, 0];
  let nextSwitchMs = Number.POSITIVE_INFINITY;
  for (const { cost, onTime: chance, finish, lanes, shares } of groups) {
    expectedUsd += cost.expectedUsd;
    usd90 += cost.usd90;
    const [first] = lanes; // realtime, where there is one
    if (first?.offer.kind === "realtime") realtimeUsd += first.cost.expectedUsd;
    onTime = Math.min(onTime, chance);
    expectedMs = Math.max(expectedMs, finish.expectedMs);
    earlyMs = Math.max(earlyMs, finish.earlyMs);
    lateMs = Math.max(lateMs, finish.lateMs);
    for (const share of shares) nextSwitchMs = Math.min(nextSwitchMs, share.switchMs);
  }
  const finish = { expectedMs, earlyMs, lateMs };
  return { cost: { expectedUsd, usd90 }, realtimeUsd, onTime, finish, nextSwitchMs };
}

/** The totals of parts, joined. */
export function joinedTotals(parts: readonly PlanTotals[]): PlanTotals {
  let [expectedUsd, usd90, realtimeUsd, onTime] = [0, 0, 0, 1];
  let [expectedMs, earlyMs, lateMs] = [0, 0, 0];
  let nextSwitchMs = Number.POSITIVE_INFINITY;
  for (const part of parts) {
    expectedUsd += part.cost.expectedUsd;
    usd90 += part.cost.usd90;
    realtimeUsd += part.realtimeUsd;
    onTime = Math.min(onTime, part.onTime);
    expectedMs = Math.max(expectedMs, part.finish.expectedMs);
    earlyMs = Math.max(earlyMs, part.finish.earlyMs);
    lateMs = Math.max(lateMs, part.finish.lateMs);
    nextSwitchMs = Math.min(nextSwitchMs, part.nextSwitchMs);
  }
  const finish = { expectedMs, earlyMs, lateMs };
  return { cost: { expectedUsd, usd90 }, realtimeUsd, onTime, finish, nextSwitchMs };
}
