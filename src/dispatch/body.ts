/**
 * Collects the chunks of one response body into one array, within a bound.
 *
 * Hot path: a body that arrives in one chunk (nearly all do) is passed on without a copy. Node gives each read of a
 * socket its own memory, so the view stays valid for as long as it is kept. More chunks are copied once: up to 1 MiB
 * into memory of the announced or doubled length, beyond that into a resizable buffer. That reserves addresses and takes
 * memory only as bytes arrive, so growing copies nothing, a server that announces much and sends little costs little, and
 * what was collected in vain is freed at once, not when garbage is collected. Its pages are taken one by one and given back
 * each time, so it is only for bodies that are rare (bench/jobs/embeddings.ts has bodies of 0.7 MB). The memory up to 1 MiB
 * is used again if the reader of the body gives it back (`giveBackPlain`).
 */
import { giveBackPlain, takePlain } from "../large_bytes.ts";

/** Smaller bodies have plain memory. */
const PLAIN_BYTES_MAX = 1024 * 1024;
const PLAIN_BYTES_MIN = 64 * 1024;
/** Announced lengths are believed up to this many bytes, and up to so many times what has arrived. */
const BELIEVED_BYTES = 256 * 1024;
const BELIEVED_TIMES = 4;
/** A resizable buffer is this much larger than its contents; pages that nothing was written to take no memory. */
const GROWTH_BYTES = 1024 * 1024;

/** ES2024's resizable buffer: Node 20 has it, the types of ES2023 do not. */
interface GrowingBuffer extends ArrayBuffer {
  resize(bytes: number): void;
}
const GrowingBuffer = ArrayBuffer as unknown as new (
  bytes: number,
  options: { readonly maxByteLength: number },
) => GrowingBuffer;

const EMPTY: Uint8Array = new Uint8Array(0);

/** Reused by its connection: `reset` before each response. */
export class BodyCollector {
  readonly #bytesMax: number;
  /** The only chunk so far, uncopied; undefined once there are two. */
  #single: Uint8Array | undefined;
  #memory: Uint8Array = EMPTY;
  /** The buffer of `#memory` when the body is beyond plain memory. */
  #growing: GrowingBuffer | undefined;
  #length = 0;
  /** What `content-length` said; undefined when it said nothing. */
  #announced: number | undefined;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get length(): number {
    return this.#length;
  }

  /** Frees what was collected and not taken. */
  reset(announcedBytes: number | undefined): void {
    this.#growing?.resize(0);
    giveBackPlain(this.#memory);
    this.#begin(announcedBytes);
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
    this.#begin(undefined);
    return body;
  }

  #begin(announcedBytes: number | undefined): void {
    this.#single = undefined;
    this.#memory = EMPTY;
    this.#growing = undefined;
    this.#length = 0;
    this.#announced = announcedBytes;
  }

  #grow(neededBytes: number): void {
    if (this.#growing !== undefined) {
      this.#growing.resize(Math.min(this.#bytesMax, neededBytes + GROWTH_BYTES));
      this.#memory = new Uint8Array(this.#growing);
      return;
    }
    const before = this.#single ?? this.#memory.subarray(0, this.#length);
    this.#memory = neededBytes <= PLAIN_BYTES_MAX ? this.#plain(neededBytes) : this.#resizable(neededBytes);
    this.#memory.set(before);
    giveBackPlain(before);
    this.#single = undefined;
  }

  #plain(neededBytes: number): Uint8Array {
    const announced = this.#announced ?? 0;
    const doubled = Math.max(PLAIN_BYTES_MIN, 2 * this.#memory.length, neededBytes);
    const believed = Math.min(announced, Math.max(BELIEVED_BYTES, BELIEVED_TIMES * neededBytes));
    const capacity = announced >= neededBytes ? believed : Math.min(doubled, this.#bytesMax);
    return takePlain(Math.min(capacity, PLAIN_BYTES_MAX));
  }

  #resizable(neededBytes: number): Uint8Array {
    const maxByteLength = this.#bytesMax;
    this.#growing = new GrowingBuffer(Math.min(maxByteLength, neededBytes + GROWTH_BYTES), { maxByteLength });
    return new Uint8Array(this.#growing);
  }
}
