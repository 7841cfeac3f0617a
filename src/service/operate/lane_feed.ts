/**
 * What the operator page shows of lanes and limits: limits that the lanes of a provider share are shown once, with the lanes that share
 * them.
 */
import type { LaneStatus, LimitStatuses } from "../../engine/lanes/lane_status.ts";

/** Members of a snapshot. `isSeen` says whether the page may show a lane; of those it may not, only the number. */
export function lanesBody(
  lanes: readonly LaneStatus[],
  isSeen: (lane: LaneStatus) => boolean,
): Record<string, unknown> {
  const seen = lanes.filter(isSeen);
  return { lanes: seen.map(laneBody), shared_limits: sharedBodies(lanes, seen) };
}

function laneBody(lane: LaneStatus): Record<string, unknown> {
  return {
    provider: lane.provider,
    tier: lane.tier,
    family: lane.family,
    state: lane.state,
    limits: limitBodies(lane.shared?.own ?? lane),
    in_flight: lane.inFlight,
    in_flight_max: lane.inFlightMax,
    waiting: lane.waiting,
    cooldown_ms: Math.ceil(lane.cooldownMs),
    answer_ms: lane.answerMs === undefined ? null : Math.round(lane.answerMs),
    oversized: lane.oversized === undefined ? null : oversizedBody(lane.oversized),
  };
}

/** One for each provider that has them and a lane that is seen. */
function sharedBodies(lanes: readonly LaneStatus[], seen: readonly LaneStatus[]): Record<string, unknown>[] {
  const providers = new Set(
    seen.filter(({ shared }) => shared !== undefined).map(({ provider }) => provider),
  );
  return [...providers].flatMap((provider) => {
    const shared = seen.find((lane) => lane.provider === provider)?.shared;
    if (shared === undefined) return [];
    const own = seen.filter((lane) => lane.provider === provider);
    const all = lanes.filter((lane) => lane.provider === provider);
    return [
      {
        provider,
        limits: limitBodies(shared.limits),
        in_flight: shared.inFlight,
        in_flight_max: shared.inFlightMax,
        lanes: own.map(({ tier, family }) => ({ tier, family })),
        other_lanes: all.length - own.length,
      },
    ];
  });
}

function limitBodies({
  requests,
  tokens,
  inputTokens,
  outputTokens,
}: LimitStatuses): Record<string, unknown>[] {
  return [
    { name: "requests", use: requests },
    { name: "tokens", use: tokens },
    { name: "input tokens", use: inputTokens },
    { name: "output tokens", use: outputTokens },
  ].flatMap(({ name, use }) => (use === undefined ? [] : [{ name, used: use.used, limit: use.limit }]));
}

function oversizedBody({
  tokens,
  limit,
  waitMs,
}: NonNullable<LaneStatus["oversized"]>): Record<string, number> {
  return { tokens, limit, wait_ms: Math.ceil(waitMs) };
}
