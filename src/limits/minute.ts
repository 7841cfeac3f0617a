/**
 * A count of events in the last minute, in slots of half a second.
 *
 * Limits: 1 KB.
 */

/** Resolution of the minute. */
export const MINUTE_SLOT_MS = 500;
const SLOTS = 120;

/** Times may not go back by more than a minute. */
export class Minute {
  readonly #slots = new Float64Array(SLOTS);
  #newest = Number.NEGATIVE_INFINITY;
  /** Position of the newest slot in the ring. */
  #position = 0;
  #total = 0;

  /** Adds events at `atMs`; events older than a minute are not counted. */
  add(atMs: number, amount: number): void {
    const slot = Math.floor(atMs / MINUTE_SLOT_MS);
    if (slot === this.#newest) {
      this.#slots[this.#position] = (this.#slots[this.#position] ?? 0) + amount;
      this.#total += amount;
      return;
    }
    if (amount > 0) this.#advance(slot);
    if (slot <= this.#newest - SLOTS) return;
    const position = ((slot % SLOTS) + SLOTS) % SLOTS;
    this.#slots[position] = (this.#slots[position] ?? 0) + amount;
    this.#total += amount;
  }

  /** Events in the minute that ends now. */
  count(nowMs: number): number {
    this.#advance(Math.floor(nowMs / MINUTE_SLOT_MS));
    return this.#total;
  }

  #advance(slot: number): void {
    for (let fresh = Math.max(this.#newest + 1, slot - SLOTS + 1); fresh <= slot; fresh += 1) {
      const position = ((fresh % SLOTS) + SLOTS) % SLOTS;
      this.#total -= this.#slots[position] ?? 0;
      this.#slots[position] = 0;
    }
    if (slot <= this.#newest) return;
    this.#newest = slot;
    this.#position = ((slot % SLOTS) + SLOTS) % SLOTS;
  }
}
