/**
 * Requests in flight during a hold (hold.ts), which show how many a provider works on at once: those left when the refusals have
 * stopped, or those at the first probe that is accepted after refused ones.
 */

/** Share of the requests in flight. A provider that limits places accepts the next request before so few are left. */
const PLACES_KEPT = 0.4;
/** Share of the requests in flight with a refused probe. Below it, the next free place allows one more probe. */
const BELOW = 0.8;

/** One for each lane, reused for each hold. */
export class HeldPlaces {
  /** Requests in flight when the hold began. */
  #begun = 0;
  /** Requests in flight after the refusals had stopped; undefined until then. */
  #seen: number | undefined;
  /** Requests in flight with the last probe. */
  #probed = 0;
  /** A free place allows a probe if at most this many requests are in flight. */
  #below = Number.POSITIVE_INFINITY;

  /** A hold begins. */
  begin(inFlight: number): void {
    this.#begun = inFlight;
    this.#seen = undefined;
    this.#below = Number.POSITIVE_INFINITY;
  }

  /** The refusals have stopped. Only the first call in a hold counts. */
  settled(inFlight: number): void {
    this.#seen ??= inFlight;
  }

  /** A probe is sent; `inFlight` includes it. */
  probed(inFlight: number): void {
    this.#probed = inFlight;
  }

  /** A probe was refused while `inFlight` others were in flight. */
  refused(inFlight: number): void {
    this.#seen = inFlight;
    this.#below = Math.floor(inFlight * BELOW);
  }

  /** Whether a place that became free, with `inFlight` left, allows a probe. */
  isFreed(inFlight: number): boolean {
    return inFlight <= this.#below;
  }

  /** Whether too few are left at a refusal for places to explain it. `isFirst`: no limit was found yet. */
  isBelow(inFlight: number, isFirst: boolean): boolean {
    return inFlight < (isFirst ? (this.#seen ?? 0) : PLACES_KEPT * this.#begun);
  }

  /** Whether the last probe was sent while most places were still in use. */
  get isProbeAmongMany(): boolean {
    return this.#probed > PLACES_KEPT * this.#begun;
  }

  /** Places that the end of the hold shows, with `inFlight` at that time. */
  found(inFlight: number): number {
    return this.#below === Number.POSITIVE_INFINITY ? (this.#seen ?? inFlight) : this.#probed;
  }
}
