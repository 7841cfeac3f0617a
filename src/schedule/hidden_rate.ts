/**
 * The rate of an unknown limit (hidden_limit.ts), in requests: estimates it from refusals, and paces what is sent.
 *
 * A sliding window holds what was accepted in the minute before the refusals began. This is believed if the count is the
 * same twice (within 4 %), or if the refusals last long (10 s).
 *
 * Otherwise the rate is measured between two probes: the first request accepted after refusals, and the first one accepted
 * after the next refusals. In this time the provider accepted what it allows, whatever it counts by: `rate = accepted / time`.
 *
 * Requests are sent evenly at 98 % of the rate, which no window refuses. The rate rises by 1, 2, 4, ... 16 % after every 30 s
 * and 150 requests (after 2 minutes if those take longer, then by at least one request). While it comes from fewer than 20
 * requests, it rises by 15 % a second.
 */
import { MINUTE_SLOT_MS, type Minute } from "./minute.ts";

/** A minute, as providers count it. */
export const WINDOW_MS = 60_500;
export const RAISE_EVERY_MS = 30_000;
export const RAISE_EVERY_MS_MAX = 120_000;
const BELOW = 0.98;
const LOWER = 0.97;
/** Counts of a minute that differ by less are the same. */
const SAME = 0.04;
/** A window refuses for so long; a bucket refuses for less. */
const LONG_MS = 10_000;
/** Share of the most that was accepted in a minute. Refusals that end at once do not lower the rate below it. */
const KEPT = 1 / 4;
/** One request a minute. */
const RATE_MIN = 1 / 60_000;
const SAMPLE_MIN = 20;
const SAMPLE_MS_MIN = 5_000;
const SEARCH_FACTOR = 1.15;
const SEARCH_EVERY_MS = 1_000;
const RAISE_EVERY_REQUESTS = 150;
const RAISE_DOUBLINGS_MAX = 4;
/** A timer that is late by less does not cost pace. */
const CREDIT_MS = 100;

/** The share by which the next raise goes up, 0.01 to 0.16: it doubles with each of the `raises` since the last refusal. */
export function raiseShare(raises: number): number {
  return 0.01 * 2 ** Math.min(RAISE_DOUBLINGS_MAX, raises);
}

/** What is known when a probe is accepted. Times are monotonic; counts are accepted requests. */
export interface RateEvidence {
  /** When the accepted probe was sent. */
  readonly takenAtMs: number;
  /** When the refusals began. */
  readonly heldAtMs: number;
  /** When the last probe before it was refused. */
  readonly probeRefusedAtMs: number;
  /** When the probe of the hold before was accepted. */
  readonly sinceMs: number;
  /** Requests since `sinceMs`. */
  readonly taken: number;
  /** Requests in the minute before the first refusal. */
  readonly minuteHeld: number;
  /** Requests in the minute before the last refusal. */
  readonly minuteRefused: number;
  /** Whether so many probes were refused that the time between them reached its maximum. */
  readonly isLong: boolean;
}

/** One per lane. Times are monotonic. */
export class HiddenRate {
  readonly #minute: Minute;
  readonly #startMs: number;
  /** Requests a millisecond; 0 while none was found. */
  #rate = 0;
  /** When the next request may be sent. */
  #nextMs = Number.NEGATIVE_INFINITY;
  /** Requests of the minute before the last refusals began. */
  #windowUnits = 0;
  /** Whether that number was the same twice in a row. */
  #isWindow = false;
  /** The highest such number since a window last refused for long. */
  #mostUnits = 0;
  /** Sums of earlier times between probes that were too short to be evidence. */
  #past = { requests: 0, forMs: 0 };
  #isSearching = false;
  #raisedAtMs: number;
  #raises = 0;

  /** `minute` counts the accepted requests. */
  constructor(nowMs: number, minute: Minute) {
    this.#startMs = this.#raisedAtMs = nowMs;
    this.#minute = minute;
  }

  get isKnown(): boolean {
    return this.#rate > 0;
  }

  /** Requests a minute; 0 while none was found. */
  get perMinute(): number {
    return this.#rate > 0 ? Math.max(1, Math.round(this.#rate * 60_000)) : 0;
  }

  /** Milliseconds until one more request may be sent; 0 for now. */
  waitMs(nowMs: number): number {
    this.#raise(nowMs);
    if (this.#isWindow && this.#minute.count(nowMs) >= this.#windowUnits) return MINUTE_SLOT_MS / 2;
    return Math.max(0, this.#nextMs - nowMs);
  }

  /** Counts a request that is sent, for the pace. */
  sent(nowMs: number): void {
    this.#nextMs = Math.max(this.#nextMs, nowMs - CREDIT_MS) + 1 / this.#rate;
  }

  /** Refusals begin; `minuteRequests` were accepted in the minute before. */
  held(minuteRequests: number): void {
    this.#mostUnits = Math.max(this.#mostUnits, minuteRequests);
  }

  /** The refusals were attributed to places. The next ones show whether a window allows `minuteRequests` again. */
  doubted(minuteRequests: number): void {
    this.#windowUnits = minuteRequests;
  }

  /** A probe was accepted at `atMs`, after refusals that say nothing about a rate. */
  goOn(atMs: number): void {
    this.#raisedAtMs = atMs;
    this.#raises = 0;
    this.#nextMs = atMs + (this.#rate > 0 ? 1 / this.#rate : 0);
  }

  /** Continues with the rate that an earlier process found, in requests a minute. */
  restore(nowMs: number, requests: number): void {
    this.#raisedAtMs = nowMs;
    this.#rate = Math.max(RATE_MIN, requests / 60_000);
  }

  /**
   * Estimates the rate when a probe was accepted; `isSingle`: a rate is known and no probe of this hold was refused. Returns
   * the time from which the next evidence counts.
   */
  learn(evidence: RateEvidence, isSingle: boolean): number {
    const { takenAtMs, heldAtMs, minuteHeld, isLong } = evidence;
    const atMs = (takenAtMs + evidence.probeRefusedAtMs) / 2; // it would have been accepted at some time between the two
    const before = this.#rate;
    if (!isSingle) this.#raisedAtMs = takenAtMs;
    const isWindow =
      Math.abs(minuteHeld / this.#windowUnits - 1) < SAME && takenAtMs - this.#startMs > WINDOW_MS;
    this.#windowUnits = minuteHeld;
    this.#isWindow = isWindow;
    if (isWindow) {
      this.#rate = Math.min(
        (this.#windowUnits / WINDOW_MS) * BELOW,
        Math.max(before, this.#windowUnits / WINDOW_MS) * LOWER,
      );
      this.#isSearching = false;
    } else if (atMs - evidence.sinceMs >= LONG_MS) {
      const found = this.#windowRate(evidence, before === 0) * BELOW;
      this.#rate = before === 0 || this.#isSearching ? found : Math.min(found, before * LOWER);
      this.#isSearching = false;
      this.#past = { requests: 0, forMs: 0 };
    } else this.#learnShort(evidence.taken, atMs - evidence.sinceMs, before);
    if (isLong || takenAtMs - heldAtMs >= LONG_MS) this.#mostUnits = 0;
    const kept = (this.#mostUnits / WINDOW_MS) * KEPT;
    this.#rate = Math.max(RATE_MIN, kept, this.#rate);
    this.#raises = 0;
    this.#nextMs = takenAtMs + 1 / this.#rate;
    return atMs;
  }

  /** Sums up short times between probes: one of them is weak evidence. */
  #learnShort(taken: number, forMs: number, before: number): void {
    const past = { requests: this.#past.requests + taken, forMs: this.#past.forMs + Math.max(1, forMs) };
    const found = (past.requests / past.forMs) * BELOW;
    const isSample = past.requests >= SAMPLE_MIN && past.forMs >= SAMPLE_MS_MIN && before > 0;
    this.#rate = isSample || before === 0 ? found : Math.max(before / 4, Math.min(found, before * 0.9));
    this.#isSearching = !isSample;
    // The first content of a bucket says nothing about its rate, and old samples say nothing about today's.
    const isOver = before === 0 || (past.forMs > LONG_MS && isSample);
    this.#past = isOver ? { requests: 0, forMs: 0 } : past;
  }

  /** Requests a millisecond that a window of a minute accepts, after it refused for long. */
  #windowRate(
    { takenAtMs, heldAtMs, sinceMs, taken, minuteHeld, minuteRefused }: RateEvidence,
    isFirst: boolean,
  ): number {
    // Accepted requests used tokens after the refusals had begun, so the whole time is better evidence than the minute.
    const isLong = takenAtMs - heldAtMs > WINDOW_MS - 5_000;
    if (isFirst && !isLong) return minuteHeld / WINDOW_MS;
    if (isLong || takenAtMs - sinceMs < WINDOW_MS - 5_000) return taken / (takenAtMs - sinceMs);
    return (minuteRefused + this.#minute.count(takenAtMs)) / 2 / WINDOW_MS; // too many, and few enough
  }

  #raise(nowMs: number): void {
    const elapsedMs = nowMs - this.#raisedAtMs;
    if (elapsedMs < SEARCH_EVERY_MS) return;
    const requestMs = 1 / this.#rate;
    const everyMs = this.#isSearching
      ? Math.max(SEARCH_EVERY_MS, requestMs)
      : Math.max(RAISE_EVERY_MS, Math.min(RAISE_EVERY_MS_MAX, RAISE_EVERY_REQUESTS * requestMs));
    if (elapsedMs < everyMs) return;
    const factor = this.#isSearching
      ? SEARCH_FACTOR
      : 1 + Math.max(raiseShare(this.#raises), requestMs / everyMs);
    this.#rate *= factor;
    this.#windowUnits *= factor;
    this.#raises += 1;
    this.#raisedAtMs = nowMs;
  }
}
