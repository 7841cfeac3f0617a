/**
 * The state of a lane's limits: for people at one moment, and for later processes.
 */
import type { HiddenState } from "./hidden/hidden_limit.ts";
import type { QuotasUse, ToldLimits } from "./quotas.ts";

/** A request that takes more tokens than a limit allows in a minute: it waits for an empty minute, and is sent alone. */
export interface Oversized {
  /** Tokens of the limit that it is expected to take. */
  readonly tokens: number;
  /** Tokens a minute. */
  readonly limit: number;
  /** Milliseconds until the minute is empty, as far as known. */
  readonly waitMs: number;
}

/** The holds of a lane that a later process must continue. */
export interface HeldBack {
  /** The rest of its cool-down; 0 without one. */
  readonly cooldownMs: number;
  /** The use of input tokens that its ramp has reached; absent if the ramp can start over without it. */
  readonly rampTokensPerMinute?: number | undefined;
  /** Why it is paused, as the caller of `pause` stated it; absent if it is not. */
  readonly pauseReason?: string | undefined;
}

/** Limits that were learnt. */
export interface KnownLimits {
  /** Stated by responses, per minute. */
  readonly told?: ToldLimits;
  /** Shown only by refusals. */
  readonly hidden?: HiddenState;
}

/** The use of limits that the lanes of a provider share. */
export interface SharedUse extends QuotasUse {
  readonly inFlight: number;
  readonly inFlightMax: number;
}

/** Of each quota, the lane's own or the shared one, whichever is used more. */
export interface LimitsSnapshot extends QuotasUse {
  /** Only the lane's own. */
  readonly own: QuotasUse;
  /** Only the shared ones; absent where none are passed. */
  readonly shared: SharedUse | undefined;
  readonly inFlight: number;
  /** Requests that may be in flight now. */
  readonly inFlightMax: number;
  /** 0 without a cool-down. */
  readonly cooldownMs: number;
  readonly state: "open" | "cooldown" | "outage" | "paused";
  /** Why it is paused. */
  readonly pauseReason: string | undefined;
  /** The next request, if it is larger than a whole limit on tokens. */
  readonly oversized: Oversized | undefined;
}

export function stateOf(isPaused: boolean, isDown: boolean, cooldownMs: number): LimitsSnapshot["state"] {
  if (isPaused) return "paused";
  if (isDown) return "outage";
  return cooldownMs > 0 ? "cooldown" : "open";
}
