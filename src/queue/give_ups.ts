/**
 * How many attempts may be given up that seem to hang, among similar attempts: what bounds the price of being
 * wrong. A quick answer to the item's next attempt does not prove that the one before hung: it may have been slow only.
 *
 *   credit   1 at first; - 1 with each attempt that is given up; + 1/200 with each answer, up to 1
 *   soon     needs a credit of 1
 *   waited   for 2 minutes, or half of its time where that is less: needs 0; one less with each quarter more, down to -3
 *   proof    the item's next attempt is answered in less time than one that was waited for: + 32, up to 64
 *
 * So of 1,000 items, of which any part takes any time, 10 are given up at most: 1, 5 for the answers, 4 that were
 * waited for. Where requests hang for ever, some are waited for, and each of those proves enough to give 32 more up soon;
 * that there may be four keeps one whose next attempt hangs, too, from ending that.
 *
 * Limits: a number, and one for each attempt that was given up whose item is still in memory.
 */
const FIRST = 1;
const OF_ANSWER = 1 / 200;
const OF_ANSWERS_MAX = 1;
const OF_PROOF = 32;
const OF_PROOFS_MAX = 64;
const WAITED_MS = 120_000;
const WAITED_DEBT_MAX = 3;

/** One for attempts that are alike. */
export class GiveUps {
  #credit = FIRST;
  /** Of items with an attempt that was given up: how long it was waited for, if that was long enough to prove something. */
  readonly #waitedMs = new WeakMap<object, number>();

  /**
   * Whether an attempt of an `item` may be given up that has taken `elapsedMs` of its `elapsedMs + leftMs`. Where it was
   * allowed before, it is again, at no further cost: the attempt continues because no other one could be sent.
   */
  take(item: object, elapsedMs: number, leftMs: number): boolean {
    if (this.#waitedMs.has(item)) return true;
    const waited = elapsedMs / Math.min(WAITED_MS, (elapsedMs + leftMs) / 2);
    const isWaited = waited >= 1;
    if (this.#credit < (isWaited ? -Math.min(WAITED_DEBT_MAX, Math.floor(4 * (waited - 1))) : 1))
      return false;
    this.#credit -= 1;
    this.#waitedMs.set(item, isWaited ? elapsedMs : 0);
    return true;
  }

  /** An attempt of an item was answered after `tookMs`. */
  answered(item: object, tookMs: number): void {
    this.#earn(OF_ANSWER, OF_ANSWERS_MAX);
    const waitedMs = this.#waitedMs.get(item);
    if (waitedMs === undefined) return;
    this.#waitedMs.delete(item);
    if (tookMs < waitedMs) this.#earn(OF_PROOF, OF_PROOFS_MAX);
  }

  #earn(more: number, max: number): void {
    this.#credit = Math.max(this.#credit, Math.min(max, this.#credit + more));
  }
}
