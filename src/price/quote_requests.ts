/**
 * What a quote says of the requests for the items of a model: how long they take, and how many are made because an answer does not fit its
 * schema.
 */
import type { TimeBound } from "../work/limits.ts";

/** For work that is never done in the present state: JSON has no larger one. */
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

/** Of the items of one row that are checked. */
export interface FurtherRequests {
  readonly expected: number;
  readonly most: number;
  /** Whether answers of the model were checked before; else the share is assumed. */
  readonly isLearnt: boolean;
}

export interface QuoteFurtherRequests {
  readonly expected: number;
  /** If no answer fits. */
  readonly most: number;
  readonly basis: "learnt" | "assumed";
}

/** As a quote has it; nothing where no item is checked. */
export function shownFurther(rows: readonly { readonly further?: FurtherRequests | undefined }[]): {
  readonly further_requests?: QuoteFurtherRequests;
} {
  const all = rows.flatMap(({ further }) => further ?? []);
  if (all.length === 0) return {};
  const expected = all.reduce((sum, row) => sum + row.expected, 0);
  const most = all.reduce((sum, row) => sum + row.most, 0);
  const basis = all.every(({ isLearnt }) => isLearnt) ? "learnt" : "assumed";
  return { further_requests: { expected: Math.round(expected), most, basis } };
}
