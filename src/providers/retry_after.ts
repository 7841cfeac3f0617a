/**
 * How long the other side asks us to wait, in any of its forms: for providers, executions and webhooks. Nothing waits here.
 *
 *   retry-after-ms     milliseconds; wins over Retry-After (the official SDKs do the same)
 *   Retry-After        whole or decimal seconds, or one of the three HTTP dates (RFC 9110, section 5.6.7)
 *   RetryInfo          google.rpc, in an error body: a proto duration such as `37s` or `0.5s`
 *   x-ratelimit-reset  OpenRouter: Unix time in milliseconds
 *
 * Limits: a wait over 24 h counts as 24 h, however many digits it has; nonsense (negative, `1e3`, nothing, a list, a past date) and a
 * wait under 100 ms count as "no wait", so that the caller's own backoff applies: neither a storm of 1 ms repeats nor a run
 * that never wakes. An x-ratelimit-reset beyond 24 h is in another unit, and no wait either. A provider's refusal that states more
 * than 24 h states none: no limit lasts so long, and a whole lane would stop for one senseless header.
 */
import { REFUSAL_WAIT_MS_MAX } from "../work/limits.ts";
import type { HeaderBag } from "./provider.ts";

/** Shorter waits than this are left to the caller's backoff, in ms. */
const WAIT_MS_MIN = 100;

/** The longest wait that is kept: 24 h, in ms. A quota per day is sent this way. */
const WAIT_MS_MAX = 86_400_000;

/** The wait of the headers in ms, 100 to 24 h, or `undefined`. `wallMs` is Unix time, for dates. */
export function retryAfterMs(headers: HeaderBag, wallMs: number): number | undefined {
  return keptWaitMs(statedWaitMs(headers, wallMs));
}

/** The wait of the headers in ms, 100 to infinity, or `undefined`. `wallMs` is Unix time, for dates. */
export function statedWaitMs(headers: HeaderBag, wallMs: number): number | undefined {
  const precise = decimal(headers["retry-after-ms"]);
  if (precise !== undefined && precise >= WAIT_MS_MIN) return precise;
  const plain = headers["retry-after"];
  if (plain !== undefined) {
    const seconds = decimal(plain);
    const waitMs = seconds === undefined ? httpDateMs(plain) - wallMs : seconds * 1_000;
    return waitMs >= WAIT_MS_MIN ? waitMs : undefined;
  }
  const leftMs = (decimal(headers["x-ratelimit-reset"]) ?? 0) - wallMs;
  return leftMs >= WAIT_MS_MIN && leftMs <= WAIT_MS_MAX ? leftMs : undefined;
}

/** A wait as it is kept, 100 ms to 24 h in whole ms; undefined when it does not count. */
export function keptWaitMs(waitMs: number | undefined): number | undefined {
  return waitMs !== undefined && waitMs >= WAIT_MS_MIN ? Math.ceil(Math.min(waitMs, WAIT_MS_MAX)) : undefined;
}

/** A proto3 duration in JSON (`37s`, `0.5s`) in ms, 100 to infinity, or `undefined`. */
export function protoDurationMs(text: unknown): number | undefined {
  const match = typeof text === "string" ? /^(\d+(?:\.\d+)?)s$/.exec(text) : null;
  const waitMs = match === null ? 0 : Number(match[1]) * 1_000;
  return waitMs >= WAIT_MS_MIN ? waitMs : undefined;
}

/** A stated wait cut to what a refused request obeys, 100 ms to 15 min in whole ms; `undefined` below, and over 24 h. */
export function refusalWaitMs(waitMs: number | undefined): number | undefined {
  const keptMs = waitMs !== undefined && waitMs <= WAIT_MS_MAX ? keptWaitMs(waitMs) : undefined;
  return keptMs === undefined ? undefined : Math.min(keptMs, REFUSAL_WAIT_MS_MAX);
}

/** Milliseconds of each unit by its first letter; `m` followed by `s` is milliseconds. */
const GO_UNIT_MS: Readonly<Record<string, number>> = {
  h: 3_600_000,
  m: 60_000,
  s: 1_000,
  u: 1e-3,
  µ: 1e-3,
  μ: 1e-3,
  n: 1e-6,
};

/**
 * A Go duration (`1h2m3.5s`, `12ms`, `6m0s`; a bare number is seconds) in ms from 0; `undefined` for anything else.
 * Read twice per response: a scan, since a regular expression took four times as long (bench/parts/decode.ts).
 */
export function goDurationMs(text: string | undefined): number | undefined {
  if (text === undefined || text.length === 0 || text.length > 64) return undefined;
  let totalMs = 0;
  let at = 0;
  while (at < text.length) {
    const start = at;
    at = afterDigits(text, at);
    if (at === start) return undefined;
    if (text[at] === ".") {
      const fraction = at + 1;
      at = afterDigits(text, fraction);
      if (at === fraction) return undefined;
    }
    const value = Number(text.slice(start, at));
    if (at === text.length && start === 0) return value * 1_000;
    const first = text[at] ?? "";
    const isPartOfSecond = first !== "s" && text[at + 1] === "s" && first !== "h";
    const unitMs = first === "m" && isPartOfSecond ? 1 : GO_UNIT_MS[first];
    if (unitMs === undefined || (unitMs < 1 && !isPartOfSecond)) return undefined;
    totalMs += value * unitMs;
    at += isPartOfSecond ? 2 : 1;
  }
  return totalMs;
}

function afterDigits(text: string, from: number): number {
  let at = from;
  while (at < text.length && text.charCodeAt(at) >= 0x30 && text.charCodeAt(at) <= 0x39) at++;
  return at;
}

const RFC3339 = /^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:[Zz]|[+-]\d{2}:\d{2})$/;

/** An RFC 3339 time as Unix time in ms, or `undefined`. */
export function rfc3339Ms(text: string | undefined): number | undefined {
  if (text === undefined || !RFC3339.test(text)) return undefined;
  const ms = Date.parse(text.toUpperCase());
  return Number.isNaN(ms) ? undefined : ms;
}

const IMF_DATE = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;
const RFC850_DATE = /^[A-Z][a-z]{5,8}, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/;
const ASCTIME_DATE = /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/;

/** An HTTP date as Unix time in ms; NaN for anything else. */
export function httpDateMs(text: string): number {
  if (IMF_DATE.test(text)) return Date.parse(text);
  if (RFC850_DATE.test(text)) return Date.parse(text.slice(text.indexOf(" ") + 1).replaceAll("-", " "));
  return ASCTIME_DATE.test(text) ? Date.parse(`${text} GMT`) : Number.NaN;
}

function decimal(text: string | undefined): number | undefined {
  if (text === undefined || !/^\s*\d+(?:\.\d+)?\s*$/.test(text)) return undefined;
  return Number(text);
}
