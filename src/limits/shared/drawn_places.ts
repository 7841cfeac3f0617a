/**
 * How many requests one process may have in flight of a limit that several share: its side of `shared_places.ts`. Pure;
 * `engine/limits/limit_draws.ts` asks for it, every 500 ms and when a request lacks a place.
 *
 *   none --a request lacks a place--> lacking --answered--> has places --90 % of their life, from before the ask--> only those in flight
 *   has places --nothing was sent since the last ask--> gives them back
 *
 * An ask that was not answered is repeated unchanged, because it may have been booked. What it gives back is not used meanwhile.
 */
import type { PlacesAsk, PlacesGrant } from "./shared_places.ts";

/** The part of a grant's life that this process uses by its own clock, as in drawn_units.ts. */
const USED_LIFE = 0.9;
const SPARE = 1.25;
const GROWTH = 2;
/** What a process that lacks a place asks for at least. */
const LACKING_MIN = 8;

interface Asked {
  readonly ask: PlacesAsk;
  /** When it was first sent. */
  readonly sentMs: number;
}

export class DrawnPlaces {
  readonly #terms: Pick<PlacesAsk, "holder" | "limit" | "lastsMs">;
  readonly #onLack: () => void;
  #inFlight = 0;
  /** The most since the last ask. */
  #peak = 0;
  #isLacking = false;
  #places = 0;
  #untilMs = Number.NEGATIVE_INFINITY;
  #sequence = 0;
  #asked: Asked | undefined;
  /** Whether the pool charges something to this process, as of the last answer. */
  #isCharged = false;

  /** `holder`: this process, unique for its life. `limit`: as configured. `lastsMs`: how long one request may last. `onLack`: asks soon. */
  constructor(holder: string, limit: number, lastsMs: number, onLack: () => void) {
    this.#terms = { holder, limit, lastsMs };
    this.#onLack = onLack;
  }

  /** As of the last answer, those in flight at least. */
  get places(): number {
    return Math.max(this.#places, this.#inFlight);
  }

  /** Whether one more request may be started; if not, the next ask is for more. */
  hasRoom(nowMs: number): boolean {
    if (nowMs < this.#untilMs && this.#inFlight < this.#places) return true;
    this.#isLacking = true;
    this.#onLack();
    return false;
  }

  /** Whether a request that has a place, and was not started yet, may be started now. */
  mayStart(nowMs: number): boolean {
    return nowMs < this.#untilMs;
  }

  take(): void {
    this.#inFlight += 1;
    if (this.#inFlight > this.#peak) this.#peak = this.#inFlight;
  }

  /** A place that others wait for is reported at once. */
  free(): void {
    this.#inFlight -= 1;
    if (this.#inFlight >= this.#places) this.#onLack();
  }

  /** Nothing more is sent: the next ask gives back all places that no request is in. */
  end(): void {
    this.#isLacking = false;
    this.#peak = this.#inFlight;
  }

  /** What to ask now; undefined when there is nothing to ask or report. */
  ask(nowMs: number): PlacesAsk | undefined {
    if (this.#asked !== undefined) return this.#asked.ask;
    if (nowMs >= this.#untilMs) this.#places = 0;
    const wanted = Math.min(this.#terms.limit, this.#wanted());
    const held = Math.max(this.#inFlight, Math.min(this.#places, wanted));
    const isNothing = held === 0 && wanted === 0 && !this.#isCharged;
    this.#isLacking = false;
    this.#peak = this.#inFlight;
    if (isNothing) return undefined;
    this.#sequence += 1;
    this.#asked = { ask: { ...this.#terms, sequence: this.#sequence, held, wanted }, sentMs: nowMs };
    this.#places = Math.min(this.#places, held);
    return this.#asked.ask;
  }

  /** Takes the answer to the ask under way. */
  answered({ places, lifeMs }: PlacesGrant): void {
    if (this.#asked === undefined) return;
    const { ask, sentMs } = this.#asked;
    this.#asked = undefined;
    this.#places = places;
    this.#untilMs = sentMs + lifeMs * USED_LIFE;
    this.#isCharged = Math.max(places, ask.held) > 0;
  }

  #wanted(): number {
    if (this.#isLacking) return Math.max(LACKING_MIN, this.#peak * GROWTH);
    return Math.ceil(this.#peak * SPARE);
  }
}
