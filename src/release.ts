/**
 * For what callers wait in a room whose work another process is to take over:
 *
 *   ends --release--> in flight --releaseAll--> nothing        closed, from each of them
 *   ends --releaseAll--> nothing
 *
 * In flight: nothing is sent any more, so callers wait for what is in flight, and for its record.
 */
import type { Clock } from "./clock.ts";

/** Milliseconds between two looks. What was answered is recorded within this time. */
const LOOK_MS = 100;

export class Release {
  readonly #clock: Clock;
  readonly #look: () => void;
  #waitsFor: "ends" | "in flight" | "nothing" | "closed" = "ends";

  /** `look`: ends the waits for which nothing is in flight; called at once and every 100 ms while callers wait for what is. */
  constructor(clock: Clock, look: () => void) {
    this.#clock = clock;
    this.#look = look;
  }

  get isForNothing(): boolean {
    return this.#waitsFor === "nothing";
  }

  get isClosed(): boolean {
    return this.#waitsFor === "closed";
  }

  /** May be called twice. */
  release(): void {
    if (this.#waitsFor !== "ends") return;
    this.#waitsFor = "in flight";
    this.#again();
  }

  /** The caller ends all waits, unless it is closed. May be called twice, and without `release`. */
  releaseAll(): void {
    if (!this.isClosed) this.#waitsFor = "nothing";
  }

  close(): void {
    this.#waitsFor = "closed";
  }

  #again(): void {
    if (this.#waitsFor !== "in flight") return;
    this.#look();
    this.#clock.timer(LOOK_MS, () => this.#again(), { keepsAlive: false });
  }
}
