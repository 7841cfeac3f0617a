/**
 * DeepSeek's hours, for prices of the configuration that name a factor for its peak.
 *
 *   peak   01:00 to 04:00 and 06:00 to 10:00 UTC, but not on days that are off-peak (off_peak_days.ts)
 *
 * The hours of models in the price list are the list's own (base.ts).
 */
import type { OffPeakDays } from "./off_peak_days.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Hours of a day in UTC at which the price changes: to peak, from peak, to peak, from peak. */
const EDGES = [1, 4, 6, 10] as const;
/** Days in each direction that are searched for the next change. */
const DAYS_MAX = 14;

/** A moment, and between which changes of the price it is, in Unix milliseconds. */
export interface PeakSpan {
  readonly isPeak: boolean;
  readonly validFromWallMs: number;
  readonly validUntilWallMs: number;
}

/** Which hours `wallMs` is in. Without a change within 14 days the span ends there. */
export function peakSpanAt(wallMs: number, days: OffPeakDays): PeakSpan {
  const isPeak = isPeakAt(wallMs, days);
  const today = Math.floor(wallMs / DAY_MS);
  const edges = Array.from({ length: 2 * DAYS_MAX + 1 }, (_, index) => today - DAYS_MAX + index).flatMap(
    (day) => EDGES.map((hour) => day * DAY_MS + hour * HOUR_MS),
  );
  const [first = wallMs, last = wallMs] = [edges[0], edges.at(-1)];
  return {
    isPeak,
    validFromWallMs: edges.findLast((edge) => edge <= wallMs && isPeakAt(edge - 1, days) !== isPeak) ?? first,
    validUntilWallMs: edges.find((edge) => edge > wallMs && isPeakAt(edge, days) !== isPeak) ?? last,
  };
}

function isPeakAt(wallMs: number, days: OffPeakDays): boolean {
  const hour = (wallMs % DAY_MS) / HOUR_MS;
  return ((hour >= 1 && hour < 4) || (hour >= 6 && hour < 10)) && !days.has(wallMs);
}
