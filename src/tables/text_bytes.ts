/**
 * Texts as UTF-8, one after another in one buffer that is used again: a long text that is put together of many lines, and a buffer for
 * each, made the collector take a third of the time of a conversion.
 */
const BYTES_MIN = 256 * 1024;
/** Of a UTF-16 unit. */
const UNIT_BYTES_MAX = 3;

export class TextBytes {
  #bytes = Buffer.allocUnsafeSlow(BYTES_MIN);
  #length = 0;

  /** Bytes that `take` would return. */
  get length(): number {
    return this.#length;
  }

  add(text: string): void {
    const needed = this.#length + text.length * UNIT_BYTES_MAX;
    if (needed > this.#bytes.byteLength) {
      const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.#bytes.byteLength * 2));
      this.#bytes.copy(larger, 0, 0, this.#length);
      this.#bytes = larger;
    }
    this.#length += this.#bytes.write(text, this.#length);
  }

  /** What was added since the last call; valid until the next `add`. */
  take(): Uint8Array {
    const taken = this.#bytes.subarray(0, this.#length);
    this.#length = 0;
    return taken;
  }
}
