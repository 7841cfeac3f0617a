/**
 * What follows a commit, in order, and no more of it than a turn of the event loop can bear.
 *
 *   asked -> called at once                    while this turn has had fewer than `callsPerTurn`
 *         -> queued -> called in a later turn
 *
 * Half of the calls are sends. With thousands in flight all that may be sent would be sent in one turn, all answers would
 * would run in one turn, and each turn would take 100 ms and more; so paced, 2,048 requests in flight keep turns of 5 ms.
 *
 * A service asks for smaller turns while its callers wait for what else the thread does.
 */
import type { Clock } from "../../clock.ts";

/** Where nobody waits for the thread but the work itself. */
const CALLS_PER_TURN = 128;

export class PacedCalls {
  readonly #clock: Pick<Clock, "soon">;
  readonly #callsPerTurn: () => number | undefined;
  readonly #queue: (readonly (() => void)[])[] = [];
  /** Calls of the first list in the queue that were made. */
  #made = 0;
  #madeThisTurn = 0;
  #isTurnWatched = false;
  #isCalling = false;

  /** `callsPerTurn` is read before each call: a whole number from 1; undefined for the usual one. */
  constructor(clock: Pick<Clock, "soon">, callsPerTurn: () => number | undefined = () => undefined) {
    this.#clock = clock;
    this.#callsPerTurn = callsPerTurn;
  }

  /** Calls each, after all earlier ones. */
  run(calls: readonly (() => void)[]): void {
    if (calls.length === 0) return;
    this.#queue.push(calls);
    if (!this.#isCalling) this.#call();
  }

  #call(): void {
    this.#isCalling = true;
    try {
      while (this.#madeThisTurn < (this.#callsPerTurn() ?? CALLS_PER_TURN)) {
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
    const list = this.#queue[0];
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
