/**
 * A quote with what lies ahead of its work: when it is done, which prices change until then, and how far earlier quotes were off.
 */
import type { PriceChange } from "./price_change.ts";
import type { Quote } from "./quote.ts";
import type { QuoteFinish } from "./quote_sla.ts";

export interface PlannedQuote extends Quote {
  /** Of the work at its own sla, or in realtime. */
  readonly finish: QuoteFinish;
  /** Prices of its models that are known to change until it is done, in the order of time. */
  readonly price_changes: readonly PriceChange[];
  /** How many quotes of earlier runs its bands follow (calibration.ts); 0 while that is too few. */
  readonly calibrated_by: number;
}

/** A quote of the rest of a run, kept with it until its end. */
export interface KeptQuote {
  readonly basis: string;
  readonly billedUsd: number;
  readonly lowUsd: number;
  readonly highUsd: number;
  /** What was billed for the run before. */
  readonly beforeUsd: number;
  readonly finish: QuoteFinish;
  /** What the bands were stretched by: cost, time. */
  readonly stretched: { readonly cost: number; readonly time: number };
}

/** What was quoted for the rest of a run, and what it took: part of its summary. */
export interface QuoteOutcome {
  readonly basis: string;
  readonly billed_usd: number;
  readonly billed_usd_low: number;
  readonly billed_usd_high: number;
  readonly actual_usd: number;
  readonly seconds: number | null;
  /** Null where the run was continued by another call: then it also waited for that. */
  readonly actual_seconds: number | null;
}
