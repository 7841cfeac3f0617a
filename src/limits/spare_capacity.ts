/**
 * How many requests of a cheaper tier may be in flight: additive increase, multiplicative decrease, by how many the provider
 * takes. Its refusals for want of capacity cost nothing, so only when three of four are refused does a lower rate help.
 *
 *   open --a refusal while most are refused--> cooling --time--> open
 *
 * Not limits.ts: nothing here is a rate limit, an outage or a quota.
 */
import { Concurrency } from "./concurrency.ts";
import { Cooldown } from "./cooldown.ts";

const START = 4;
const REFUSED_WEIGHT = 1 / 16;
const MOST_REFUSED = 3 / 4;

/** One for a lane and an offer. */
export class SpareCapacity {
  readonly #concurrency: Concurrency;
  readonly #cooldown = new Cooldown();
  readonly #random: () => number;
  #refusedShare = 0;

  /** `max`: requests in flight at most. */
  constructor(max: number, random: () => number) {
    this.#concurrency = new Concurrency({ max, start: START });
    this.#random = random;
  }

  get inFlight(): number {
    return this.#concurrency.inFlight;
  }

  /** Requests that may be in flight now. */
  get places(): number {
    return this.#concurrency.limit;
  }

  /** Moving share of requests that were refused, 0 to 1. */
  get refusedShare(): number {
    return this.#refusedShare;
  }

  /** Milliseconds until one more may be sent if none ends; Infinity if time alone does not help; 0 at once. */
  waitMs(nowMs: number): number {
    const coolingMs = this.#cooldown.waitMs(nowMs);
    if (coolingMs > 0) return coolingMs;
    return this.#concurrency.hasRoom(1) ? 0 : this.#concurrency.growsInMs(nowMs);
  }

  take(): void {
    this.#concurrency.take();
  }

  /** One has ended that was in flight for `heldMs`. */
  free(heldMs: number): void {
    this.#concurrency.free(heldMs);
  }

  answered(): void {
    this.#refusedShare -= this.#refusedShare * REFUSED_WEIGHT;
    this.#concurrency.succeeded();
    this.#cooldown.succeeded();
  }

  /** One was refused for want of capacity, or not answered in its time; `retryAfterMs` as the provider stated it. */
  refused(nowMs: number, retryAfterMs?: number): void {
    this.#refusedShare += (1 - this.#refusedShare) * REFUSED_WEIGHT;
    if (this.#refusedShare < MOST_REFUSED) return;
    const { roundTripMs } = this.#concurrency;
    this.#concurrency.congested(nowMs, true, 1);
    this.#cooldown.refused(nowMs, retryAfterMs, roundTripMs, this.#random);
  }
}
