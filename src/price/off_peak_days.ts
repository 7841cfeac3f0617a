/**
 * Days on which DeepSeek takes its lower price at all hours: weekends, and public holidays in China. Days are those of Beijing.
 *
 * Since 2026-08-23 00:00 in Beijing (https://api-docs.deepseek.com/quick_start/pricing): peak is Monday to Friday, not on Chinese
 * public holidays. Weekends are off-peak also where a holiday makes one of their days a working day.
 *
 * 2026: the State Council's notice of 2025-11-04 (https://politics.gmw.cn/2025-11/04/content_38391083.htm).
 * 2027: to be checked. Its notice was not found when this was written (2026-11-26); these are the days that the law names, without
 * those that a notice moves to them. What is missing is reckoned at the peak price, which is too high and never too low.
 */
import { PerigeeError } from "../errors.ts";

const DAY_MS = 86_400_000;
const BEIJING_OFFSET_MS = 8 * 3_600_000;
/** 2026-08-23 00:00 in Beijing. */
const SINCE_MS = Date.UTC(2026, 7, 22, 16);
/** Of one entry; a range with a wrong year would make all days cheap. */
const RANGE_DAYS_MAX = 31;

/** Days, and spans of them with both ends. */
const HOLIDAYS: readonly string[] = [
  "2026-01-01..2026-01-03",
  "2026-02-15..2026-02-23",
  "2026-04-04..2026-04-06",
  "2026-05-01..2026-05-05",
  "2026-06-19..2026-06-21",
  "2026-09-25..2026-09-27",
  "2026-10-01..2026-10-07",
  "2027-01-01",
  "2027-02-05..2027-02-08",
  "2027-04-05",
  "2027-05-01..2027-05-02",
  "2027-06-09",
  "2027-09-15",
  "2027-10-01..2027-10-03",
];

/** Read once: an engine makes these days anew each time it opens. */
const KNOWN_DAYS = HOLIDAYS.map((entry) => ({ year: entry.slice(0, 4), days: daysOf(entry) }));

/** Weekends and holidays. */
export class OffPeakDays {
  /** Days since 1970 in Beijing. */
  readonly #holidays: ReadonlySet<number>;

  /**
   * `holidays`: days such as `2027-02-05`, and spans such as `2027-02-05..2027-02-11`, with both ends. They replace what is known of
   * each year that they name. Throws `invalid_config` for what is neither.
   */
  constructor(holidays: readonly string[] = []) {
    const years = new Set(holidays.map((entry) => entry.slice(0, 4)));
    const known = KNOWN_DAYS.flatMap(({ year, days }) => (years.has(year) ? [] : days));
    this.#holidays = new Set([...known, ...holidays.flatMap(daysOf)]);
  }

  /** Whether a moment (Unix milliseconds) is on such a day. False before DeepSeek had them. */
  has(wallMs: number): boolean {
    if (wallMs < SINCE_MS) return false;
    const day = Math.floor((wallMs + BEIJING_OFFSET_MS) / DAY_MS);
    const weekday = new Date(day * DAY_MS).getUTCDay();
    return weekday === 0 || weekday === 6 || this.#holidays.has(day);
  }
}

/** What is wrong with an entry; undefined for a day or a span of days. */
export function offPeakDayFault(entry: string): string | undefined {
  const { count } = spanOf(entry);
  if (count >= 1 && count <= RANGE_DAYS_MAX) return undefined;
  return `must be a day such as 2027-02-05, or up to ${RANGE_DAYS_MAX} days such as 2027-02-05..2027-02-11, got ${JSON.stringify(entry.slice(0, 40))}`;
}

/** The days of an entry, since 1970. Throws `invalid_config`. */
function daysOf(entry: string): readonly number[] {
  const fault = offPeakDayFault(entry);
  if (fault !== undefined) throw new PerigeeError("invalid_config", `lanes.offPeakDays: ${fault}`);
  const { from, count } = spanOf(entry);
  return Array.from({ length: count }, (_, index) => from + index);
}

/** `count` is NaN for what is not a span. */
function spanOf(entry: string): { readonly from: number; readonly count: number } {
  const [first = "", last = first, ...more] = entry.split("..");
  const from = dayOf(first);
  return { from, count: more.length > 0 ? Number.NaN : dayOf(last) - from + 1 };
}

/** NaN for what is not a day. */
function dayOf(text: string): number {
  const atMs = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(text) : Number.NaN;
  const isDay = !Number.isNaN(atMs) && new Date(atMs).toISOString().startsWith(text);
  return isDay ? atMs / DAY_MS : Number.NaN;
}
