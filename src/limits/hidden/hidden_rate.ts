/**
 * The rate of an unknown limit (hidden_limit.ts), in requests: estimates it from refusals, and paces requests.
 *
 * A sliding window contains the requests accepted in the minute before the refusals began. The estimate accepts this explanation if the
 * count is the same twice (rate_window.ts), or if the refusals last long (10 s).
 *
 * Otherwise the rate is measured between two probes: the first request accepted after refusals, and the first one accepted after the
 * next refusals. In this time the provider accepted what it allows, whatever it counts by: `rate = accepted / time`.
 *
 * Requests are sent evenly at 98 % of the rate, which no window refuses; requests refused by chance do not count. The rate rises by 4 %
 * after 30 s and 150 requests (after 2 minutes if those take longer, then by at least one request), if nine tenths of it were used. If
 * nothing is refused for as long again, the limit is higher by now, or removed: the rate rises by 15 % a second until a refusal; with
 * long answers by 2, 4, 8 and 16 % each time. An estimate from fewer than 20 requests also rises by 15 % a second.
 *
 * Windows may not explain refusals of 10 s and more: the provider accepted a few requests of a new lane, then none, and later all. A
 * search decides: from at least 20 a minute, the rate rises by 15 % a second (once a request below one a second) until a refusal, or to
 * 1,000 a second. It begins after at most 99 requests,
 *
 *   when the first refusals end before any accepted request is a minute old  a sliding minute would refuse on; a fixed one began now
 *   when they last longer than a minute                                      no window does
 *   when fewer than 5 requests were accepted before them                     they show nothing
 *   when the refusals that end a search end before the fixed minute, or after it, at most 3 searches
 *
 * During these refusals probes are rarer, so a search costs 2 to 5 refusals under a fixed minute. With long answers nothing is searched:
 * tokens that are counted late explain any refusals.
 */
import { MINUTE_SLOT_MS, type Minute } from "../minute.ts";
import { RateSearch } from "./rate_search.ts";
import { RateWindow, SAME, WINDOW_MS } from "./rate_window.ts";

export const RAISE_EVERY_MS = 30_000;
export const RAISE_EVERY_MS_MAX = 120_000;
const BELOW = 0.98;
const LOWER = 0.97;
/** After less than 5 s without refusals: the minute still contains requests from before them. */
const LOWER_SOON = 0.9;
/** A window refuses at least this long; a bucket refuses for less. */
const LONG_MS = 10_000;
/** A probe is sent at most this long after the end of a window. */
const OVERLONG_MS = 5_000;
/** Share of the most that was accepted in a minute. Refusals that end at once do not lower the rate below it. */
const KEPT = 1 / 4;
/** One request a minute. */
const RATE_MIN = 1 / 60_000;
const SAMPLE_MIN = 20;
const SAMPLE_MS_MIN = 5_000;
const SEARCH_FACTOR = 1.15;
const SEARCH_EVERY_MS = 1_000;
/** 20 requests a minute: from 1 a minute, a search would take minutes. */
const SEARCH_RATE_MIN = 20 / 60_000;
/** 1,000 requests a second: pacing has no effect any more. */
const SEARCH_RATE_MAX = 1;
/** With more accepted requests the estimate is good enough without a search. */
const SEARCH_REQUESTS_MAX = 100;
/** Fewer accepted requests show no limit, even if the refusals last as long as a sliding minute. */
const WINDOW_REQUESTS_MIN = 5;
const RAISE_EVERY_REQUESTS = 150;
const RAISE_DOUBLINGS_MAX = 4;
/** From 98 % of a limit to 2 % above it: each kind of limit refuses that within a minute. */
const FIRST_RAISE = 0.04;
/** Share of the rate that must have been used before it rises. */
const USED = 0.9;
/** A timer that is late by less than this does not reduce the rate. */
const CREDIT_MS = 100;

/** The relative size of the next raise, 0.01 to 0.16: it doubles with each of the `raises` since the last refusal. */
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
  /** When the probe of the previous hold was accepted. */
  readonly sinceMs: number;
  /** Requests since `sinceMs`. */
  readonly taken: number;
  /** Requests in the minute before the first refusal. */
  readonly minuteHeld: number;
  /** Requests in the minute before the last refusal. */
  readonly minuteRefused: number;
  /** Whether so many probes were refused that the time between them reached its maximum. */
  readonly isLong: boolean;
  /** Whether answers take so long that tokens, counted late, explain any refusals. */
  readonly isLate: boolean;
}

/** One per lane. Times are monotonic. */
export class HiddenRate {
  readonly #minute: Minute;
  readonly #window: RateWindow;
  readonly #search = new RateSearch();
  /** Requests a millisecond; 0 while none was found. */
  #rate = 0;
  /** When the next request may be sent. */
  #nextMs = Number.NEGATIVE_INFINITY;
  /** Sums of earlier times between probes that were too short to be evidence. */
  #past = { requests: 0, forMs: 0 };
  /** Whether answers take so long that refusals show late. */
  #isLate = false;
  #raisedAtMs: number;
  #raises = 0;
  /** Requests since the last raise. */
  #sent = 0;

  /** `minute` counts the accepted requests. */
  constructor(nowMs: number, minute: Minute) {
    this.#minute = minute;
    this.#window = new RateWindow(nowMs, minute);
    this.#raisedAtMs = nowMs;
  }

  get isKnown(): boolean {
    return this.#rate > 0;
  }

  /** Requests a minute; 0 while none was found. */
  get perMinute(): number {
    return this.#rate > 0 ? Math.max(1, Math.round(this.#rate * 60_000)) : 0;
  }

  /** Whether the rate rises until a refusal shows whether a window of a minute explains the earlier refusals. */
  get isTrying(): boolean {
    return this.#search.isTrying;
  }

  /** Milliseconds until one more request may be sent; 0 for now. */
  waitMs(nowMs: number): number {
    this.#raise(nowMs);
    if (this.#window.isFull(nowMs)) return MINUTE_SLOT_MS / 2;
    return Math.max(0, this.#nextMs - nowMs);
  }

  /** Counts a request that is sent, for the pace. */
  sent(nowMs: number): void {
    this.#nextMs = Math.max(this.#nextMs, nowMs - CREDIT_MS) + 1 / this.#rate;
    this.#sent += 1;
  }

  /** Chance refused a request that was counted: it used nothing. */
  unsent(): void {
    this.#nextMs -= 1 / this.#rate;
    this.#sent -= 1;
  }

  /** Milliseconds from one request to the next; 0 while no rate was found. */
  get everyMs(): number {
    return this.#rate > 0 ? 1 / this.#rate : 0;
  }

  /** Refusals begin; `minuteRequests` were accepted in the minute before. */
  held(minuteRequests: number): void {
    this.#window.held(minuteRequests);
  }

  /** Returns a function that restores the present rate. */
  keep(): () => void {
    const [rate, nextMs, raisedAtMs, raises] = [this.#rate, this.#nextMs, this.#raisedAtMs, this.#raises];
    const past = this.#past;
    const undo = [this.#window.keep(), this.#search.keep()];
    return () => {
      [this.#rate, this.#nextMs, this.#raisedAtMs, this.#raises] = [rate, nextMs, raisedAtMs, raises];
      this.#past = past;
      for (const each of undo) each();
    };
  }

  /** The refusals were attributed to places. The next ones show whether a window allows `minuteRequests` again. */
  doubted(minuteRequests: number): void {
    this.#window.expect(minuteRequests);
  }

  /** A probe was accepted at `atMs`, after refusals that show nothing about a rate. */
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
   * Estimates the rate when a probe was accepted. Returns the time from which the next evidence counts.
   */
  learn(evidence: RateEvidence): number {
    const { takenAtMs, heldAtMs, minuteHeld, isLong } = evidence;
    const wasTrying = this.#search.isTrying;
    // A request between the two would have been accepted; the probes in a search are too far apart to show more.
    const atMs = wasTrying ? takenAtMs : (takenAtMs + evidence.probeRefusedAtMs) / 2;
    const before = this.#rate;
    this.#isLate = evidence.isLate;
    this.#sent = 0;
    this.#raisedAtMs = takenAtMs;
    if (this.#window.learn(takenAtMs, minuteHeld)) {
      const window = minuteHeld / WINDOW_MS;
      const isSoon = heldAtMs - evidence.sinceMs < SAMPLE_MS_MIN && !evidence.isLate;
      const lower = isSoon ? before * LOWER_SOON : Math.max(before, window) * LOWER;
      this.#rate = Math.min(window * BELOW, lower);
      this.#search.end();
    } else if (atMs - evidence.sinceMs >= LONG_MS) this.#learnLong(evidence, before);
    else this.#learnShort(evidence.taken - 1, atMs - evidence.sinceMs, before);
    if (isLong || takenAtMs - heldAtMs >= LONG_MS) this.#window.forgetMost();
    const kept = this.#window.most * KEPT;
    this.#rate = Math.max(RATE_MIN, kept, this.#rate);
    this.#raises = 0;
    this.#nextMs = takenAtMs + 1 / this.#rate;
    return this.#search.isTrying ? takenAtMs : atMs;
  }

  #learnLong(evidence: RateEvidence, before: number): void {
    const found = this.#search.isTrying
      ? (evidence.taken - 1) / (evidence.takenAtMs - evidence.sinceMs)
      : this.#windowRate(evidence, before === 0);
    this.#rate = before === 0 || this.#search.isOn ? found * BELOW : Math.min(found * BELOW, before * LOWER);
    this.#past = { requests: 0, forMs: 0 };
    if (!this.#isDoubtful(evidence, before === 0)) {
      this.#search.end();
      return;
    }
    this.#search.try(evidence.probeRefusedAtMs);
    this.#rate = Math.max(SEARCH_RATE_MIN, this.#rate);
  }

  /** Whether no window of a minute explains refusals of 10 s and more, or too few requests show one. */
  #isDoubtful(evidence: RateEvidence, isFirst: boolean): boolean {
    const { takenAtMs, heldAtMs, probeRefusedAtMs, taken, minuteHeld } = evidence;
    if (evidence.isLate || takenAtMs - heldAtMs < LONG_MS) return false;
    if (!isFirst) {
      if (!this.#search.isTrying || !this.#search.hasTrials) return false;
      const isEarly = takenAtMs < this.#search.openMs + WINDOW_MS - 2 * MINUTE_SLOT_MS;
      return isEarly || probeRefusedAtMs > evidence.sinceMs + WINDOW_MS + MINUTE_SLOT_MS;
    }
    if (taken > SEARCH_REQUESTS_MAX) return false;
    if (takenAtMs - heldAtMs > WINDOW_MS + OVERLONG_MS || minuteHeld < WINDOW_REQUESTS_MIN) return true;
    const aged = minuteHeld + 1 - this.#minute.count(takenAtMs);
    return aged <= SAME * minuteHeld;
  }

  /** Adds up short times between probes, because a single one is weak evidence. */
  #learnShort(taken: number, forMs: number, before: number): void {
    const past = { requests: this.#past.requests + taken, forMs: this.#past.forMs + Math.max(1, forMs) };
    const found = (past.requests / past.forMs) * BELOW;
    const isSample = past.requests >= SAMPLE_MIN && past.forMs >= SAMPLE_MS_MIN && before > 0;
    this.#rate = isSample || before === 0 ? found : Math.max(before / 4, Math.min(found, before * 0.9));
    if (isSample) this.#search.end();
    else this.#search.begin();
    // The first content of a bucket shows nothing about its rate, and old samples show nothing about the present rate.
    const isOver = before === 0 || (past.forMs > LONG_MS && isSample);
    this.#past = isOver ? { requests: 0, forMs: 0 } : past;
  }

  /** Requests a millisecond that a window of a minute accepts, after it refused for long. */
  #windowRate(
    { takenAtMs, heldAtMs, sinceMs, taken, minuteHeld, minuteRefused, isLate }: RateEvidence,
    isFirst: boolean,
  ): number {
    // Accepted requests used tokens after the refusals had begun, so the whole time is better evidence than the minute.
    const isLong = takenAtMs - heldAtMs > WINDOW_MS - 5_000;
    if (isFirst && !isLong) return minuteHeld / WINDOW_MS;
    if (isLong || takenAtMs - sinceMs < WINDOW_MS - 5_000) {
      const found = taken / (takenAtMs - sinceMs);
      // Earlier requests may have been rare for reasons other than the limit.
      return isLong && !isLate ? Math.max(found, minuteHeld / (takenAtMs - heldAtMs + WINDOW_MS)) : found;
    }
    return (minuteRefused + this.#minute.count(takenAtMs)) / 2 / WINDOW_MS; // the mean of an upper and a lower estimate
  }

  #raise(nowMs: number): void {
    const elapsedMs = nowMs - this.#raisedAtMs;
    if (elapsedMs < SEARCH_EVERY_MS) return;
    const requestMs = 1 / this.#rate;
    const everyMs = this.#search.isOn
      ? Math.max(SEARCH_EVERY_MS, requestMs)
      : Math.max(RAISE_EVERY_MS, Math.min(RAISE_EVERY_MS_MAX, RAISE_EVERY_REQUESTS * requestMs));
    if (elapsedMs < everyMs) return;
    const isUsed = this.#sent * requestMs >= elapsedMs * USED;
    this.#raisedAtMs = nowMs;
    this.#sent = 0;
    if (!isUsed) return;
    if (this.#raises > 0 && !this.#isLate) this.#search.begin();
    const share = this.#raises === 0 ? FIRST_RAISE : raiseShare(this.#raises);
    const factor = this.#search.isOn ? SEARCH_FACTOR : 1 + Math.max(share, requestMs / everyMs);
    this.#rate *= factor;
    this.#window.raise(factor);
    if (this.#rate >= SEARCH_RATE_MAX) this.#search.end();
    this.#raises += 1;
  }
}
