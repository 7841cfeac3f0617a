/**
 * A growing run of bytes with the end of each entry: how keys and bodies of many items are kept without an object each.
 *
 * The buffer is kept between uses (`reset`) unless it grew beyond 4 MiB for an unusually long entry. A run of 1 MiB and
 * more is taken over and given away without a copy, where it fills its buffer: one of 8 MiB passes four of these.
 * Hot path: one `add` costs about 0.1 us for 600 bytes of text (bench/parts/pack.ts).
 */

import { allocate, LARGE_BYTES_MIN } from "../large_bytes.ts";

/** A buffer larger than this is not kept for the next use. */
const KEPT_BYTES_MAX = 4 * 1024 * 1024;

export class PackedBytes {
  #bytes: Buffer<ArrayBuffer>;
  /** Others have the buffer, too: it is full, and nothing is written to it any more. */
  #isShared = false;
  #used = 0;
  #ends: number[] = [];

  constructor(initialBytes: number) {
    this.#bytes = allocate(initialBytes);
  }

  /** Entries so far. */
  get count(): number {
    return this.#ends.length;
  }

  /** Bytes so far. */
  get byteLength(): number {
    return this.#used;
  }

  /** Adds an entry: `text` in UTF-8; a lone surrogate becomes U+FFFD. */
  addText(text: string): void {
    // A UTF-16 unit takes at most three bytes; the exact length is worth its cost only near the end of the buffer.
    if (this.#bytes.byteLength - this.#used < text.length * 3) this.#grow(Buffer.byteLength(text));
    this.#used += this.#bytes.write(text, this.#used, "utf8");
    this.#ends.push(this.#used);
  }

  /** Adds the entries `from` to `to` (exclusive) of another run, whose bytes must not be changed any more. */
  addRun(bytes: Uint8Array<ArrayBuffer>, ends: Uint32Array, from: number, to: number): void {
    const start = from === 0 ? 0 : (ends[from - 1] as number);
    const end = to === 0 ? 0 : (ends[to - 1] as number);
    if (this.#used === 0 && start === 0 && end === bytes.buffer.byteLength && end >= LARGE_BYTES_MIN) {
      this.#bytes = Buffer.from(bytes.buffer);
      this.#isShared = true;
    } else {
      this.#grow(end - start);
      this.#bytes.set(bytes.subarray(start, end), this.#used);
    }
    const shift = this.#used - start;
    for (let entry = from; entry < to; entry += 1) this.#ends.push((ends[entry] as number) + shift);
    this.#used += end - start;
  }

  /** Adds an empty entry. */
  addEmpty(): void {
    this.#ends.push(this.#used);
  }

  /** The bytes in a buffer that holds nothing else, and that nothing is written to afterwards. */
  toBytes(): Uint8Array<ArrayBuffer> {
    if (this.#used === this.#bytes.byteLength && this.#used >= LARGE_BYTES_MIN) {
      this.#isShared = true;
      return new Uint8Array(this.#bytes.buffer);
    }
    const bytes = new Uint8Array(this.#used);
    bytes.set(this.#bytes.subarray(0, this.#used));
    return bytes;
  }

  /** The end of each entry, in a buffer of its own. */
  toEnds(): Uint32Array<ArrayBuffer> {
    return new Uint32Array(this.#ends);
  }

  /** Forgets all entries and keeps the buffer. */
  reset(): void {
    this.#used = 0;
    this.#ends = [];
    if (this.#isShared) this.#bytes = allocate(LARGE_BYTES_MIN / 2);
    else if (this.#bytes.byteLength > KEPT_BYTES_MAX) this.#bytes = allocate(KEPT_BYTES_MAX);
    this.#isShared = false;
  }

  #grow(moreBytes: number): void {
    const needed = this.#used + moreBytes;
    if (needed <= this.#bytes.byteLength) return;
    const larger = allocate(Math.max(needed, this.#bytes.byteLength * 2));
    larger.set(this.#bytes.subarray(0, this.#used));
    this.#bytes = larger;
    this.#isShared = false;
  }
}
