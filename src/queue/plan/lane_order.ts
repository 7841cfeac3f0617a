/**
 * Which of two lanes a policy prefers. Prices that differ by less than a thousandth are equal, and then the earlier expected finish wins.
 */
import type { LanePolicy } from "../lane_choice.ts";
import type { LaneOutcome } from "./lane_outcome.ts";

const EQUAL_SHARE = 0.001;

/** Below 0 where `one` is preferred. */
export function compareOutcomes(one: LaneOutcome, other: LaneOutcome, policy: LanePolicy): number {
  const sooner = sign(one.finish.expectedMs, other.finish.expectedMs);
  const [usd, otherUsd] = [one.cost.expectedUsd, other.cost.expectedUsd];
  const cheaper = Math.abs(usd - otherUsd) <= EQUAL_SHARE * Math.max(usd, otherUsd) ? 0 : sign(usd, otherUsd);
  const [first, second] = policy === "fastest" ? [sooner, cheaper] : [cheaper, sooner];
  return first || second || sign(one.offer.name, other.offer.name);
}

/** Whether a lane is preferred to realtime. */
export function isWorthTheWait(lane: LaneOutcome, realtime: LaneOutcome, policy: LanePolicy): boolean {
  return lane.doneShare > 0 && compareOutcomes(lane, realtime, policy) < 0;
}

/** Infinity equals itself. */
function sign(left: number | string, right: number | string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}
