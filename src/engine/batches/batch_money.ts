/**
 * The money of one batch: held as a whole from its items' reservations on, settled item by item as results arrive.
 *
 *   an item is added -> held -> its result -> settled, and the rest stays held
 *                            -> the task leaves, the batch goes on -> released here: the next process holds it again
 */
import type { Budget, MoneyReservation, Taken } from "../../price/budget.ts";

/** What sums of fractions may leave when nothing is left. */
const ROUNDING_USD = 1e-10;
const NOTHING: Taken = { billedUsd: 0, ambiguousUsd: 0 };

/** One for a batch. */
export class BatchMoney {
  readonly #budget: Budget;
  #reservation: MoneyReservation;
  #usd = 0;

  /** `usd`: what is held from the start. */
  constructor(budget: Budget, usd = 0) {
    this.#budget = budget;
    this.#usd = usd;
    this.#reservation = budget.hold(usd);
  }

  get heldUsd(): number {
    return this.#usd;
  }

  /** An item whose request may cost so much. */
  add(usd: number): void {
    this.settle(-usd, NOTHING);
  }

  /** Of what was held for an item, and what it took. */
  settle(usd: number, taken: Taken): void {
    const leftUsd = this.#usd - usd;
    this.#usd = leftUsd < ROUNDING_USD ? 0 : leftUsd;
    this.#budget.settle(this.#reservation, taken);
    this.#reservation = this.#budget.hold(this.#usd);
  }

  /** Its batch goes on without this process. */
  leave(): void {
    this.#budget.leave(this.#reservation);
    this.#usd = 0;
  }

  /** Nothing is held any more. */
  release(): void {
    this.#budget.settle(this.#reservation, NOTHING);
    this.#usd = 0;
  }
}
