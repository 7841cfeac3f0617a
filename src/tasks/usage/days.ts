/**
 * UTC days and months as texts: `2026-11-21`, `2026-11`.
 */
import { PerigeeError } from "../../errors.ts";
import { dayOf } from "../../price/rates.ts";

export const DAY_MS = 86_400_000;

/** Unix time at which a day begins; throws `usage` for an invalid day. */
export function dayStartMs(day: string): number {
  const ms = /^\d{4}-\d{2}-\d{2}$/.test(day) ? Date.parse(`${day}T00:00:00Z`) : Number.NaN;
  if (Number.isNaN(ms) || dayOf(ms) !== day)
    throw new PerigeeError(
      "usage",
      `a day must be such as 2026-11-21, got ${JSON.stringify(day.slice(0, 40))}`,
    );
  return ms;
}

/** Both ends included. */
export function monthsBetween(fromMs: number, toMs: number): string[] {
  const from = new Date(fromMs);
  const months: string[] = [];
  for (let month = from.getUTCMonth(); ; month += 1) {
    const startMs = Date.UTC(from.getUTCFullYear(), month, 1);
    if (Math.max(startMs, fromMs) > toMs) return months;
    months.push(dayOf(startMs).slice(0, 7));
  }
}
