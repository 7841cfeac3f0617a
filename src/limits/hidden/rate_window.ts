/**
 * A window of a minute that may explain refusals (hidden_rate.ts): it held the same number of requests, within 4 %, when they
 * began twice in a row.
 *
 *   doubtful --the same number again--> believed --another number--> doubtful
 */
import type { Minute } from "../minute.ts";

/** A minute, as providers count it. */
export const WINDOW_MS = 60_500;
/** Counts of a minute that differ by less are the same. */
export const SAME = 0.04;

/** One for each lane. Times are monotonic; counts are accepted requests. */
export class RateWindow {
  readonly #minute: Minute;
  readonly #startMs: number;
  /** Requests of the minute before the last refusals began. */
  #units = 0;
  #isBelieved = false;
  /** The most such requests since a window last refused for long. */
  #mostUnits = 0;

  /** `minute` counts the accepted requests. */
  constructor(nowMs: number, minute: Minute) {
    this.#startMs = nowMs;
    this.#minute = minute;
  }

  /** Whether it is believed and used up. */
  isFull(nowMs: number): boolean {
    return this.#isBelieved && this.#minute.count(nowMs) >= this.#units;
  }

  /** Requests a millisecond that it certainly allows: from the most that was accepted in a minute. */
  get most(): number {
    return this.#mostUnits / WINDOW_MS;
  }

  /** Refusals begin; `units` were accepted in the minute before. */
  held(units: number): void {
    this.#mostUnits = Math.max(this.#mostUnits, units);
  }

  /** The next refusals show whether it allows `units` again. */
  expect(units: number): void {
    this.#units = units;
  }

  /** Refusals that began at `units` requests ended at `takenAtMs`. Returns whether the window is believed. */
  learn(takenAtMs: number, units: number): boolean {
    this.#isBelieved = Math.abs(units / this.#units - 1) < SAME && takenAtMs - this.#startMs > WINDOW_MS;
    this.#units = units;
    return this.#isBelieved;
  }

  /** The refusals lasted long: the requests accepted before them no longer count as allowed. */
  forgetMost(): void {
    this.#mostUnits = 0;
  }

  /** The rate rises. */
  raise(factor: number): void {
    this.#units *= factor;
  }

  /** Returns a function that restores the present state. */
  keep(): () => void {
    const [units, isBelieved, mostUnits] = [this.#units, this.#isBelieved, this.#mostUnits];
    return () => {
      [this.#units, this.#isBelieved, this.#mostUnits] = [units, isBelieved, mostUnits];
    };
  }
}
