/**
 * Requests in flight during a hold (hold.ts), which show how many a provider works on at once: as many as are left when the
 * refusals have stopped, or as many as there are with the first probe that is accepted after refused ones.
 */

/** Share of what was in flight. A provider that limits places accepts the next request before so few are left. */
const PLACES_KEPT = 0.4;
/** Share of what was in flight with a refused probe. The next place that becomes free below it allows one more. */
const BELOW = 0.8;

/** One for each lane, used again for each hold. */
export class HeldPlaces {
  /** In flight when the hold began. */
  #begun = 0;
  /** In flight after the refusals had stopped; undefined until then. */
  #seen: number | undefined;
  /** With the last probe. */
  #probed = 0;
  /** A place that becomes free allows a probe while at most so many requests are in flight. */
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

  /** A probe was refused beside `inFlight` others. */
  refused(inFlight: number): void {
    this.#seen = inFlight;
    this.#below = Math.floor(inFlight * BELOW);
  }

  /** Whether a place that becomes free, with `inFlight` left, allows a probe. */
  isFreed(inFlight: number): boolean {
    return inFlight <= this.#below;
  }

  /** Whether so few are left at a refusal that places do not explain it. `isFirst`: no limit was found yet. */
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
