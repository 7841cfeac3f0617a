/**
 * Service levels: how long an item may take, and when that time is over.
 *
 * An inference sla is an integer of minutes, 1 to 43,200 (30 days); absent means at once. A duration is text of the
 * grammar `^\d{1,5}(s|m|h|d)$`. A deadline is kept as wall time (it survives a restart) and translated to the
 * monotonic clock once in each process, so that a jump of the wall clock moves no deadline.
 */
import type { Clock } from "../clock.ts";
import { PerigeeError } from "../errors.ts";

/** The longest sla in minutes: 30 days. */
export const SLA_MINUTES_MAX = 43_200;

/** Returns `value` when it is a valid sla in minutes, or undefined when absent; throws `usage` otherwise. */
export function parseSlaMinutes(value: unknown, where: string): number | undefined {
  if (value === undefined) return undefined;
  if (typeof value === "number" && Number.isInteger(value) && value >= 1 && value <= SLA_MINUTES_MAX)
    return value;
  const found = typeof value === "number" ? String(value) : JSON.stringify(value);
  throw new PerigeeError(
    "usage",
    `${where}: sla must be whole minutes from 1 to ${SLA_MINUTES_MAX}, got ${found}`,
  );
}

const DURATION = /^(\d{1,5})(s|m|h|d)$/;
const UNIT_MS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** Milliseconds of a duration such as `90s`, `30m`, `24h`, `7d`; undefined when it is not one. */
export function parseDurationMs(text: string): number | undefined {
  const match = DURATION.exec(text);
  if (match === null) return undefined;
  return Number(match[1]) * UNIT_MS[match[2] as keyof typeof UNIT_MS]; // the pattern allows only these units
}

/**
 * When a wall time is over, on the monotonic clock of this process, by what both clocks read now. Wall times are whole
 * milliseconds, rounded down, the given one as well as the one that is read: so the result is up to 2 ms late, and never early.
 */
export function overAtMs(clock: Pick<Clock, "nowMs" | "wallMs">, wallMs: number): number {
  return clock.nowMs() + (wallMs - clock.wallMs()) + 1;
}
