/**
 * The rate of an unknown limit (hidden_limit.ts), in requests: what refusals say of it, and the pace that keeps it.
 *
 * What was taken in a minute when refusals began is what a sliding window holds, if it is the same twice (4 %), or if a
 * window refuses for long (10 s). Otherwise, between the first request taken after refusals and the first one taken after
 * the next refusals the provider has taken what it allows, whatever it counts by: `rate = taken / time`. Sent is at an
 * even pace of 98 % of it, which no window refuses. Upwards by 1, 2, 4, ... 16 % after every 30 s and 150 requests (2 minutes
 * where those take longer, and then by one request at least); by 15 % a second while the rate comes from fewer than 20 requests.
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
/** Refusals for so long are those of a window; shorter ones those of a bucket. */
const LONG_MS = 10_000;
/** Of the most that was taken in a minute: what refusals that are over at once leave. */
const KEPT = 1 / 4;
/** One a minute. */
const RATE_MIN = 1 / 60_000;
const SAMPLE_MIN = 20;
const SAMPLE_MS_MIN = 5_000;
const SEARCH_FACTOR = 1.15;
const SEARCH_EVERY_MS = 1_000;
const RAISE_EVERY_REQUESTS = 150;
const RAISE_DOUBLINGS_MAX = 4;
/** What a timer may be late without losing pace. */
const CREDIT_MS = 100;

/** The first steps are small, and each without a refusal is twice the one before. */
export function raiseShare(raises: number): number {
  return 0.01 * 2 ** Math.min(RAISE_DOUBLINGS_MAX, raises);
}

/** What is known when a probe is taken. Times are monotonic; requests are those that were taken. */
export interface RateEvidence {
  /** When the probe was sent, and when refusals had begun. */
  readonly takenAtMs: number;
  readonly heldAtMs: number;
  readonly probeRefusedAtMs: number;
  /** Since the probe before was taken. */
  readonly sinceMs: number;
  readonly taken: number;
  /** In the minute before the first refusal, and before the last one. */
  readonly minuteHeld: number;
  readonly minuteRefused: number;
  /** Whether probes were refused until they came seldom. */
  readonly isLong: boolean;
}

export class HiddenRate {
  readonly #minute: Minute;
  readonly #startMs: number;
  /** Requests a millisecond; 0 while none was found. */
  #rate = 0;
  /** When the next one may go. */
  #nextMs = Number.NEGATIVE_INFINITY;
  /** Requests of the last minute, when refusals began the last time; whether it was the same the time before. */
  #windowUnits = 0;
  #isWindow = false;
  /** The most of them, when refusals began, since a window has refused for long. */
  #mostUnits = 0;
  /** Of earlier times between probes, while they were too short to say much. */
  #past = { requests: 0, forMs: 0 };
  #isSearching = false;
  #raisedAtMs: number;
  #raises = 0;

  /** `minute`: the requests that were taken. */
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

  /** Milliseconds until one more may go. */
  waitMs(nowMs: number): number {
    this.#raise(nowMs);
    if (this.#isWindow && this.#minute.count(nowMs) >= this.#windowUnits) return MINUTE_SLOT_MS / 2;
    return Math.max(0, this.#nextMs - nowMs);
  }

  /** Paces what is sent. */
  sent(nowMs: number): void {
    this.#nextMs = Math.max(this.#nextMs, nowMs - CREDIT_MS) + 1 / this.#rate;
  }

  /** Refusals begin, after so many requests of a minute. */
  held(minuteRequests: number): void {
    this.#mostUnits = Math.max(this.#mostUnits, minuteRequests);
  }

  /** Refusals were taken for those of places, after so many requests of a minute: the next ones say whether it is a window. */
  doubted(minuteRequests: number): void {
    this.#windowUnits = minuteRequests;
  }

  /** A probe was taken at `atMs` after refusals that say nothing of a rate. */
  goOn(atMs: number): void {
    this.#raisedAtMs = atMs;
    this.#raises = 0;
    this.#nextMs = atMs + (this.#rate > 0 ? 1 / this.#rate : 0);
  }

  /** Continues with what an earlier process found, requests a minute. */
  restore(nowMs: number, requests: number): void {
    this.#raisedAtMs = nowMs;
    this.#rate = Math.max(RATE_MIN, requests / 60_000);
  }

  /** A probe was taken; returns since when the next evidence counts. */
  learn(evidence: RateEvidence, isSingle: boolean): number {
    const { takenAtMs, heldAtMs, minuteHeld, isLong } = evidence;
    const atMs = (takenAtMs + evidence.probeRefusedAtMs) / 2; // it would have been taken somewhere in between
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

  /** A short time between two probes says little, several of them more. */
  #learnShort(taken: number, forMs: number, before: number): void {
    const past = { requests: this.#past.requests + taken, forMs: this.#past.forMs + Math.max(1, forMs) };
    const found = (past.requests / past.forMs) * BELOW;
    const isSample = past.requests >= SAMPLE_MIN && past.forMs >= SAMPLE_MS_MIN && before > 0;
    this.#rate = isSample || before === 0 ? found : Math.max(before / 4, Math.min(found, before * 0.9));
    this.#isSearching = !isSample;
    // What a bucket held at first says nothing of what it earns, and what was long ago nothing of today.
    const isOver = before === 0 || (past.forMs > LONG_MS && isSample);
    this.#past = isOver ? { requests: 0, forMs: 0 } : past;
  }

  /** Requests a millisecond that a window of a minute has taken which refused for a long time. */
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
