/**
 * Requests that a provider accepted: since a probe was last accepted, and in the last minute. Those in flight count; a refusal
 * takes its request out.
 */
import { Minute } from "../minute.ts";

/** One for each lane. Times are monotonic. */
export class AcceptedRequests {
  /** Those of the last minute. */
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

  sent(nowMs: number): void {
    this.#taken += 1;
    this.minute.add(nowMs, 1);
  }

  /** The request that was sent at `sentMs` does not count. */
  uncount(sentMs: number): void {
    this.#taken -= 1;
    this.minute.add(sentMs, -1);
  }

  /** A refusal that counts; `isEarly`: the refused request may be one of before the hold. */
  refused(nowMs: number, isEarly: boolean): void {
    this.#minuteRefused = this.minute.count(nowMs);
    if (isEarly) this.#minuteHeld = this.#minuteRefused;
  }

  /** Those of the minute before `atMs`, as a share of those of the minute before the first refusal. */
  shareAt(atMs: number): number {
    return this.minute.count(atMs) / Math.max(1, this.#minuteHeld);
  }
}
