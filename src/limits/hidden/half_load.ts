/**
 * A trial at half the load (chance_refusals.ts): half as many accepted requests a second, evenly, and half as many in flight.
 * It starts when enough earlier requests have left their places.
 *
 * Half against full: the sum of evidence since the trial began, with q = f, the share at full load, and p = 2 f - 1, what a limit
 * refuses of half of it (at least 0.5 %).
 */
import { evidence, type Sample } from "./request_sample.ts";

const SHARE_MIN = 0.005;

/** One for each lane, reused for each trial. Times are monotonic. */
export class HalfLoad {
  #full: Sample = { refused: 0, all: 0 };
  /** Milliseconds between requests, and when the next one may be sent. */
  #everyMs = 0;
  #nextMs = 0;
  /** The most requests in flight. */
  #places = 0;

  /** Requests and refusals at full load. */
  get full(): Sample {
    return this.#full;
  }

  /** `everyMs`: mean time between accepted requests at full load, with `inFlight`. */
  begin(nowMs: number, full: Sample, inFlight: number, everyMs: number): void {
    this.#full = full;
    this.#everyMs = 2 * everyMs;
    this.#nextMs = nowMs + this.#everyMs;
    this.#places = Math.max(1, Math.floor(inFlight / 2));
  }

  /** Milliseconds until one more request may be sent; Infinity if only an answer can allow it. */
  waitMs(nowMs: number, inFlight: number): number {
    return inFlight < this.#places ? Math.max(0, this.#nextMs - nowMs) : Number.POSITIVE_INFINITY;
  }

  sent(nowMs: number): void {
    this.#nextMs = Math.max(nowMs, this.#nextMs + this.#everyMs);
  }

  /** Evidence of the refusals since then (`half`) for chance (above 0) or for a limit (below 0). */
  evidence(half: Sample): number {
    const full = (this.#full.refused - 1) / (this.#full.all - 1);
    return evidence(half, Math.max(SHARE_MIN, 2 * full - 1), full);
  }
}
