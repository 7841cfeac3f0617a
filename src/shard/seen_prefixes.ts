/**
 * Which ends of prefixes several lines have had, of those that were read last.
 *
 *   unknown --a line has it--> seen --another line has it--> shared --not used while 131,072 others were--> unknown
 *
 * Two halves of open addressing: a new half replaces the older one when it is half full. A slot is 12 bytes: the hash, negative once
 * it is shared, and the line that had it first, so that a line that is read again does not count twice.
 *
 * Limits: 6 MiB a thread, at most 24 MiB in four threads, for any number of items; nothing before the first long request.
 * Hot path: about 50 ns an end.
 */

const SLOT_BITS = 18;

interface Half {
  readonly hashes: Float64Array;
  readonly lines: Uint32Array;
  count: number;
}

/** One for a thread. */
export class SeenPrefixes {
  readonly #bits: number;
  #recent: Half | undefined;
  #older: Half | undefined;

  /** For 2 to the power of `bits` slots in each half, at least 4. */
  constructor(bits: number = SLOT_BITS) {
    this.#bits = bits;
  }

  /** A line has a prefix up to an end with this hash. True if it is the second one that has. */
  add(hash: number, line: number): boolean {
    this.#recent ??= halfOf(this.#bits);
    const { hashes, lines } = this.#recent;
    const slot = this.#slotOf(hashes, hash);
    const known = hashes[slot] as number;
    if (known !== 0) {
      const isSecond = known > 0 && lines[slot] !== line;
      if (isSecond) hashes[slot] = -hash;
      return isSecond;
    }
    const before = this.#older;
    const beforeSlot = before === undefined ? -1 : this.#slotOf(before.hashes, hash);
    const old = before?.hashes[beforeSlot] ?? 0;
    const first = old === 0 ? line : (before?.lines[beforeSlot] as number);
    hashes[slot] = old < 0 || first !== line ? -hash : hash;
    lines[slot] = first;
    this.#recent.count += 1;
    if (this.#recent.count >= hashes.length / 2) {
      this.#older = this.#recent;
      this.#recent = undefined;
    }
    return old > 0 && first !== line;
  }

  /** Whether several lines had it. */
  isShared(hash: number): boolean {
    for (const half of [this.#recent, this.#older]) {
      const known = half?.hashes[this.#slotOf(half.hashes, hash)] ?? 0;
      if (known !== 0) return known < 0;
    }
    return false;
  }

  /** The slot of a hash, or the free one that it would take. */
  #slotOf(hashes: Float64Array, hash: number): number {
    const mask = hashes.length - 1;
    let slot = Math.imul(hash | 0, 0x9e3779b1) >>> (32 - this.#bits);
    for (let known = hashes[slot] as number; known !== 0 && Math.abs(known) !== hash; ) {
      slot = (slot + 1) & mask;
      known = hashes[slot] as number;
    }
    return slot;
  }
}

function halfOf(bits: number): Half {
  return { hashes: new Float64Array(1 << bits), lines: new Uint32Array(1 << bits), count: 0 };
}
