/**
 * Requests that a provider accepted: since a probe was last accepted, and in the last minute. Requests in flight count; a refusal
 * removes its request.
 */
import { Minute } from "../minute.ts";

/** The state of `AcceptedRequests` while the provider refuses. */
export interface AcceptedCounts {
  /** How long ago the count of `taken` began. */
  readonly sinceMs: number;
  readonly taken: number;
  readonly minuteHeld: number;
  readonly minuteRefused: number;
}

/** One for each lane. Times are monotonic. */
export class AcceptedRequests {
  /** Requests of the last minute. */
  readonly minute: Minute = new Minute();
  /** When a probe was last accepted, or the first request after a minute without any was sent. */
  #sinceMs: number;
  #taken = 0;
  #minuteHeld = 0;
  #minuteRefused = 0;

  constructor(nowMs: number) {
    this.#sinceMs = nowMs;
  }

  get sinceMs(): number {
    return this.#sinceMs;
  }

  /** Their number since `sinceMs`. */
  get taken(): number {
    return this.#taken;
  }

  /** Their number in the minute before the first refusal of a hold. */
  get minuteHeld(): number {
    return this.#minuteHeld;
  }

  /** Their number in the minute before the last refusal. */
  get minuteRefused(): number {
    return this.#minuteRefused;
  }

  /** Counts from `sinceMs` on, when `taken` were accepted. */
  begin(sinceMs: number, taken: number): void {
    this.#sinceMs = sinceMs;
    this.#taken = taken;
  }

  /**
   * An earlier process sent this many requests. Call it in the order of their times, before anything is sent. Which ones were refused
   * is not known: assumes those above `minuteHeld`, once refusals had begun.
   */
  earlier(atMs: number, requests: number): void {
    if (this.#minuteHeld > 0) {
      this.minute.add(atMs, Math.min(requests, Math.max(0, this.#minuteHeld - this.minute.count(atMs))));
      return;
    }
    if (this.#taken === 0) this.#sinceMs = atMs;
    this.#taken += requests;
    this.minute.add(atMs, requests);
  }

  /** For a later process; times are ages. */
  counts(nowMs: number): AcceptedCounts {
    const [taken, minuteHeld, minuteRefused] = [this.#taken, this.#minuteHeld, this.#minuteRefused];
    return { sinceMs: nowMs - this.#sinceMs, taken, minuteHeld, minuteRefused };
  }

  /** Continues the counts of an earlier process. */
  restore(nowMs: number, { sinceMs, taken, minuteHeld, minuteRefused }: AcceptedCounts): void {
    this.begin(nowMs - sinceMs, taken);
    this.#minuteHeld = minuteHeld;
    this.#minuteRefused = minuteRefused;
  }

  sent(nowMs: number): void {
    this.#taken += 1;
    this.minute.add(nowMs, 1);
  }

  /** The request that was sent at `sentMs` does not count. */
  uncount(sentMs: number): void {
    this.#taken -= 1;
    this.minute.add(sentMs, -1);
  }

  /** A refusal that counts; `isEarly`: the refused request may be from before the hold. */
  refused(nowMs: number, isEarly: boolean): void {
    this.#minuteRefused = this.minute.count(nowMs);
    if (isEarly) this.#minuteHeld = this.#minuteRefused;
  }

  /** Requests of the minute before `atMs`, as a share of those of the minute before the first refusal. */
  shareAt(atMs: number): number {
    return this.minute.count(atMs) / Math.max(1, this.#minuteHeld);
  }
}
