/**
 * What a lane's limits say of themselves: to people at one moment, and to later processes.
 */
import type { HiddenState } from "./hidden/hidden_limit.ts";
import type { QuotasUse, ToldLimits } from "./quotas.ts";

/** A request that takes more tokens than a limit has in a minute: it waits for an empty minute, and is sent alone. */
export interface Oversized {
  /** Tokens that it is expected to take of the limit. */
  readonly tokens: number;
  /** Tokens a minute. */
  readonly limit: number;
  /** Milliseconds until the minute is empty, as far as it is known. */
  readonly waitMs: number;
}

/** What holds a lane back that a later process must know of. */
export interface HeldBack {
  /** What is left of its cool-down, 0 when there is none. */
  readonly cooldownMs: number;
  /** The use of input tokens that its ramp has reached; absent when it needs nothing to begin anew. */
  readonly rampTokensPerMinute?: number | undefined;
  /** Why it is paused, in the words of who paused it; absent when it is not. */
  readonly pauseReason?: string | undefined;
}

/** Limits that were learnt. */
export interface KnownLimits {
  /** By responses, a minute. */
  readonly told?: ToldLimits;
  /** Only by refusals. */
  readonly hidden?: HiddenState;
}

export interface LimitsSnapshot extends QuotasUse {
  readonly inFlight: number;
  /** Requests that may be in flight now. */
  readonly inFlightMax: number;
  /** 0 when there is no cool-down. */
  readonly cooldownMs: number;
  readonly state: "open" | "cooldown" | "outage" | "paused";
  /** Why it is paused. */
  readonly pauseReason: string | undefined;
  /** What goes next when it is larger than a whole limit on tokens. */
  readonly oversized: Oversized | undefined;
}
