/**
 * The wait that a 429 imposes on a whole lane.
 *
 *   open --refused--> cooling until now + wait --time--> open
 *
 * The wait is the provider's Retry-After (0 to 15 min), else a backoff of `ceiling / 2 + random * ceiling / 2` with
 * `ceiling = 1 s * 2^level`, at most 60 s: 0.5 s at first. `level` rises by at most one per wait, and only after four more refusals
 * without a success: a slow lane receives them one by one, and at 70 % rejected would otherwise double its wait until it stopped. A
 * success, or a quiet minute, resets it to 0.
 *
 * Refusals while cooling, or within a round trip of its start, belong to the same burst: they count once, and may lengthen the wait by
 * their own Retry-After. Only time ends the wait. A success that was already on its way does not, nor does a caller who gives up.
 *
 * Implausible values: 0, negative and NaN count as absent. If a stated wait was obeyed and the next request was refused again without a
 * success in between, the wait is at least the backoff, so that a repeated 1 ms does not cause a storm.
 */
import { REFUSAL_WAIT_MS_MAX } from "../work/limits.ts";

const CEILING_MS_START = 1_000;
const CEILING_MS_MAX = 60_000;
const QUIET_MS = 60_000;
const LEVEL_MAX = 10;
const ROW_MIN = 4;

export class Cooldown {
  #startedAtMs = Number.NEGATIVE_INFINITY;
  #untilMs = Number.NEGATIVE_INFINITY;
  /** How often the wait doubled since the last success, and refusals since the last doubling or success. */
  #level = 0;
  #refusals = 0;
  /** Whether this wait follows a row of refusals. */
  #isRepeated = false;
  #ownWaitMs = 0;

  /** Milliseconds left, 0 when open. */
  waitMs(nowMs: number): number {
    return nowMs < this.#untilMs ? this.#untilMs - nowMs : 0;
  }

  /** A 429. `retryAfterMs` is what the provider stated, `roundTripMs` how late an answer may arrive. */
  refused(nowMs: number, retryAfterMs: number | undefined, roundTripMs: number, random: () => number): void {
    const isSameBurst = nowMs < this.#untilMs || nowMs - this.#startedAtMs < roundTripMs;
    if (!isSameBurst) this.#begin(nowMs, random);
    this.#refusals += 1;
    if (retryAfterMs === undefined || !(retryAfterMs > 0)) {
      if (!isSameBurst) this.#untilMs = nowMs + this.#ownWaitMs;
      return;
    }
    const leastMs = this.#isRepeated ? this.#ownWaitMs : 0;
    const waitMs = Math.max(leastMs, Math.min(retryAfterMs, REFUSAL_WAIT_MS_MAX));
    this.#untilMs = Math.max(this.#untilMs, nowMs + waitMs);
  }

  /** Continues what was left of an earlier process's wait, without its backoff. Call it once, before any refusal. */
  restore(nowMs: number, waitMs: number): void {
    this.#startedAtMs = nowMs;
    this.#untilMs = nowMs + Math.min(waitMs, REFUSAL_WAIT_MS_MAX);
  }

  succeeded(): void {
    this.#refusals = 0;
    this.#level = 0;
  }

  #begin(nowMs: number, random: () => number): void {
    if (nowMs - this.#untilMs > QUIET_MS) this.succeeded();
    if (this.#refusals >= ROW_MIN) {
      this.#level = Math.min(LEVEL_MAX, this.#level + 1);
      this.#refusals = 0;
    }
    this.#isRepeated = this.#level > 0;
    const ceilingMs = Math.min(CEILING_MS_MAX, CEILING_MS_START * 2 ** this.#level);
    this.#ownWaitMs = ceilingMs / 2 + (random() * ceilingMs) / 2;
    this.#startedAtMs = nowMs;
  }
}
