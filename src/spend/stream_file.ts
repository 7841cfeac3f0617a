/**
 * A stream as a file that is read from front to back: what has been read stays until a later offset is read.
 */
import type { DiskFile } from "../disk.ts";

export class StreamFile implements Pick<DiskFile, "read"> {
  readonly #chunks: AsyncIterator<Uint8Array>;
  /** What has arrived and was not passed. */
  #held: Uint8Array = new Uint8Array(0);
  /** Offset of its first byte. */
  #heldFrom = 0;

  constructor(stream: AsyncIterable<Uint8Array>) {
    this.#chunks = stream[Symbol.asyncIterator]();
  }

  /** As much as is there, at least a byte; 0 at the end. `position` may be that of an earlier call, or what follows it. */
  async read(into: Uint8Array, position: number): Promise<number> {
    const passed = position - this.#heldFrom;
    if (passed >= this.#held.byteLength) {
      this.#held = await this.#next();
      this.#heldFrom = position;
    } else if (passed > 0) {
      this.#held = this.#held.subarray(passed);
      this.#heldFrom = position;
    }
    const got = Math.min(into.byteLength, this.#held.byteLength);
    into.set(this.#held.subarray(0, got));
    return got;
  }

  async #next(): Promise<Uint8Array> {
    for (;;) {
      const { value, done } = await this.#chunks.next();
      if (done === true) return new Uint8Array(0);
      if (value.byteLength > 0) return value;
    }
  }
}
