/**
 * Finds an unknown limit: no configuration, no header, no Retry-After, only 429s. One for a lane, or for lanes
 * (models) that turned out to share one.
 *
 *   free --refused--> held --a probe is taken--> places --refused again and again below its cap--> rate
 *                      |  \--refused with nothing in flight, later a probe is taken--> rate
 *   places, rate --refused--> held --a probe is taken--> places, rate
 *
 * Held: nothing is sent but single probes: when a place is free again (not at a rate), after 0.5 s, 1 s, ... 16 s, and when
 * a minute is over since the last time that a probe was taken. A 429 comes at once and an answer late, so what was not refused within
 * twice the time of the slowest refusal counts as taken.
 *
 * Places: what is in flight when the refusals have stopped is what the provider works on at once; one that limits places
 * never refuses below that.
 *
 * Rate: what was taken in a minute when refusals began is what a sliding window holds, if it is the same twice (4 %), or if a
 * window refuses for long (10 s). Otherwise, between the first request taken after refusals and the first one taken after
 * the next refusals the provider has taken what it allows, whatever it counts by: `rate = taken / time`. Sent is at an
 * even pace of 98 % of it, which no window refuses. Upwards by 1, 2, 4, ... 16 % after every 30 s and 150 requests (2 minutes
 * where those take longer, and then by one request at least); by 15 % a second while the rate comes from fewer than 20 requests.
 *
 * Not every refusal is one of a limit, and lower rates would never end those that are not:
 *
 *   all are refused for longer than two windows    the earlier result stays, because no window does that
 *   the next probe is accepted                     the rate rises further from where it was
 *   one of the first probes is taken, within 10 s  not below a quarter of the most that was taken in a minute
 *
 * Tokens are not counted: a limit of tokens shows as one of requests of their mean size.
 */
import { MINUTE_SLOT_MS, Minute } from "./minute.ts";

const HELD_MS_START = 500;
const HELD_LEVEL_MAX = 3;
const WINDOW_MS = 60_500;
const REFUSAL_MS_START = 150;
const REFUSAL_MS_MAX = 3_000;
const BELOW = 0.98;
const LOWER = 0.97;
/** Counts of a minute that differ by less are the same. */
const SAME = 0.04;
/** Refusals for so long are those of a window; shorter ones those of a bucket. */
const LONG_MS = 10_000;
/** Everything is refused for so long: two windows. */
const STOP_MS = 2 * WINDOW_MS;
/** Of the most that was taken in a minute: what refusals that are over at once leave. */
const KEPT = 1 / 4;
/** One a minute. */
const RATE_MIN = 1 / 60_000;
const SAMPLE_MIN = 20;
const SAMPLE_MS_MIN = 5_000;
const SEARCH_FACTOR = 1.15;
const SEARCH_EVERY_MS = 1_000;
const RAISE_EVERY_MS = 30_000;
const RAISE_EVERY_MS_MAX = 120_000;
const PLACES_SEARCH_EVERY_MS = 3_000;
const RAISE_EVERY_REQUESTS = 150;
const RAISE_DOUBLINGS_MAX = 4;
/** Episodes of refusals below the cap within a minute that say that it is not places that are limited. */
const CONTRADICTIONS_MAX = 3;
/** What a timer may be late without losing pace. */
const CREDIT_MS = 100;

/** One request, as its limit sees it: the permit itself, so that nothing more is made for it. */
export interface HiddenMark {
  readonly atMs: number;
  /** Whether it is counted: it was granted while no rate was known, and has not ended. */
  isHidden: boolean;
}

/** What another process may begin with. */
export interface HiddenState {
  /** Requests in flight, where places are limited. */
  readonly places?: number;
  /** Requests a minute. */
  readonly requests?: number;
}

/** Times are monotonic. One for a lane. */
export class HiddenLimit {
  #mode: "free" | "places" | "rate" = "free";
  #inFlight = 0;
  /** Slowest refusal so far, fading. */
  #refusalMs = REFUSAL_MS_START;
  /** Held since then; undefined while not. */
  #heldAtMs: number | undefined;
  #heldLevel = 0;
  #refusedAtMs = Number.NEGATIVE_INFINITY;
  #probe: HiddenMark | undefined;
  #probeAtMs = Number.POSITIVE_INFINITY;
  /** When the minute is over in which the refusals began. */
  #windowAtMs = Number.POSITIVE_INFINITY;
  /** A place that is free again allows a probe while no more than so many are in flight. */
  #probeBelow = Number.POSITIVE_INFINITY;
  #probeInFlight = 0;
  #probeRefusedAtMs = Number.NEGATIVE_INFINITY;
  /** In flight after the refusals had stopped; undefined until then. */
  #placesSeen: number | undefined;
  /** Places: in flight at most, and how many of them were never refused. */
  #cap = Number.POSITIVE_INFINITY;
  #capProven = 0;
  #capOpen = Number.POSITIVE_INFINITY;
  #contradictions: number[] = [];
  /** Since a probe was taken last. */
  #sinceMs: number;
  /** Requests taken since then. */
  #taken = 0;
  /** Requests taken in the last minute. */
  readonly #minute = new Minute();
  /** The same, when refusals began the last time; whether it was the same the time before. */
  #windowUnits = 0;
  #isWindow = false;
  /** The most of them, when refusals began, since a window has refused for long. */
  #mostUnits = 0;
  readonly #startMs: number;
  /** The same, at the first refusal and at the last one. */
  #minuteHeld = 0;
  #minuteRefused = 0;
  /** Of earlier such times, while they were too short to say much. */
  #past = { requests: 0, forMs: 0 };
  /** Requests a millisecond. */
  #rate = 0;
  /** When the next one may go. */
  #nextMs = Number.NEGATIVE_INFINITY;
  #isSearching = false;
  #raisedAtMs = 0;
  #raises = 0;

  constructor(nowMs: number) {
    this.#sinceMs = this.#startMs = nowMs;
  }

  get isHeld(): boolean {
    return this.#heldAtMs !== undefined;
  }

  /** Milliseconds until one more may go; 0 for now, Infinity when only an answer helps. */
  waitMs(nowMs: number): number {
    if (this.#heldAtMs !== undefined) {
      const heldMs = this.#heldMs(nowMs);
      if (this.#heldAtMs !== undefined || heldMs > 0) return heldMs;
    }
    if (this.#mode === "places") {
      this.#raisePlaces(nowMs);
      return this.#inFlight < Math.min(this.#cap, this.#capOpen) ? 0 : Number.POSITIVE_INFINITY;
    }
    if (this.#mode !== "rate") return 0;
    this.#raiseRate(nowMs);
    if (this.#isWindow && this.#minute.count(nowMs) >= this.#windowUnits) return MINUTE_SLOT_MS / 2;
    return Math.max(0, this.#nextMs - nowMs);
  }

  /** Counts a request that is sent, after `waitMs` returned 0. */
  sent(nowMs: number, mark: HiddenMark): void {
    if (this.#heldAtMs !== undefined) {
      this.#probe = mark;
      this.#probeInFlight = this.#inFlight + 1;
      if (nowMs >= this.#windowAtMs) this.#windowAtMs = Number.POSITIVE_INFINITY;
    }
    this.#inFlight += 1;
    this.#taken += 1;
    this.#minute.add(nowMs, 1);
    if (this.#mode !== "rate") return;
    this.#nextMs = Math.max(this.#nextMs, nowMs - CREDIT_MS) + 1 / this.#rate;
  }

  /** It was refused for a rate, and nobody said for how long. */
  refused(nowMs: number, mark: HiddenMark): void {
    if (!mark.isHidden) return;
    mark.isHidden = false;
    this.#inFlight -= 1;
    this.#taken -= 1;
    this.#minute.add(mark.atMs, -1);
    this.#refusalMs = Math.min(REFUSAL_MS_MAX, Math.max(this.#refusalMs * 0.95, nowMs - mark.atMs));
    this.#refusedAtMs = nowMs;
    this.#minuteRefused = this.#minute.count(nowMs);
    if (this.#heldAtMs === undefined || nowMs - this.#heldAtMs < 2 * this.#refusalMs)
      this.#minuteHeld = this.#minuteRefused;
    if (this.#heldAtMs === undefined && this.#mode === "places" && this.#cap > this.#capProven) {
      this.#cap = this.#capProven;
      this.#raises += 1;
    } else if (this.#heldAtMs === undefined) this.#hold(nowMs);
    else if (mark === this.#probe) this.#probeRefused(nowMs);
  }

  /** It was refused, and the provider said for how long: nothing is to be found out. */
  told(mark: HiddenMark): void {
    if (!mark.isHidden) return;
    mark.isHidden = false;
    this.#inFlight -= 1;
    this.#taken -= 1;
    this.#minute.add(mark.atMs, -1);
    if (mark === this.#probe) this.#probe = undefined;
  }

  /** It ended in another way: the provider had taken it. */
  ended(nowMs: number, mark: HiddenMark): void {
    if (!mark.isHidden) return;
    mark.isHidden = false;
    this.#inFlight -= 1;
    this.#capOpen += 1;
    if (this.#heldAtMs === undefined) return;
    if (mark === this.#probe) this.#leave(mark.atMs);
    else if (this.#mode !== "rate" && this.#probe === undefined && this.#inFlight <= this.#probeBelow)
      this.#probeAtMs = Math.min(this.#probeAtMs, nowMs);
  }

  /** Requests that may be in flight; Infinity while no limit of places was found. */
  get places(): number {
    return this.#mode === "places" ? this.#cap : Number.POSITIVE_INFINITY;
  }

  /** Milliseconds until the next probe, at least 1, while it is held; else 0. */
  heldMs(nowMs: number): number {
    if (this.#heldAtMs === undefined) return 0;
    return Math.max(1, Math.min(this.#windowAtMs, this.#probeAtMs) - nowMs);
  }

  /** Undefined while no rate was found. */
  use(nowMs: number): { readonly used: number; readonly limit: number } | undefined {
    if (this.#mode !== "rate" || this.#rate === 0) return undefined;
    return { used: this.#minute.count(nowMs), limit: Math.max(1, Math.round(this.#rate * 60_000)) };
  }

  /** Undefined while nothing is known. */
  state(): HiddenState | undefined {
    if (this.#mode === "places") return { places: this.#capProven };
    if (this.#mode !== "rate") return undefined;
    return this.#rate > 0 ? { requests: Math.max(1, Math.round(this.#rate * 60_000)) } : undefined;
  }

  /** Continues with what an earlier process found. To be called once, before anything is sent. */
  restore(nowMs: number, { places, requests = 0 }: HiddenState): void {
    this.#sinceMs = this.#raisedAtMs = nowMs;
    if (places !== undefined) {
      this.#mode = "places";
      this.#cap = this.#capProven = Math.max(1, places);
      this.#capOpen = Math.ceil(this.#cap / 4); // what the process before had in flight may still be at work
    } else if (requests > 0) {
      this.#mode = "rate";
      this.#rate = Math.max(RATE_MIN, requests / 60_000);
    }
  }

  #hold(nowMs: number): void {
    this.#heldAtMs = nowMs;
    this.#mostUnits = Math.max(this.#mostUnits, this.#minuteRefused);
    this.#heldLevel = 0;
    this.#probe = undefined;
    this.#placesSeen = undefined;
    this.#probeAtMs = nowMs + HELD_MS_START;
    this.#probeRefusedAtMs = nowMs;
    this.#probeBelow = Number.POSITIVE_INFINITY;
    this.#windowAtMs =
      this.#sinceMs + WINDOW_MS > nowMs ? this.#sinceMs + WINDOW_MS : Number.POSITIVE_INFINITY;
    if (this.#mode !== "places") return;
    this.#contradictions = this.#contradictions.filter((atMs) => nowMs - atMs < WINDOW_MS);
    this.#contradictions.push(nowMs);
    if (this.#contradictions.length >= CONTRADICTIONS_MAX) this.#mode = "rate";
  }

  /** What is left of the wait; 0 when a probe may go, or when a probe was taken: then it is held no more. */
  #heldMs(nowMs: number): number {
    const confirmMs = 2 * this.#refusalMs;
    if (this.#probe !== undefined) {
      const leftMs = this.#probe.atMs + confirmMs - nowMs;
      if (leftMs > 0) return leftMs;
      this.#leave(this.#probe.atMs);
      return 0;
    }
    const settleMs = this.#refusedAtMs + this.#refusalMs / 2 - nowMs;
    if (settleMs > 0) return settleMs;
    if (this.#placesSeen === undefined) this.#placesSeen = this.#inFlight;
    return Math.max(0, Math.min(this.#windowAtMs, this.#probeAtMs) - nowMs);
  }

  #probeRefused(nowMs: number): void {
    this.#probe = undefined;
    this.#probeRefusedAtMs = nowMs;
    this.#heldLevel = Math.min(HELD_LEVEL_MAX, this.#heldLevel + 1);
    this.#probeAtMs = nowMs + HELD_MS_START * 2 ** this.#heldLevel;
    if (this.#mode === "free" && this.#inFlight < (this.#placesSeen ?? 0)) this.#mode = "rate";
    if (this.#mode === "rate") return;
    this.#placesSeen = this.#inFlight;
    this.#probeBelow = Math.floor(this.#inFlight * 0.8);
    if (this.#inFlight === 0) this.#mode = "rate";
  }

  /** A probe that was sent at `atMs` was taken. */
  #leave(atMs: number): void {
    const heldAtMs = this.#heldAtMs ?? atMs;
    this.#heldAtMs = undefined;
    this.#probe = undefined;
    this.#capOpen = this.#inFlight + 1;
    if (atMs - heldAtMs > STOP_MS) {
      this.#goOn(atMs);
      return;
    }
    const isSingle = this.#mode === "rate" && this.#rate > 0 && this.#heldLevel === 0;
    if (!isSingle) this.#raisedAtMs = atMs;
    if (this.#mode === "rate") this.#learnRate(atMs, heldAtMs);
    else {
      this.#sinceMs = atMs;
      this.#mode = "places";
      this.#cap = this.#capProven = Math.max(
        1,
        this.#probeBelow === Number.POSITIVE_INFINITY
          ? (this.#placesSeen ?? this.#inFlight)
          : this.#probeInFlight,
      );
    }
    this.#taken = 1;
  }

  /** It was refused for longer than any window: that says nothing of a limit. */
  #goOn(atMs: number): void {
    if (this.#mode === "rate" && this.#rate === 0) this.#mode = "free";
    this.#sinceMs = this.#raisedAtMs = atMs;
    this.#taken = 1;
    this.#raises = 0;
    this.#nextMs = atMs + (this.#mode === "rate" ? 1 / this.#rate : 0);
  }

  #learnRate(takenAtMs: number, heldAtMs: number): void {
    const atMs = (takenAtMs + this.#probeRefusedAtMs) / 2; // it would have been taken somewhere in between
    const before = this.#rate;
    const sinceMs = atMs - this.#sinceMs;
    const isWindow =
      Math.abs(this.#minuteHeld / this.#windowUnits - 1) < SAME && takenAtMs - this.#startMs > WINDOW_MS;
    this.#windowUnits = this.#minuteHeld;
    this.#isWindow = isWindow;
    if (isWindow) {
      this.#rate = Math.min(
        (this.#windowUnits / WINDOW_MS) * BELOW,
        Math.max(before, this.#windowUnits / WINDOW_MS) * LOWER,
      );
      this.#isSearching = false;
    } else if (sinceMs >= LONG_MS) {
      const found = this.#windowRate(takenAtMs, before === 0, heldAtMs) * BELOW;
      this.#rate = before === 0 || this.#isSearching ? found : Math.min(found, before * LOWER);
      this.#isSearching = false;
      this.#past = { requests: 0, forMs: 0 };
    } else {
      this.#past.requests += this.#taken;
      this.#past.forMs += Math.max(1, sinceMs);
      const { requests, forMs } = this.#past;
      const found = (requests / forMs) * BELOW;
      const isSample = requests >= SAMPLE_MIN && forMs >= SAMPLE_MS_MIN && before > 0;
      this.#rate = isSample || before === 0 ? found : Math.max(before / 4, Math.min(found, before * 0.9));
      this.#isSearching = !isSample;
      // What a bucket held at first says nothing of what it earns, and what was long ago nothing of today.
      if (before === 0 || (forMs > LONG_MS && isSample)) this.#past = { requests: 0, forMs: 0 };
    }
    if (this.#heldLevel >= HELD_LEVEL_MAX || takenAtMs - heldAtMs >= LONG_MS) this.#mostUnits = 0;
    const kept = (this.#mostUnits / WINDOW_MS) * KEPT;
    this.#rate = Math.max(RATE_MIN, kept, this.#rate);
    this.#sinceMs = atMs;
    this.#raises = 0;
    this.#nextMs = takenAtMs + 1 / this.#rate;
  }

  /** Requests a millisecond that a window of a minute has taken which refused for a long time. */
  #windowRate(takenAtMs: number, isFirst: boolean, heldAtMs: number): number {
    // Accepted requests used tokens after the refusals had begun, so the whole time is better evidence than the minute.
    const isLong = takenAtMs - heldAtMs > WINDOW_MS - 5_000;
    if (isFirst && !isLong) return this.#minuteHeld / WINDOW_MS;
    if (isLong || takenAtMs - this.#sinceMs < WINDOW_MS - 5_000)
      return this.#taken / (takenAtMs - this.#sinceMs);
    return (this.#minuteRefused + this.#minute.count(takenAtMs)) / 2 / WINDOW_MS; // too many, and few enough
  }

  #raisePlaces(nowMs: number): void {
    const everyMs = this.#raises === 0 ? PLACES_SEARCH_EVERY_MS : RAISE_EVERY_MS * 2 ** (this.#raises - 1);
    if (nowMs - this.#raisedAtMs < everyMs || this.#inFlight < this.#cap) return;
    this.#capProven = this.#cap;
    this.#cap += Math.max(1, Math.floor(this.#cap / (this.#raises === 0 ? 10 : 50)));
    this.#capOpen = Number.POSITIVE_INFINITY;
    this.#raisedAtMs = nowMs;
  }

  #raiseRate(nowMs: number): void {
    const elapsedMs = nowMs - this.#raisedAtMs;
    if (elapsedMs < SEARCH_EVERY_MS) return;
    const requestMs = 1 / this.#rate;
    const everyMs = this.#isSearching
      ? Math.max(SEARCH_EVERY_MS, requestMs)
      : Math.max(RAISE_EVERY_MS, Math.min(RAISE_EVERY_MS_MAX, RAISE_EVERY_REQUESTS * requestMs));
    if (elapsedMs < everyMs) return;
    const share = 0.01 * 2 ** Math.min(RAISE_DOUBLINGS_MAX, this.#raises);
    const factor = this.#isSearching ? SEARCH_FACTOR : 1 + Math.max(share, requestMs / everyMs);
    this.#rate *= factor;
    this.#windowUnits *= factor;
    this.#raises += 1;
    this.#raisedAtMs = nowMs;
  }
}
