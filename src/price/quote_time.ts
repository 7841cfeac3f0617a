/**
 * The time that a quote says.
 */
import type { TimeBound } from "../work/limits.ts";

const SECONDS_MAX = 1e9;

/** How long the work on a model takes. */
export interface TimeNeeded {
  /** Infinity if it would never be done in the present state. */
  readonly seconds: number;
  readonly boundBy: TimeBound;
  /** Whether the provider's speed was measured; else it is assumed. */
  readonly isMeasured: boolean;
}

export interface QuoteTime {
  readonly seconds: number;
  /** What sets the time. */
  readonly bound_by: TimeBound;
  /** Whether the providers' speed was measured; where not, it is that of `assumptions`. */
  readonly basis: "learnt" | "assumed";
}

/** Tenths of a second, rounded up. */
export function shownTime(time: TimeNeeded): QuoteTime {
  const seconds = Math.min(Math.ceil(time.seconds * 10) / 10, SECONDS_MAX);
  return { seconds, bound_by: time.boundBy, basis: time.isMeasured ? "learnt" : "assumed" };
}
