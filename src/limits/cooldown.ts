/**
 * The wait that a 429 imposes on everything behind one lane.
 *
 *   open --refused--> cooling until now + wait --time--> open
 *
 * The wait is the provider's Retry-After (0 to 15 min), else our own backoff `ceiling / 2 + random * ceiling / 2` with
 * `ceiling = 1 s * 2^level`, at most 60 s: 0.5 s at first. `level` rises by one from wait to wait, but not before four
 * more refusals have come without a success: a slow lane meets them one by one, and at 70 % rejected would double its
 * way to a standstill. It falls back to 0 with a success, and after a quiet minute.
 *
 * Refusals while cooling, or within a round trip of its start, are the same burst: they may lengthen the wait by a
 * Retry-After of their own and count once. Nothing but time ends the wait: neither a success that was already on its
 * way nor a caller who gives up.
 *
 * What is told but cannot be meant: 0, negative and NaN count as not told; a told wait that was obeyed and refused
 * again without a success in between is raised to our own backoff, so that 1 ms repeated makes no storm.
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
  /** How often the wait doubled since the last success, and refusals since either. */
  #level = 0;
  #refusals = 0;
  /** Whether this wait follows a row of refusals. */
  #isRepeated = false;
  #ownWaitMs = 0;

  /** Milliseconds left, 0 when open. */
  waitMs(nowMs: number): number {
    return nowMs < this.#untilMs ? this.#untilMs - nowMs : 0;
  }

  /** A 429. `retryAfterMs` is what the provider told, `roundTripMs` how late an answer may come. */
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

  /** Goes on with what an earlier process had left of its wait; its backoff is forgotten. Once, before any refusal. */
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
