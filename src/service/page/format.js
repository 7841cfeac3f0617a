/**
 * Numbers, money and time as people read them.
 */
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });
const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 });
const dateTime = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const timeOfDay = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const dayAndTime = new Intl.DateTimeFormat(undefined, {
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
});

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

export function count(value) {
  return whole.format(value);
}

/** 12,345 up to a hundred thousand, 1.23M above. */
export function compact(value) {
  return value < 100_000 ? whole.format(value) : short.format(value);
}

export function rate(value) {
  if (value >= 100_000) return short.format(value);
  return value >= 100 ? whole.format(value) : tenth.format(value);
}

export function percent(share) {
  if (!Number.isFinite(share) || share <= 0) return "0 %";
  if (share < 0.001) return "< 0.1 %";
  return `${share < 0.1 ? tenth.format(share * 100) : whole.format(share * 100)} %`;
}

/** Cents above a dollar, more places below: items cost thousandths of a cent. */
export function usd(value) {
  const size = Math.abs(value);
  const sign = value < 0 ? "-" : "";
  if (size >= 100_000) return `${sign}$${short.format(size)}`;
  if (size >= 1 || size === 0)
    return `${sign}$${size.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
  if (size < 0.000_001) return `${sign}$0.00`;
  return `${sign}$${size.toFixed(size >= 0.01 ? 4 : 6)}`;
}

/** `45 s`, `12 min`, `3 h 20 min`, `5 d 2 h`. */
export function duration(ms) {
  const size = Math.abs(ms);
  if (size < MINUTE) return `${Math.floor(size / 1_000)} s`;
  if (size < HOUR) return `${Math.floor(size / MINUTE)} min`;
  if (size < DAY) return joined(Math.floor(size / HOUR), "h", Math.floor((size % HOUR) / MINUTE), "min");
  return joined(Math.floor(size / DAY), "d", Math.floor((size % DAY) / HOUR), "h");
}

/** `in 12 min` or `12 min ago`. */
export function fromNow(ms) {
  return ms >= 0 ? `in ${duration(ms)}` : `${duration(ms)} ago`;
}

export function moment(wallMs) {
  return dateTime.format(new Date(wallMs));
}

/** The time of day, with the date where it is another day than `nowMs`. */
export function clockTime(wallMs, nowMs) {
  const [date, now] = [new Date(wallMs), new Date(nowMs)];
  return date.toDateString() === now.toDateString() ? timeOfDay.format(date) : dayAndTime.format(date);
}

/** The end of an id, by which people distinguish tasks: those of one minute begin alike. */
export function shortId(id) {
  return id.slice(-8);
}

function joined(large, largeUnit, small, smallUnit) {
  return small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`;
}

/** The hour of Unix seconds. */
export function dayHour(seconds) {
  return timeOfDay.format(new Date(seconds * 1_000));
}

/** `850 ms`, `3.2 s`, `12 min`: of one answer. */
export function latency(ms) {
  if (ms < 1_000) return `${whole.format(ms)} ms`;
  return ms < MINUTE ? `${tenth.format(ms / 1_000)} s` : duration(ms);
}
