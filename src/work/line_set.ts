/**
 * A set of line numbers as a bit table: 1.25 MB for ten million lines.
 */

/** Grows to the highest line added. Lines count from 1; items of the work log from 0. */
export class LineSet {
  #bits: Uint8Array<ArrayBuffer>;
  #size = 0;

  /** `lines`: how many it may hold before it grows. */
  constructor(lines = 8_192) {
    this.#bits = new Uint8Array((lines + 7) >>> 3);
  }

  /** How many lines are in the set. */
  get size(): number {
    return this.#size;
  }

  has(line: number): boolean {
    const byte = line >>> 3;
    return byte < this.#bits.length && ((this.#bits[byte] ?? 0) & (1 << (line & 7))) !== 0;
  }

  /** The last line in the set; 0 when it is empty. */
  get highest(): number {
    for (let byte = this.#size === 0 ? -1 : this.#bits.length - 1; byte >= 0; byte -= 1) {
      const bits = this.#bits[byte] ?? 0;
      if (bits !== 0) return byte * 8 + 31 - Math.clz32(bits);
    }
    return 0;
  }

  /** Adds a line; false when it was added before. */
  add(line: number): boolean {
    if (this.has(line)) return false;
    const byte = line >>> 3;
    if (byte >= this.#bits.length) this.#grow(byte + 1);
    this.#bits[byte] = (this.#bits[byte] ?? 0) | (1 << (line & 7));
    this.#size += 1;
    return true;
  }

  /** Adds the `count` lines from `first` on. */
  addRange(first: number, count: number): void {
    const end = first + count;
    if ((end + 7) >>> 3 > this.#bits.length) this.#grow((end + 7) >>> 3);
    for (let line = first; line < end; line += 1) {
      if ((line & 7) === 0 && line + 8 <= end && this.#bits[line >>> 3] === 0) {
        this.#bits[line >>> 3] = 255;
        this.#size += 8;
        line += 7;
      } else this.add(line);
    }
  }

  delete(line: number): void {
    if (!this.has(line)) return;
    const byte = line >>> 3;
    this.#bits[byte] = (this.#bits[byte] ?? 0) & ~(1 << (line & 7));
    this.#size -= 1;
  }

  /** How many of the lines `first` to `last` (inclusive) are in the set. */
  countWithin(first: number, last: number): number {
    let count = 0;
    for (let line = first; line <= last; line += 1) {
      if ((line & 7) === 0 && line + 7 <= last) {
        const byte = this.#bits[line >>> 3] ?? 0;
        if (byte === 0 || byte === 255) {
          count += byte === 255 ? 8 : 0;
          line += 7;
          continue;
        }
      }
      if (this.has(line)) count += 1;
    }
    return count;
  }

  /** A table for `count` lines from `first` on: bit `i` is line `first + i`. Undefined when the set has no line of them. */
  slice(first: number, count: number): Uint8Array<ArrayBuffer> | undefined {
    if (this.#size === 0) return undefined;
    const table = new Uint8Array((count + 7) >>> 3);
    if (((first | count) & 7) === 0) {
      table.set(this.#bits.subarray(first >>> 3, (first + count) >>> 3));
      return table.some((byte) => byte !== 0) ? table : undefined;
    }
    let any = false;
    for (let index = 0; index < count; index += 1) {
      if (!this.has(first + index)) continue;
      table[index >>> 3] = (table[index >>> 3] ?? 0) | (1 << (index & 7));
      any = true;
    }
    return any ? table : undefined;
  }

  #grow(bytes: number): void {
    const larger = new Uint8Array(Math.max(bytes, this.#bits.length * 2));
    larger.set(this.#bits);
    this.#bits = larger;
  }
}
