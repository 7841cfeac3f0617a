/**
 * Refusals that their items may turn out to explain, and the limit from before them.
 *
 *   none --a refusal--> open --all of its refusals are explained--> undone
 *                       open --one of their items is answered, or after a minute--> none: the lane was the cause
 *
 * A refusal is known by its permit.
 */
const OPEN_MS = 60_000;

/** One per lane. */
export class HiddenDoubt {
  readonly #marks = new Set<object>();
  #sinceMs = Number.NEGATIVE_INFINITY;
  #undo: (() => void) | undefined;

  /** Call it before a refusal takes effect; `keep` returns a function that restores the present state. */
  refused(nowMs: number, mark: object, keep: () => () => void): void {
    if (this.#undo === undefined || nowMs - this.#sinceMs > OPEN_MS) {
      this.#marks.clear();
      this.#sinceMs = nowMs;
      this.#undo = keep();
    }
    this.#marks.add(mark);
  }

  /** The item explains these refusals. If no others remain, their effect is undone. */
  explained(nowMs: number, marks: readonly object[]): void {
    let isLast = false;
    for (const mark of marks) isLast = this.#marks.delete(mark) || isLast;
    if (!isLast || this.#marks.size > 0) return;
    if (nowMs - this.#sinceMs <= OPEN_MS) this.#undo?.();
    this.#undo = undefined;
  }

  /** The item of this refusal was answered. */
  confirmed(mark: object): void {
    if (!this.#marks.has(mark)) return;
    this.#marks.clear();
    this.#undo = undefined;
  }
}
