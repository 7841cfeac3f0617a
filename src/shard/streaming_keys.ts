/**
 * The keys that a run has seen, as 64-bit hashes: for streams that cannot be read twice, where the later of two equal
 * keys gets the error, and for the first pass of `duplicates.ts`.
 *
 * Open addressing with linear probing, 8 bytes a slot, doubled at three quarters full. Two different keys among n are
 * taken for equal with probability n^2 / 2^65: one in 370,000 at ten million keys.
 * Hot path: one `add` costs 20 to 100 ns, by how much of the table is in the processor's cache (bench/parts/pack.ts).
 */

const SLOTS_MIN = 1024;
const LOAD_MAX = 0.75;

export class SeenKeys {
  /** Two words a slot: high, low. A slot of zeros is free. */
  #words: Uint32Array;
  #mask: number;
  #size = 0;

  /** `expectedKeys` sizes the table at once, so that it need not grow up to there. */
  constructor(expectedKeys = 0) {
    let slots = SLOTS_MIN;
    while (slots * LOAD_MAX < expectedKeys) slots *= 2;
    this.#words = new Uint32Array(slots * 2);
    this.#mask = slots - 1;
  }

  /** Different hashes so far. */
  get size(): number {
    return this.#size;
  }

  /** Bytes of the table. */
  get byteLength(): number {
    return this.#words.byteLength;
  }

  /** Forgets all hashes and keeps the table. */
  clear(): void {
    this.#words.fill(0);
    this.#size = 0;
  }

  /** Adds a hash, passed as two unsigned 32-bit numbers. True when it is new, false when it was added before. */
  add(hashHigh: number, hashLow: number): boolean {
    const low = hashHigh === 0 && hashLow === 0 ? 1 : hashLow;
    if (!this.#insert(hashHigh, low)) return false;
    this.#size += 1;
    if (this.#size > (this.#mask + 1) * LOAD_MAX) this.#grow();
    return true;
  }

  #insert(high: number, low: number): boolean {
    const words = this.#words;
    let slot = (high ^ (low >>> 7)) & this.#mask;
    for (;;) {
      const slotHigh = words[slot * 2] as number;
      const slotLow = words[slot * 2 + 1] as number;
      if (slotHigh === high && slotLow === low) return false;
      if (slotHigh === 0 && slotLow === 0) {
        words[slot * 2] = high;
        words[slot * 2 + 1] = low;
        return true;
      }
      slot = (slot + 1) & this.#mask;
    }
  }

  #grow(): void {
    const old = this.#words;
    const slots = (this.#mask + 1) * 2;
    this.#words = new Uint32Array(slots * 2);
    this.#mask = slots - 1;
    for (let word = 0; word < old.length; word += 2) {
      const high = old[word] as number;
      const low = old[word + 1] as number;
      if (high !== 0 || low !== 0) this.#insert(high, low);
    }
  }
}
