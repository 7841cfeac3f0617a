/**
 * How often a lane fails items that it answers afterwards: such failures are the lane's, and the more of them there are, the
 * less a row of failures says about its item.
 *
 *   s    share of the last minutes' attempts at items that were answered in the end which failed; 0 below 3 such items
 *   n    failures in a row that one of them has with a probability of at most 1 in a million: s^n <= 1e-6, n <= 40
 *
 * So while connections flap and half of all requests fail, an item is blamed from its 20th failure in a row on. On a lane that fails
 * nobody but items that are never answered, s is 0: those do not cover for each other, however many they are.
 */

/** Items that must have recovered before they say anything. */
const ITEMS_MIN = 3;
const CHANCE_MAX = 1e-6;
/** However often a lane fails: what each failure may cost is bounded by this many. */
const ROW_MAX = 40;
const SLOT_MS = 60_000;
const SLOTS = 5;

interface Slot {
  startMs: number;
  answers: number;
  /** Of items that were then answered. */
  failures: number;
  recovered: number;
}

/** One for a lane. Times are monotonic. Hot path: 10 ns an answer. */
export class InnocentFailures {
  /** The newest last. */
  readonly #slots: Slot[] = [];

  /** An item was answered after so many failures in a row. */
  answered(failuresBefore: number, nowMs: number): void {
    const slot = this.#slotAt(nowMs);
    slot.answers += 1;
    if (failuresBefore === 0) return;
    slot.failures += failuresBefore;
    slot.recovered += 1;
  }

  /** The failures in a row that an item may have without any fault of its own; 0 on a lane that is well. */
  rowMax(nowMs: number): number {
    let [answers, failures, recovered] = [0, 0, 0];
    for (const slot of this.#slots) {
      if (slot.startMs <= nowMs - SLOTS * SLOT_MS) continue;
      answers += slot.answers;
      failures += slot.failures;
      recovered += slot.recovered;
    }
    if (recovered < ITEMS_MIN) return 0;
    const share = failures / (failures + answers);
    return Math.min(ROW_MAX, Math.ceil(Math.log(CHANCE_MAX) / Math.log(share)));
  }

  #slotAt(nowMs: number): Slot {
    const last = this.#slots.at(-1);
    if (last !== undefined && nowMs < last.startMs + SLOT_MS) return last;
    const slot = { startMs: nowMs, answers: 0, failures: 0, recovered: 0 };
    this.#slots.push(slot);
    if (this.#slots.length > SLOTS) this.#slots.shift();
    return slot;
  }
}
