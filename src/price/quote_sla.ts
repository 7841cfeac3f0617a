/**
 * What a quote says of one window: what a service charges, what providers are expected to bill when cheaper lanes are used as far as
 * the window allows, and when the work is done. Pure; where work goes is an input (queue/plan).
 */
import type { BandShares } from "./band.ts";

/**
 * Where a model's items go in a window. Its shares are of the price in realtime: the expected one, 0.5 for batches that end in time; the
 * low one if every lane does all that it has; the high one is not exceeded in 90 of 100 cases.
 */
export interface LanePlan extends BandShares {
  /** In items; realtime too. */
  readonly lanes: readonly QuoteLane[];
  /** Whether nothing but realtime is used. */
  readonly isRealtime: boolean;
  readonly finish: QuoteFinish;
}

/** Items in one lane. */
export interface QuoteLane {
  /** `<provider>:<kind>`. */
  readonly lane: string;
  readonly items: number;
}

/** Seconds until the work is done; in 80 of 100 cases between `early_seconds` and `late_seconds`. Null: never, in the present state. */
export interface QuoteFinish {
  readonly expected_seconds: number | null;
  readonly early_seconds: number | null;
  readonly late_seconds: number | null;
}

/** One window asked for. */
export interface QuoteSla {
  readonly sla_minutes: number;
  /** Of one model: its price factor. Of all: USD at the sla over USD at list price; 1 when that is nothing. */
  readonly price_factor: number;
  /** What a service charges at this sla: list price times price factor; null when no price is known. */
  readonly usd: number | null;
  /** What providers are expected to bill for work with this sla, which goes to cheaper lanes; null when no price is known. */
  readonly billed_usd: number | null;
  /** The bill is between these two in 90 of 100 quotes, if the expected output was learnt. */
  readonly billed_usd_low: number | null;
  readonly billed_usd_high: number | null;
  readonly lanes: readonly QuoteLane[];
  readonly finish: QuoteFinish;
  /** Whether the time needed fits into the window. */
  readonly is_feasible: boolean;
}

/** When a model's items are done. Work in realtime takes as long as its forecast, whose band is as wide as the plan's. */
export function finishAt(seconds: number, plan: LanePlan | undefined): QuoteFinish {
  if (plan !== undefined && !plan.isRealtime) return plan.finish;
  const expected = plan?.finish.expected_seconds ?? 0;
  const scaled = (at: number | null = 1): number | null =>
    at === null ? null : tenths(expected === 0 ? seconds : (seconds * at) / expected);
  return {
    expected_seconds: tenths(seconds),
    early_seconds: scaled(plan?.finish.early_seconds),
    late_seconds: scaled(plan?.finish.late_seconds),
  };
}

/** Of all models: done when the last one is. */
export function lastFinish(all: readonly QuoteFinish[]): QuoteFinish {
  const last = (of: (finish: QuoteFinish) => number | null): number | null =>
    all.reduce<number | null>((latest, finish) => {
      const at = of(finish);
      return latest === null || at === null ? null : Math.max(latest, at);
    }, 0);
  return {
    expected_seconds: last((finish) => finish.expected_seconds),
    early_seconds: last((finish) => finish.early_seconds),
    late_seconds: last((finish) => finish.late_seconds),
  };
}

/** Joined by their names. */
export function lanesOf(all: readonly (readonly QuoteLane[])[]): readonly QuoteLane[] {
  const items = new Map<string, number>();
  for (const { lane, items: own } of all.flat()) items.set(lane, (items.get(lane) ?? 0) + own);
  return [...items].map(([lane, count]) => ({ lane, items: count }));
}

function tenths(seconds: number): number | null {
  return Number.isFinite(seconds) ? Math.ceil(seconds * 10) / 10 : null;
}
