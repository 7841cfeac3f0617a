/**
 * What follows a commit, in order, and no more of it than a turn of the event loop can bear.
 *
 *   asked -> called at once                    while this turn has had fewer than `callsPerTurn`
 *         -> queued -> called in a later turn
 *
 * Half of the calls are sends. With thousands in flight all that may be sent would be sent in one turn, all answers would
 * come in one turn, and each turn would take 100 ms and more; so paced, 2,048 requests in flight keep turns of 5 ms.
 *
 * A service takes smaller turns, because its callers wait for what else the thread does: with 32 a turn instead of 128
 * the slowest 1 % of posted items take 15 to 18 ms instead of 20 to 22 (bench/service.ts).
 */
import type { Clock } from "../clock.ts";

/** Where nobody waits for the thread but the work itself. */
const CALLS_PER_TURN = 128;

export class PacedCalls {
  readonly #clock: Pick<Clock, "soon">;
  readonly #callsPerTurn: number;
  readonly #queue: (readonly (() => void)[])[] = [];
  /** Calls of the first list in the queue that were made. */
  #made = 0;
  #madeThisTurn = 0;
  #isTurnWatched = false;
  #isCalling = false;

  /** `callsPerTurn` is a whole number from 1. */
  constructor(clock: Pick<Clock, "soon">, callsPerTurn: number = CALLS_PER_TURN) {
    this.#clock = clock;
    this.#callsPerTurn = callsPerTurn;
  }

  /** Calls each, behind all that were asked for before. */
  run(calls: readonly (() => void)[]): void {
    if (calls.length === 0) return;
    this.#queue.push(calls);
    if (!this.#isCalling) this.#call();
  }

  #call(): void {
    this.#isCalling = true;
    try {
      while (this.#madeThisTurn < this.#callsPerTurn) {
        const next = this.#next();
        if (next === undefined) break;
        this.#madeThisTurn += 1;
        next();
      }
    } finally {
      this.#isCalling = false;
      this.#watchTurn();
    }
  }

  #next(): (() => void) | undefined {
    const [list] = this.#queue;
    if (list === undefined) return undefined;
    const call = list[this.#made];
    this.#made += 1;
    if (this.#made >= list.length) {
      this.#queue.shift();
      this.#made = 0;
    }
    return call;
  }

  #watchTurn(): void {
    if (this.#isTurnWatched) return;
    this.#isTurnWatched = true;
    this.#clock.soon(() => {
      this.#isTurnWatched = false;
      this.#madeThisTurn = 0;
      if (this.#queue.length > 0) this.#call();
    });
  }
}
