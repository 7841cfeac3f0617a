/**
 * A lane at one moment, for people and metrics.
 */

import type { LimitsSnapshot } from "../../limits/limits.ts";
import type { Oversized } from "../../limits/limits_snapshot.ts";
import type { QuotaUse } from "../../limits/quota.ts";
import type { QuotasUse } from "../../limits/quotas.ts";
import type { LaneKind } from "../../queue/lanes.ts";
import type { OfferStatus } from "../items/taken_offer.ts";
import type { Lane } from "./lane.ts";
import type { Lanes } from "./lanes.ts";

/** One limit in units a minute, configured or learnt, of the lane or of its whole provider: whichever is used more. */
export interface LimitStatus {
  /** In the last minute. */
  readonly used: number;
  readonly limit: number;
  /** Of the limit, 0 to 1 and above it while there is debt. */
  readonly share: number;
}

/** Limits of requests and tokens; absent without a limit. */
export interface LimitStatuses {
  readonly requests?: LimitStatus;
  readonly tokens?: LimitStatus;
  readonly inputTokens?: LimitStatus;
  readonly outputTokens?: LimitStatus;
}

/** What a lane shares with the other lanes of its provider, and what is only its own. */
export interface SharedStatus {
  readonly limits: LimitStatuses;
  readonly inFlight: number;
  readonly inFlightMax: number;
  readonly own: LimitStatuses;
}

/** The state of a lane. */
export interface LaneStatus extends LimitStatuses {
  readonly provider: string;
  /** Its kind. */
  readonly tier: LaneKind;
  readonly family: string;
  /** `paused`: its account has stopped it, `pauseReason` says why (`quota`, `authentication`). */
  readonly state: LimitsSnapshot["state"];
  readonly pauseReason?: string;
  /** Until a cool-down is over; 0 without one. */
  readonly cooldownMs: number;
  /** Absent where the provider has no limits for all its lanes together. */
  readonly shared?: SharedStatus;
  readonly inFlight: number;
  /** Requests that may be in flight now; at least `inFlight`, since a maximum that falls leaves those that are. */
  readonly inFlightMax: number;
  /** An item that is larger than a limit on tokens waits for an empty minute, to be sent by itself. */
  readonly oversized?: Oversized;
  /** Items that were read and not sent. */
  readonly waiting: number;
  /** Projects of which something waits. */
  readonly projects: number;
  /** Its cheaper tier; absent where it has none, or may not use it. */
  readonly cheaper?: OfferStatus;
  /** Moving mean of what an answer takes; absent before the first. */
  readonly answerMs?: number;
}

/** Of all lanes, in the order in which they were opened. */
export function laneStatuses(
  lanes: Pick<Lanes, "all" | "sharesLimits">,
  nowMs: number,
): readonly LaneStatus[] {
  return Array.from(lanes.all(), (lane) => laneStatus(lane, nowMs, lanes.sharesLimits(lane.terms.provider)));
}

/** `isShared`: the provider has limits for all its lanes together. */
function laneStatus(lane: Lane, nowMs: number, isShared: boolean): LaneStatus {
  const { provider, kind, family } = lane.terms;
  const limits = lane.limits.snapshot(nowMs);
  const { shared, own } = limits;
  return {
    provider,
    tier: kind,
    family,
    state: limits.state,
    ...(limits.pauseReason === undefined ? {} : { pauseReason: limits.pauseReason }),
    cooldownMs: limits.cooldownMs,
    ...statusesOf(limits),
    ...(shared === undefined || !isShared
      ? {}
      : {
          shared: {
            limits: statusesOf(shared),
            inFlight: shared.inFlight,
            inFlightMax: Math.max(shared.inFlight, shared.inFlightMax),
            own: statusesOf(own),
          },
        }),
    inFlight: limits.inFlight,
    inFlightMax: Math.max(limits.inFlight, limits.inFlightMax),
    ...(limits.oversized === undefined ? {} : { oversized: limits.oversized }),
    waiting: waitingItems(lane),
    projects: lane.waitingProjects,
    ...(lane.offers === undefined ? {} : { cheaper: lane.offers.status }),
    ...(lane.hasAnswered ? { answerMs: lane.itemMs } : {}),
  };
}

function statusesOf({ requests, tokens, inputTokens, outputTokens }: QuotasUse): LimitStatuses {
  return {
    ...(requests === undefined ? {} : { requests: statusOf(requests) }),
    ...(tokens === undefined ? {} : { tokens: statusOf(tokens) }),
    ...(inputTokens === undefined ? {} : { inputTokens: statusOf(inputTokens) }),
    ...(outputTokens === undefined ? {} : { outputTokens: statusOf(outputTokens) }),
  };
}

function waitingItems(lane: Lane): number {
  let waiting = 0;
  for (const { items } of lane.waiting()) waiting += items;
  return waiting;
}

function statusOf({ used, limit }: QuotaUse): LimitStatus {
  return { used, limit, share: used / limit };
}
