/**
 * What is to be expected of a group in a lane: how much of it is done when realtime has to take over, what that costs, when it ends
 * and how likely that is in time. Pure.
 *
 *   done    = F(switch)                              batches: of their latency
 *             min(1, (switch - start - p90) / drain) lanes that answer one by one
 *   cost    = done x price + (1 - done) x realtime   where finished results can be fetched at the switch
 *           = done x price + (1 - done) x (realtime + HALF x price)   where they cannot, or time does not suffice: half is finished and paid twice
 *   on time = done + (1 - done) x realtime's chance
 */
import type { DueLoad } from "../due_work.ts";
import { drainMs } from "../feasibility.ts";
import type { LatencyCurve } from "./latency_curve.ts";
import type { PlanGroup, PlanOffer } from "./plan_input.ts";

/** A time, with the band in which 80 % of cases are. */
export interface PlanFinish {
  readonly expectedMs: number;
  readonly earlyMs: number;
  readonly lateMs: number;
}

/** USD: what is expected, and what is not exceeded in 90 % of cases. */
export interface PlanCost {
  readonly expectedUsd: number;
  readonly usd90: number;
}

/** All of a group in one lane. */
export interface LaneOutcome {
  readonly offer: PlanOffer;
  /** When realtime takes over what is not done; Infinity where nothing does. */
  readonly switchMs: number;
  /** What is expected to be done in the lane itself by then. */
  readonly doneShare: number;
  /** The chance that an item is on time. */
  readonly onTime: number;
  readonly cost: PlanCost;
  readonly finish: PlanFinish;
}

/** Of a batch that has not ended, and shows nothing: what part is finished. */
const HALF = 0.5;
const RETRY_AFTER_MS = 5_000;

/** What a group costs at an offer's price. */
export function costAt(offer: PlanOffer, group: PlanGroup): PlanCost {
  const usdOf = (outputTokens: number): number =>
    offer.priceFactor * (group.inputTokens * offer.usdPerInputToken + outputTokens * offer.usdPerOutputToken);
  return { expectedUsd: usdOf(group.outputTokens), usd90: usdOf(group.outputTokens90 ?? group.outputTokens) };
}

/** Of a part of what it is for. */
export function costOf({ expectedUsd, usd90 }: PlanCost, share: number): PlanCost {
  return { expectedUsd: expectedUsd * share, usd90: usd90 * share };
}

/** The chance that one answer arrives within `ms`, if it may be asked for twice. */
function answeredShare(latency: LatencyCurve, ms: number): number {
  if (ms === Number.POSITIVE_INFINITY) return 1;
  const half = latency.doneShare((ms - RETRY_AFTER_MS) / 2);
  return Math.max(latency.doneShare(ms), 1 - (1 - half) ** 2);
}

/** All of a group in realtime, where its last request is sent at `sentMs`. */
export function realtimeOutcome(offer: PlanOffer, group: PlanGroup, sentMs: number): LaneOutcome {
  const { latency } = offer;
  return {
    offer,
    switchMs: Number.POSITIVE_INFINITY,
    doneShare: 1,
    onTime: answeredShare(latency, group.deadlineMs - sentMs),
    cost: costAt(offer, group),
    finish: {
      expectedMs: sentMs + latency.quantileMs(0.5),
      earlyMs: sentMs + latency.quantileMs(0.1),
      lateMs: sentMs + latency.quantileMs(0.9),
    },
  };
}

/** All of a group in realtime that can do a part of it by its deadline, and the rest after that until `allMs`. */
export function overloadedOutcome(
  inTime: LaneOutcome,
  group: PlanGroup,
  part: number,
  allMs: number,
): LaneOutcome {
  const { finish } = realtimeOutcome(inTime.offer, group, allMs);
  return { ...inTime, onTime: part * inTime.onTime, finish };
}

/** All of a group in a lane from which realtime takes over a part of it, and nothing the rest. */
export function partlyRescued(rescued: LaneOutcome, alone: LaneOutcome, part: number): LaneOutcome {
  const mean = (one: number, other: number): number => part * one + (1 - part) * other;
  const { cost, finish } = rescued;
  return {
    ...(part > 0 ? rescued : alone),
    onTime: mean(rescued.onTime, alone.onTime),
    cost: {
      expectedUsd: mean(cost.expectedUsd, alone.cost.expectedUsd),
      usd90: mean(cost.usd90, alone.cost.usd90),
    },
    finish: {
      expectedMs: Math.max(part > 0 ? finish.expectedMs : 0, alone.finish.expectedMs),
      earlyMs: Math.max(part > 0 ? finish.earlyMs : 0, alone.finish.earlyMs),
      lateMs: Math.max(part > 0 ? finish.lateMs : 0, alone.finish.lateMs),
    },
  };
}

/** When a lane's work may have to be done in realtime, and what is before it. */
export interface RescueTimes {
  readonly nowMs: number;
  readonly switchMs: number;
  /** When realtime would be done with it, but for the last answer. */
  readonly rescuedMs: number;
  /** Work in all that is due by the group's deadline, the group included. */
  readonly due: DueLoad;
  /** Undefined where nothing is done in realtime: then the lane has until the deadline. */
  readonly realtime: PlanOffer | undefined;
  /** Whether all of a batch is then sent, what it has finished included: it was not cancelled, or shows nothing. */
  readonly isBlind: boolean;
  /** The part that the lane is expected to have done itself; above what it has done by `switchMs` where it is left piece by piece. */
  readonly doneShare: number;
}

/** All of a group in a cheaper lane. */
export function laneOutcome(offer: PlanOffer, group: PlanGroup, times: RescueTimes): LaneOutcome {
  const { realtime, switchMs, doneShare } = times;
  const own = costAt(offer, group);
  const rest = realtime === undefined ? 0 : costAt(realtime, group).usd90;
  const rescuedChance =
    realtime === undefined ? 0 : answeredShare(realtime.latency, group.deadlineMs - times.rescuedMs);
  return {
    offer,
    switchMs,
    doneShare,
    onTime: doneShare + (1 - doneShare) * rescuedChance,
    cost: {
      expectedUsd: costIn(offer, group, times),
      usd90: doneShare >= 0.9 ? own.usd90 : Math.max(own.usd90, rest + twiceShare(offer, times) * own.usd90),
    },
    finish: {
      expectedMs: finishMs(offer, 0.5, times),
      earlyMs: finishMs(offer, 0.1, times),
      lateMs: finishMs(offer, 0.9, times),
    },
  };
}

/** USD that are expected for all of a group in a cheaper lane. */
export function costIn(offer: PlanOffer, group: PlanGroup, times: RescueTimes): number {
  const { realtime, doneShare } = times;
  const own = costAt(offer, group).expectedUsd;
  const rest = realtime === undefined ? 0 : costAt(realtime, group).expectedUsd;
  return doneShare * own + (1 - doneShare) * (rest + twiceShare(offer, times) * own);
}

/** Of what is not done in the lane: what part of its price is paid nevertheless. */
function twiceShare({ batch }: PlanOffer, { realtime, isBlind }: RescueTimes): number {
  return realtime !== undefined && batch !== undefined && isBlind ? HALF : 0;
}

/** When a lane's work begins to be done. */
export function firstDoneMs(offer: PlanOffer, nowMs: number): number {
  if (offer.kind === "offpeak") return Math.max(nowMs, offer.hours?.fromMs ?? nowMs);
  return nowMs + (offer.batch?.collectMs ?? offer.latency.quantileMs(0.9));
}

/** From when on a lane can have done something that is worth the wait: falling, with the chance that it has. */
export function firstDoneTimes(offer: PlanOffer, nowMs: number): readonly number[] {
  const firstMs = firstDoneMs(offer, nowMs);
  if (offer.batch === undefined) return [firstMs];
  const [unlikely, even, likely] = [0.1, 0.5, 0.9].map(
    (share) => firstMs + offer.latency.quantileMs(share),
  ) as [number, number, number];
  if (offer.batch.results === "ended") return [likely, even, unlikely];
  const leavingMs = offer.batch.cancelMs + offer.batch.collectMs;
  return [likely + leavingMs, even + leavingMs, likely, even, unlikely].toSorted((one, other) => other - one);
}

/** What a lane has done by `switchMs`. */
export function doneIn(
  offer: PlanOffer,
  switchMs: number,
  { nowMs, rescuedMs, due }: Omit<RescueTimes, "doneShare">,
): number {
  if (offer.batch !== undefined) return offer.latency.doneShare(switchMs - offer.batch.collectMs - nowMs);
  const beginMs = firstDoneMs(offer, nowMs);
  // At cheap hours the lane is realtime itself: nothing takes over, but the price.
  const atMs = offer.kind === "offpeak" ? rescuedMs : switchMs;
  const endMs = Math.min(atMs, offer.hours?.untilMs ?? Number.POSITIVE_INFINITY);
  const needMs = drainMs(due, offer.capacity);
  if (endMs <= beginMs) return 0;
  return needMs === 0 ? 1 : Math.min(1, (endMs - beginMs) / needMs);
}

/** When the group is done in so many of all cases. */
function finishMs(offer: PlanOffer, share: number, times: RescueTimes): number {
  const { nowMs, switchMs, due, realtime } = times;
  const alone =
    offer.batch === undefined
      ? firstDoneMs(offer, nowMs) + drainMs(due, offer.capacity)
      : nowMs + offer.latency.quantileMs(share) + offer.batch.collectMs;
  if (alone <= switchMs || realtime === undefined) return alone;
  return times.rescuedMs + realtime.latency.quantileMs(share);
}
