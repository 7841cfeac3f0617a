/**
 * The days that a report is about, as its query names them.
 */
import type { Clock } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import { dayOf } from "../../price/rates.ts";
import { z } from "../../schema.ts";

const DAY_MS = 86_400_000;
/** Days that are shown unless others are requested. */
const DAYS = 31;
const DAYS_MAX = 400;

const day = z.iso.date().describe("UTC day, both included; at most 400 days. Default: the last 31 days.");

/** Of a query. */
export const dayFields: Readonly<Record<"from" | "to", z.ZodOptional<z.ZodISODate>>> = {
  from: day.optional(),
  to: day.optional(),
};

export interface DayQuery {
  readonly from?: string;
  readonly to?: string;
}

/** UTC days, both included. Throws `usage` for more than 400 of them, and where they are in the wrong order. */
export function daysOf(
  query: DayQuery,
  clock: Pick<Clock, "wallMs">,
): { readonly from: string; readonly to: string } {
  const to = query.to ?? dayOf(clock.wallMs());
  const from = query.from ?? dayOf(Date.parse(to) - (DAYS - 1) * DAY_MS);
  const days = (Date.parse(to) - Date.parse(from)) / DAY_MS + 1;
  if (days >= 1 && days <= DAYS_MAX) return { from, to };
  throw new PerigeeError("usage", `from must be a day before to, at most ${DAYS_MAX} days`, {
    details: { param: "from" },
  });
}
