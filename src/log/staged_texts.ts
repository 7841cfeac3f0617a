/**
 * Texts end to end in one buffer that grows, so that thousands of small ones do not need thousands of buffers.
 */
import { allocate } from "../large_bytes.ts";

const BYTES_MIN = 16 << 10;
const NO_BYTES = new Uint8Array();

export class StagedTexts {
  #buffer: Uint8Array = NO_BYTES;
  #end = 0;
  readonly sizes: number[] = [];

  /** Copies it. */
  add(text: Uint8Array): void {
    const end = this.#end + text.byteLength;
    if (end > this.#buffer.byteLength) this.#grow(end);
    this.#buffer.set(text, this.#end);
    this.#end = end;
    this.sizes.push(text.byteLength);
  }

  /** A view of all, until more is added. */
  view(): Uint8Array {
    return this.#buffer.subarray(0, this.#end);
  }

  /** All, in a buffer of their own. */
  copy(): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(allocate(this.#end).buffer);
    bytes.set(this.view());
    return bytes;
  }

  #grow(bytesMin: number): void {
    const larger = Buffer.allocUnsafeSlow(Math.max(bytesMin, this.#buffer.byteLength * 2, BYTES_MIN));
    larger.set(this.view());
    this.#buffer = larger;
  }
}
