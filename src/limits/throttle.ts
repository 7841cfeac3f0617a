/**
 * The share of the limit that is worth sending while the provider rejects some of it.
 *
 * `share = clamp(K * accepted, 0.25, 1)`, where `accepted` is the moving share of accepted answers (weight 1/32) and K = 1.75. It has
 * no effect while more than 57 % are accepted. At 70 % rejection 53 % of the limit is sent; at most 60 % are allowed, and the moving
 * share varies. The idea is client-side throttling of Google's SRE book (chapter 21, K = 2). Its own formula compares with what the
 * application requests, which has no bound under a constant backlog, and falls to nothing with a fixed rejection share. Below 0.25
 * the cool-down's backoff takes over. Five minutes without an answer reset it.
 */

const MULTIPLIER = 1.75;
const SHARE_MIN = 0.25;
const WEIGHT = 1 / 32;
const FORGET_MS = 300_000;

export class Throttle {
  #accepted = 1;
  #answeredAtMs = Number.NEGATIVE_INFINITY;

  /** Share of the limit to send, 0.25 to 1. */
  share(nowMs: number): number {
    if (nowMs - this.#answeredAtMs > FORGET_MS) return 1;
    return Math.min(1, Math.max(SHARE_MIN, MULTIPLIER * this.#accepted));
  }

  answered(nowMs: number, isAccepted: boolean): void {
    if (nowMs - this.#answeredAtMs > FORGET_MS) this.#accepted = 1;
    this.#answeredAtMs = nowMs;
    this.#accepted += ((isAccepted ? 1 : 0) - this.#accepted) * WEIGHT;
  }
}
