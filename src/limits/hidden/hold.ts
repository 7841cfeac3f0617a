/**
 * A hold: after a refusal the lane sends single probes and nothing else, until the provider accepts one.
 *
 *   off --refused--> settling --half the time of a refusal after the last one--> waiting --a probe is sent--> probing
 *   probing --refused--> waiting, for twice as long
 *   probing --answered, or not refused within twice the time of the slowest refusal--> off
 *
 * Waiting ends 0.5 s, 1 s, ... 4 s after a refusal (16 s where answers take long, 8 s and 16 s in a search for a rate), when a
 * place becomes free, and a minute after the last accepted probe.
 */
import { HeldPlaces } from "./held_places.ts";
import { WINDOW_MS } from "./rate_window.ts";

const MINUTE_MS = 60_000;
const WAIT_MS_START = 500;
const LEVEL_MAX = 3;
/** Where answers take long, holds take long as well. */
export const HELD_LEVEL_LATE = 5;
/** After a search, a window refuses for most of a minute. */
export const HELD_LEVEL_TRYING = 4;
const REFUSAL_MS_START = 150;
const REFUSAL_MS_MAX = 3_000;
const REFUSAL_DECAY = 0.95;

/** A request as its limit sees it. The permit implements it, so that a request needs no further object. */
export interface HiddenMark {
  readonly atMs: number;
  /** Whether the limit counts it: it was granted while no rate was known, and has not ended. */
  isHidden: boolean;
  /** Its number among them. */
  index: number;
}

/** One for each lane, reused for each hold. Times are monotonic. */
export class ProbedHold {
  /** What the hold shows about places. */
  readonly places: HeldPlaces = new HeldPlaces();
  /** When it began; undefined while it is off. */
  #atMs: number | undefined;
  #level = 0;
  /** Time of the slowest refusal; each faster one lowers it by 5 %. */
  #refusalMs = REFUSAL_MS_START;
  #refusedAtMs = Number.NEGATIVE_INFINITY;
  #probe: HiddenMark | undefined;
  #probeAtMs = Number.POSITIVE_INFINITY;
  #probeRefusedAtMs = Number.NEGATIVE_INFINITY;
  /** When the minute ends in which the refusals began. */
  #windowAtMs = Number.POSITIVE_INFINITY;
  /** Whether the last probe was the first one after that minute, without the half second by which its end may be late. */
  isOfWindow = false;

  get isOn(): boolean {
    return this.#atMs !== undefined;
  }

  /** When it began; undefined while it is off. */
  get atMs(): number | undefined {
    return this.#atMs;
  }

  /** The probe under way. */
  get probe(): HiddenMark | undefined {
    return this.#probe;
  }

  /** When a probe was last refused, or the hold began. */
  get probeRefusedAtMs(): number {
    return this.#probeRefusedAtMs;
  }

  /** When the next probe may be sent, unless a sliding minute of tokens allows one before. */
  get nextMs(): number {
    return Math.min(this.#windowAtMs, this.#probeAtMs);
  }

  /** Whether enough probes were refused that the time between them reached its maximum. */
  get isLong(): boolean {
    return this.#level >= LEVEL_MAX;
  }

  /** Whether a refusal that arrives now may be to a request from before the hold. */
  isEarly(nowMs: number): boolean {
    return this.#atMs === undefined || nowMs - this.#atMs < 2 * this.#refusalMs;
  }

  /** A refusal arrived after `refusalMs`. */
  refused(nowMs: number, refusalMs: number): void {
    this.#refusalMs = Math.min(REFUSAL_MS_MAX, Math.max(this.#refusalMs * REFUSAL_DECAY, refusalMs));
    this.#refusedAtMs = nowMs;
  }

  /** Begins with the first wait of `level`. Counting began at `sinceMs`. */
  begin(nowMs: number, inFlight: number, level: number, sinceMs: number): void {
    this.#atMs = nowMs;
    this.#level = level;
    this.#probe = undefined;
    this.#probeAtMs = nowMs + WAIT_MS_START * 2 ** level;
    this.#probeRefusedAtMs = nowMs;
    this.#windowAtMs = sinceMs + WINDOW_MS > nowMs ? sinceMs + WINDOW_MS : Number.POSITIVE_INFINITY;
    this.places.begin(inFlight);
  }

  /** Continues a hold that an earlier process began at `atMs`, starting with a probe. */
  restore(nowMs: number, atMs: number, sinceMs: number): void {
    this.begin(nowMs, 0, LEVEL_MAX, sinceMs);
    this.#atMs = atMs;
    this.#probeAtMs = nowMs;
  }

  end(): void {
    this.#atMs = undefined;
    this.#probe = undefined;
  }

  /** A probe is sent; `inFlight` includes it. */
  probed(nowMs: number, mark: HiddenMark, inFlight: number): void {
    this.#probe = mark;
    this.places.probed(inFlight);
    const minuteAtMs = this.#windowAtMs - WINDOW_MS + MINUTE_MS;
    this.isOfWindow = nowMs >= minuteAtMs && this.#probeRefusedAtMs < minuteAtMs;
    if (nowMs >= this.#windowAtMs) this.#windowAtMs = Number.POSITIVE_INFINITY;
  }

  /** The probe was refused. `isLate`: answers take long. */
  probeRefused(nowMs: number, isLate: boolean): void {
    this.#probe = undefined;
    this.#probeRefusedAtMs = nowMs;
    const levelMax = isLate || this.#level > LEVEL_MAX ? HELD_LEVEL_LATE : LEVEL_MAX;
    this.#level = Math.min(levelMax, this.#level + 1);
    this.#probeAtMs = nowMs + WAIT_MS_START * 2 ** this.#level;
  }

  /** A request ended, and `inFlight` are left: a probe may try its place. */
  freed(nowMs: number, inFlight: number): void {
    if (this.#probe === undefined && this.places.isFreed(inFlight))
      this.#probeAtMs = Math.min(this.#probeAtMs, nowMs);
  }

  /** A request is not counted any more. */
  uncount(mark: HiddenMark): void {
    if (mark === this.#probe) this.#probe = undefined;
  }

  /** Milliseconds until a probe that is not refused counts as accepted; not above 0 if it does. */
  confirmMs(nowMs: number, probe: HiddenMark): number {
    return probe.atMs + 2 * this.#refusalMs - nowMs;
  }

  /** Milliseconds until the refusals have stopped; not above 0 if they have. */
  settleMs(nowMs: number): number {
    return this.#refusedAtMs + this.#refusalMs / 2 - nowMs;
  }

  /** Returns a function that restores whether it is on. */
  keep(): () => void {
    const atMs = this.#atMs;
    return () => {
      this.#atMs = atMs;
      if (atMs === undefined) this.#probe = undefined;
    };
  }
}
