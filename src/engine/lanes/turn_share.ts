/**
 * Work that many do at once in steps, and no more steps in a turn of the event loop than it can bear.
 *
 *   this turn has had fewer than its steps, nobody waits -> continues at once
 *   else                                                 -> waits for a later turn, which all who wait share evenly
 */
import type { Clock } from "../../clock.ts";

/** One for each kind of step. */
export class TurnShare {
  readonly #clock: Pick<Clock, "soon">;
  readonly #stepsPerTurn: number;
  /** In this turn. */
  #given = 0;
  #isTurnWatched = false;
  /** Each is called with the number of steps that it may take. */
  #waiting: ((steps: number) => void)[] = [];

  /** `stepsPerTurn`: a whole number from 1. */
  constructor(clock: Pick<Clock, "soon">, stepsPerTurn: number) {
    this.#clock = clock;
    this.#stepsPerTurn = stepsPerTurn;
  }

  /** How many steps the caller may take now, at least 1; a promise of that when it must wait for a later turn. */
  take(): number | Promise<number> {
    this.#watchTurn();
    if (this.#waiting.length > 0 || this.#given >= this.#stepsPerTurn)
      return new Promise((resolve) => this.#waiting.push(resolve));
    this.#given += 1;
    return 1;
  }

  #watchTurn(): void {
    if (this.#isTurnWatched) return;
    this.#isTurnWatched = true;
    this.#clock.soon(() => {
      this.#isTurnWatched = false;
      const next = this.#waiting.splice(0, this.#stepsPerTurn);
      const share = next.length === 0 ? 0 : Math.floor(this.#stepsPerTurn / next.length);
      this.#given = share * next.length;
      if (next.length > 0) this.#watchTurn();
      for (const resolve of next) resolve(share);
    });
  }
}
