/**
 * One timer for the deadlines and stalls of all calls of a transport.
 *
 *   off --a call with a deadline--> set --due--> sweeping --calls are left--> set
 *                                   set --no call is left--> off, so that no timer keeps the process alive
 *
 * Limits: sweeps are 4 ms apart at least, and a second, or a quarter of the time in which a call stalls, at most.
 */
import type { Clock, Timer } from "../clock.ts";

/** How late a deadline may be kept. */
const EVERY_MS_MIN = 4;
const EVERY_MS_MAX = 1_000;

/** One for each transport. Times are monotonic. */
export class Sweeps {
  readonly #clock: Clock;
  readonly #everyMs: number;
  /** Ends what is over; returns the next deadline, or undefined if no call is left. */
  readonly #sweep: (nowMs: number) => number | undefined;
  #timer: Timer | undefined;
  #atMs = Number.POSITIVE_INFINITY;

  constructor(clock: Clock, stallMs: number, sweep: (nowMs: number) => number | undefined) {
    this.#clock = clock;
    this.#everyMs = Math.min(EVERY_MS_MAX, stallMs / 4);
    this.#sweep = sweep;
  }

  /** A call with this deadline is under way. */
  watch(nowMs: number, deadlineMs: number): void {
    const atMs = Math.min(deadlineMs, nowMs + this.#everyMs);
    if (atMs >= this.#atMs) return;
    this.#timer?.cancel();
    this.#atMs = atMs;
    // Not in the timer itself: after a stall of this process, answers that have arrived are read before calls are ended.
    this.#timer = this.#clock.timer(atMs - nowMs, () => this.#clock.soon(() => this.#run()));
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#atMs = Number.POSITIVE_INFINITY;
  }

  #run(): void {
    const nowMs = this.#clock.nowMs();
    this.#atMs = Number.POSITIVE_INFINITY;
    const nextMs = this.#sweep(nowMs);
    if (nextMs !== undefined) this.watch(nowMs, Math.max(nextMs, nowMs + EVERY_MS_MIN));
  }
}
