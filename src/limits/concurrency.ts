/**
 * How many requests may be in flight: additive increase, multiplicative decrease, by how answers turn out.
 *
 *   slow start --congestion--> steady;  steady --restart (an outage is over)--> slow start
 *
 * Slow start: +1 per success, which doubles the limit each round trip (64 to 2,048 in five), until the first refusal, or until a
 * quarter of the answers fail. An answer that is read while it arrives is a success at its first part, because its end says no more
 * about places: the limit is at least twice the answers that arrive (1.5 times where first parts take 3 s). With their ends, the last
 * of 500 streams of 5 s that were opened at once began after 12.7 s. Steady: `+ step / limit` per success, with `step = max / 32` (at least 1) per round trip. The limit
 * grows only while at least half of it is in use, because unused places prove nothing.
 *
 * Decrease, at most once per round trip: by half in slow start, later by `share / 2`, where `share` is the moving share of refusals or
 * of failures (weight 1/16, tracked separately): DCTCP's rule (RFC 8257, section 3.3). So a stray refusal among a thousand successes
 * costs little, and a series of them costs half of the limit each round. Why not always half: at 1 % and 1,000 in flight every round
 * has ten refusals, and the limit would sink to the bottom for nothing. Failures (5xx, lost, timeout) are weaker evidence of load than
 * refusals: they count from a quarter of the answers on.
 *
 * Round trip: moving mean of the time from reserve to release (weight 1/8), 1 s before the first.
 */
import { slowStartGain } from "../work/limits.ts";
import { DRAW_MS } from "./shared/drawn_load.ts";
import type { DrawnPlaces } from "./shared/drawn_places.ts";

/** Bounds of a lane's places. */
export interface ConcurrencyOptions {
  /** Requests in flight at most, at least 1. */
  readonly max: number;
  /** Initial limit; min(max, 64). */
  readonly start?: number | undefined;
  /** Where other processes share the places. */
  readonly drawn?: DrawnPlaces | undefined;
}

const START = 64;
const SILENT_MS = 15_000;
const SILENT_GROWTH = 1.5;
const ROUND_TRIP_START_MS = 1_000;
const SHARE_WEIGHT = 1 / 16;
const ROUND_TRIP_WEIGHT = 1 / 8;
const STEPS_TO_MAX = 32;
const FAILED_SHARE_MIN = 1 / 4;

/** One for a lane. Times are monotonic milliseconds. */
export class Concurrency {
  readonly max: number;
  readonly start: number;
  readonly #drawn: DrawnPlaces | undefined;
  #limit: number;
  #inFlight = 0;
  /** Those of which a first part has arrived. */
  #arriving = 0;
  /** When all places were first in use without an answer, or when the limit last grew for that reason. */
  #fullSinceMs: number | undefined;
  #isSlowStart = true;
  readonly #congestion = new Congestion();
  /** Undefined before the first. */
  #roundTripMs: number | undefined;

  constructor(options: ConcurrencyOptions) {
    this.max = Math.max(1, Math.floor(options.max));
    this.start = Math.min(this.max, Math.max(1, Math.floor(options.start ?? START)));
    this.#limit = this.start;
    this.#drawn = options.drawn;
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** Requests that may be in flight now, 1 to max. */
  get limit(): number {
    return Math.floor(this.#limit);
  }

  /** What the limit will reach if nothing is refused: `max` until the first refusal. */
  get limitHoped(): number {
    return this.#isSlowStart ? this.max : this.limit;
  }

  /** The same, of what this process may use now of places that others share. */
  get places(): number {
    return this.#drawn === undefined ? this.limit : Math.max(1, Math.min(this.limit, this.#drawn.places));
  }

  get #step(): number {
    return Math.max(1, this.max / STEPS_TO_MAX);
  }

  get roundTripMs(): number {
    return this.#roundTripMs ?? ROUND_TRIP_START_MS;
  }

  /** Whether one more request may be sent when only `share` (0 to 1) of the limit is open; one in flight is always allowed. */
  hasRoom(share: number): boolean {
    return this.#inFlight < Math.max(1, Math.floor(this.#limit * share));
  }

  /** Milliseconds until a place may be free among those that other processes share; 0 if there is one, or if none are shared. */
  drawnInMs(nowMs: number): number {
    return this.#drawn === undefined || this.#drawn.hasRoom(nowMs) ? 0 : DRAW_MS;
  }

  /** Whether a request that has a place may still be started: others may have its place by now. */
  mayStart(nowMs: number): boolean {
    return this.#drawn === undefined || this.#drawn.mayStart(nowMs);
  }

  /** The share of the limit that must be open for one more request; above 1 when all of it is in use. */
  get shareOfNext(): number {
    return (this.#inFlight + 1) / this.limit;
  }

  /**
   * Milliseconds until the limit grows without an answer: in slow start, by half after every 15 s in which all of it was in use. A
   * refusal arrives at once, but an answer may take minutes. Infinity if it does not grow this way.
   */
  growsInMs(nowMs: number): number {
    if (!this.#isSlowStart || this.#limit >= this.max || this.#congestion.failedShare > 0)
      return Number.POSITIVE_INFINITY;
    if (this.#fullSinceMs === undefined) this.#fullSinceMs = nowMs;
    const waitMs = this.#fullSinceMs + SILENT_MS - nowMs;
    if (waitMs > 0) return waitMs;
    this.#fullSinceMs = nowMs;
    this.#limit = Math.min(this.max, this.#limit * SILENT_GROWTH);
    return 0;
  }

  take(): void {
    this.#inFlight += 1;
    this.#drawn?.take();
  }

  /** Frees one place that was held for `heldMs`; `isArriving`: `begun` was called for it. */
  free(heldMs: number, isArriving = false): void {
    this.#inFlight -= 1;
    this.#drawn?.free();
    if (isArriving) this.#arriving -= 1;
    this.#fullSinceMs = undefined;
    const beforeMs = this.#roundTripMs ?? heldMs;
    this.#roundTripMs = beforeMs + (heldMs - beforeMs) * ROUND_TRIP_WEIGHT;
  }

  /** The first part of an answer arrived `firstMs` after its request. Its end does not count again. */
  begun(firstMs: number): void {
    this.#arriving += 1;
    this.#fullSinceMs = undefined;
    if (!this.#isSlowStart) {
      this.succeeded();
      return;
    }
    this.#congestion.succeeded();
    const proven = this.#arriving * (1 + slowStartGain(firstMs));
    this.#limit = Math.min(this.max, Math.max(this.#limit, proven));
  }

  succeeded(): void {
    this.#congestion.succeeded();
    if (this.#inFlight * 2 < this.#limit) return;
    const gain = this.#isSlowStart ? slowStartGain(this.roundTripMs) : this.#step / this.#limit;
    this.#limit = Math.min(this.max, this.#limit + gain);
  }

  /**
   * An answer that indicates overload. `isRefusal`: the provider refused it, which ends slow start at once; otherwise it only failed.
   * Never cuts below `floor` (at least 1).
   */
  congested(nowMs: number, isRefusal: boolean, floor: number): void {
    const share = this.#congestion.congested(isRefusal);
    if (!isRefusal && share < FAILED_SHARE_MIN) return;
    if (!this.#congestion.cuts(nowMs, this.roundTripMs)) return;
    const cut = this.#isSlowStart ? 0.5 : share / 2;
    this.#isSlowStart = false;
    this.#limit = Math.min(this.#limit, Math.max(floor, 1, this.#limit * (1 - cut)));
  }

  /** Discards what was learnt while everything failed: slow start again, from the higher of the start and the present limit. */
  restart(): void {
    this.#limit = Math.max(this.#limit, this.start);
    this.#isSlowStart = true;
    this.#congestion.restart();
  }
}

/** Evidence of overload: moving shares of refusals and of failures, 0 to 1 each, and the time of the last cut. */
class Congestion {
  #refusedShare = 0;
  #failedShare = 0;
  #cutAtMs = Number.NEGATIVE_INFINITY;

  get failedShare(): number {
    return this.#failedShare;
  }

  succeeded(): void {
    this.#refusedShare -= this.#refusedShare * SHARE_WEIGHT;
    this.#failedShare -= this.#failedShare * SHARE_WEIGHT;
  }

  /** Returns the moving share of refusals, or of failures. */
  congested(isRefusal: boolean): number {
    this.#refusedShare += ((isRefusal ? 1 : 0) - this.#refusedShare) * SHARE_WEIGHT;
    this.#failedShare += ((isRefusal ? 0 : 1) - this.#failedShare) * SHARE_WEIGHT;
    return isRefusal ? this.#refusedShare : this.#failedShare;
  }

  /** Whether a cut is allowed now, at most one per round trip; if so, it is counted as made. */
  cuts(nowMs: number, roundTripMs: number): boolean {
    if (nowMs - this.#cutAtMs < roundTripMs) return false;
    this.#cutAtMs = nowMs;
    return true;
  }

  restart(): void {
    this.#refusedShare = 0;
    this.#failedShare = 0;
  }
}
