/**
 * A lane as operators see it: what its limits allow, what of them is used, what waits for it.
 */
import type { Tier } from "../schedule/lanes.ts";

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
  /** Items that wait for it. */
  readonly waiting: number;
  /** 0 when there is no cool-down. */
  readonly cooldownMs: number;
}
