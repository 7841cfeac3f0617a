/**
 * Whether a lane may send at all, and at what share of its rate: combines cool-down, outage and throttle.
 *
 *            rate_limited                      time
 *   open ------------------> cooldown ------------------> open            (cooldown.ts: how long)
 *   open, cooldown --failures in a row--> doubt, then outage --an answer--> ramp --15 s--> open
 *                                            ^------5 failures------'      (outage.ts: when, how steep)
 *   cooldown that a 429 states --time--> doubt                            (one request tests whether the cause is over)
 *   at any time: share = min(throttle, ramp)                              (throttle.ts: 70 % rejected -> 53 %)
 *
 * Outage and cool-down are independent: a probe of an outage also waits for the cool-down. An `overloaded` that states a wait cools
 * down only while most answers are rejections: one busy server behind a provider's balancer does not justify stopping the lane, and the
 * item's own retry waits anyway.
 *
 * | signal       | cool-down          | throttle | outage  |
 * |--------------|--------------------|----------|---------|
 * | success      | backoff from start | accepted | answer  |
 * | rate_limited | wait               | rejected |         |
 * | overloaded   | wait, if most are  | rejected | failure |
 * | failed       |                    |          | failure |
 * | not_sent     |                    |          | failure |
 * | other        |                    |          | answer  |
 */
import { Cooldown } from "./cooldown.ts";
import { Outage } from "./outage.ts";
import { Throttle } from "./throttle.ts";

/** What an attempt shows about the lane. `retryAfterMs` is the provider's value, unchecked. */
export type Signal =
  | { readonly kind: "success" }
  | {
      readonly kind: "rate_limited";
      readonly retryAfterMs?: number | undefined;
      /** The provider refused the growth of the rate, not the rate. */
      readonly isRampLimit?: boolean | undefined;
    }
  | { readonly kind: "overloaded"; readonly retryAfterMs?: number | undefined }
  /** 5xx, lost connection, timeout. */
  | { readonly kind: "failed" }
  /** Nothing left this machine: connection, DNS or TLS failed. */
  | { readonly kind: "not_sent" }
  /** Any other answer: the provider is working. */
  | { readonly kind: "other" };

const WIDESPREAD_SHARE = 0.75;

export class Gate {
  readonly #cooldown = new Cooldown();
  readonly #outage = new Outage();
  readonly #throttle = new Throttle();
  readonly #random: () => number;

  constructor(random: () => number) {
    this.#random = random;
  }

  get isDown(): boolean {
    return this.#outage.isDown;
  }

  /** Milliseconds of cool-down left. */
  cooldownMs(nowMs: number): number {
    return this.#cooldown.waitMs(nowMs);
  }

  /** Continues a cool-down of an earlier process. */
  restoreCooldown(nowMs: number, waitMs: number): void {
    this.#cooldown.restore(nowMs, waitMs);
    this.#outage.stated(nowMs, nowMs + this.cooldownMs(nowMs), nowMs);
  }

  /** Milliseconds until an outage's next probe, or the next request of a lane in doubt; 0 when up or due. */
  outageMs(nowMs: number): number {
    return this.#outage.waitMs(nowMs);
  }

  /** Milliseconds until the next try, after the probe that may be under way. */
  retryMs(nowMs: number): number {
    return Math.max(this.#outage.retryMs(nowMs), this.cooldownMs(nowMs));
  }

  /** Share of the limits' rate to send at, above 0, at most 1. */
  share(nowMs: number): number {
    return Math.min(this.#throttle.share(nowMs), this.#outage.share(nowMs));
  }

  /** The part of `share` that the ramp after an outage determines, for lanes without a rate. */
  rampShare(nowMs: number): number {
    return this.#outage.share(nowMs);
  }

  /** Milliseconds until that part reaches `share`; Infinity if time does not raise it. */
  rampsInMs(nowMs: number, share: number): number {
    return this.#outage.rampsInMs(nowMs, share);
  }

  /** A request is sent; during an outage it is a probe. */
  sent(nowMs: number): void {
    this.#outage.sent(nowMs);
  }

  /**
   * Records the answer to a request sent at `sentMs`; true if it ends an outage. `roundTripMs`: how late answers of one burst may
   * arrive.
   */
  observe(nowMs: number, signal: Signal, roundTripMs: number, sentMs: number = nowMs): boolean {
    switch (signal.kind) {
      case "success":
        this.#cooldown.succeeded();
        this.#throttle.answered(nowMs, true);
        return this.#outage.answered(nowMs, sentMs);
      case "rate_limited":
        this.#throttle.answered(nowMs, false);
        this.#cooldown.refused(nowMs, signal.retryAfterMs, roundTripMs, this.#random);
        if (Number(signal.retryAfterMs) > 0)
          this.#outage.stated(nowMs, nowMs + this.cooldownMs(nowMs), sentMs, signal.retryAfterMs);
        return false;
      case "overloaded":
        this.#throttle.answered(nowMs, false);
        if (signal.retryAfterMs !== undefined && this.#throttle.share(nowMs) < WIDESPREAD_SHARE)
          this.#cooldown.refused(nowMs, signal.retryAfterMs, roundTripMs, this.#random);
        this.#outage.failed(nowMs, sentMs);
        return false;
      case "failed":
      case "not_sent":
        this.#outage.failed(nowMs, sentMs);
        return false;
      case "other":
        return this.#outage.answered(nowMs, sentMs);
    }
  }
}
