/**
 * Collects the chunks of one response body into one array, within a bound.
 *
 * Hot path: a body that arrives in one chunk (nearly all do) is handed on without a copy. Node gives each read of a
 * socket its own memory, so the view stays valid for as long as it is kept. More chunks are copied once into memory
 * of the announced length (up to 256 KiB; beyond that the memory doubles as bytes really arrive, so that a server
 * which announces much and sends little costs little).
 */

/** Announced lengths are believed up to this many bytes; more is allocated only as it arrives. */
const BELIEVED_BYTES_MAX = 256 * 1024;

const EMPTY: Uint8Array = new Uint8Array(0);

/** Reused by its connection: `reset` before each response. */
export class BodyCollector {
  readonly #bytesMax: number;
  /** The only chunk so far, uncopied; undefined once there are two. */
  #single: Uint8Array | undefined;
  #memory: Uint8Array = EMPTY;
  #length = 0;
  /** What `content-length` said; undefined when it said nothing. */
  #announced: number | undefined;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get length(): number {
    return this.#length;
  }

  reset(announcedBytes: number | undefined): void {
    this.#single = undefined;
    this.#memory = EMPTY;
    this.#length = 0;
    this.#announced = announcedBytes;
  }

  /** Takes a chunk that nobody changes any more; false when the body would exceed its bound. */
  add(chunk: Uint8Array): boolean {
    const length = this.#length + chunk.length;
    if (length > this.#bytesMax) return false;
    if (this.#length === 0) {
      this.#single = chunk;
    } else {
      if (this.#memory.length < length) this.#grow(length);
      this.#memory.set(chunk, this.#length);
    }
    this.#length = length;
    return true;
  }

  /** The whole body; the collector lets go of it. */
  take(): Uint8Array {
    const body = this.#single ?? this.#memory.subarray(0, this.#length);
    this.reset(undefined);
    return body;
  }

  #grow(neededBytes: number): void {
    const announced = this.#announced ?? 0;
    const doubled = Math.max(64 * 1024, 2 * this.#memory.length, neededBytes);
    const capacity =
      announced >= neededBytes && announced <= BELIEVED_BYTES_MAX
        ? announced
        : Math.min(doubled, Math.max(neededBytes, announced > 0 ? announced : this.#bytesMax));
    const memory = new Uint8Array(Buffer.allocUnsafeSlow(capacity).buffer);
    memory.set(this.#single ?? this.#memory.subarray(0, this.#length));
    this.#single = undefined;
    this.#memory = memory;
  }
}
