/**
 * Counts how often a lane fails items that it answers later. Such failures are the lane's own: the more of them, the less a
 * row of failures says about its item.
 *
 *   s    among the attempts of the last minutes at items that were answered in the end, the share that failed; 0 below 3
 *        such items
 *   n    the longest row of failures that one of them has by chance with a probability above 1 in a million: s^n <= 1e-6, n <= 40
 *
 * While connections flap and half of all requests fail, an item is blamed from its 20th failure in a row on. On a lane that
 * fails only items that are never answered, s is 0: such items do not protect each other, however many they are.
 *
 * Innocent failures are plenty while the items that were answered after failures, and those that failed when the lane went down,
 * are at least as many as those that ended after failures of their own.
 */

/** Fewer items that were answered after failures are not enough evidence. */
const ITEMS_MIN = 3;
const CHANCE_MAX = 1e-6;
/** The longest row, however often a lane fails: it bounds what the failures of one item may cost. */
const ROW_MAX = 40;
const SLOT_MS = 60_000;
const SLOTS = 5;

interface Slot {
  startMs: number;
  answers: number;
  /** Failures of items that were answered later. */
  failures: number;
  /** The number of these items. */
  recovered: number;
  /** Items that ended after failures that were proven to be their own. */
  guilty: number;
  /** The most items that failed at a time when the lane was down. */
  doubtful: number;
}

/** One per lane. Times are monotonic. Hot path: 10 ns an answer. */
export class InnocentFailures {
  /** The newest last. */
  readonly #slots: Slot[] = [];

  /** An item was answered after `failuresBefore` failures in a row, 0 or more. */
  answered(failuresBefore: number, nowMs: number): void {
    const slot = this.#slotAt(nowMs);
    slot.answers += 1;
    if (failuresBefore === 0) return;
    slot.failures += failuresBefore;
    slot.recovered += 1;
  }

  /** An item ended, and failures of it were proven to be its own. */
  ended(nowMs: number): void {
    this.#slotAt(nowMs).guilty += 1;
  }

  /** The lane is down, and so many items fail. */
  down(items: number, nowMs: number): void {
    const slot = this.#slotAt(nowMs);
    slot.doubtful = Math.max(slot.doubtful, items);
  }

  /** Whether the lane failed at least as many items for its own reasons as ended for theirs. */
  arePlenty(nowMs: number): boolean {
    let [innocent, guilty] = [0, 0];
    for (const slot of this.#slots) {
      if (slot.startMs <= nowMs - SLOTS * SLOT_MS) continue;
      innocent += slot.recovered + slot.doubtful;
      guilty += slot.guilty;
    }
    return innocent > 0 && innocent >= guilty;
  }

  /** The failures in a row that an item may have by chance, 0 to 40; 0 on a lane without such failures. */
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
    const slot = { startMs: nowMs, answers: 0, failures: 0, recovered: 0, guilty: 0, doubtful: 0 };
    this.#slots.push(slot);
    if (this.#slots.length > SLOTS) this.#slots.shift();
    return slot;
  }
}
