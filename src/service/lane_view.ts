/**
 * A lane as operators see it: what its limits allow, what of them is used, what waits for it.
 */
import type { Tier } from "../schedule/lanes.ts";
import type { LimitsSnapshot } from "../schedule/limits.ts";

/** Of one limit, in units a minute. */
export interface LimitUse {
  readonly used: number;
  readonly limit: number;
}

/** A way to run a model, at one moment. */
export interface LaneView {
  readonly provider: string;
  readonly tier: Tier;
  readonly family: string;
  readonly state: "open" | "cooldown" | "outage" | "paused";
  /** Each absent where there is no such limit. */
  readonly requests?: LimitUse | undefined;
  readonly tokens?: LimitUse | undefined;
  readonly inputTokens?: LimitUse | undefined;
  readonly outputTokens?: LimitUse | undefined;
  readonly inFlight: number;
  readonly inFlightMax: number;
  /** Items that wait for it; absent where nobody counts them. */
  readonly waiting?: number | undefined;
  /** 0 when there is no cool-down. */
  readonly cooldownMs: number;
}

/** What an engine tells of one of its lanes. */
export interface ObservedLane {
  /** `<provider>:<tier>:<family>`. */
  readonly key: string;
  readonly waitingItems?: number;
  readonly limits: { snapshot(nowMs: number): LimitsSnapshot };
}

/** The lanes of an engine as they are at `nowMs`. */
export function laneViews(lanes: Iterable<ObservedLane>, nowMs: number): LaneView[] {
  return [...lanes].map(({ key, waitingItems, limits }) => {
    const [provider = "", tier = "", ...family] = key.split(":");
    const { pauseReason: _, ...use } = limits.snapshot(nowMs);
    // Keys are made by `laneKey`, of a tier.
    return { provider, tier: tier as Tier, family: family.join(":"), waiting: waitingItems, ...use };
  });
}
