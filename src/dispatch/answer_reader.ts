/**
 * The reader's end of a streamed response: chunks in the order of their arrival, and back-pressure.
 *
 *   open --last chunk--> whole --read to its end--> done
 *     |  --call failed--> failed (chunks that were not read are dropped): the next read rejects
 *     +--reader left--> done
 *
 * Limits: once 64 KiB wait to be read, `add` asks for a pause.
 */
import { type FailedWire, type WireChunks, WireError } from "./transport.ts";

const WAITING_BYTES_MAX = 64 * 1024;
const END = { done: true, value: undefined } as const;

type Chunk = IteratorResult<Uint8Array, undefined>;

/** Where the chunks come from. */
export interface ChunkSource {
  /** All that waited was read after a pause: more may be added. */
  more(): void;
  /** The reader left before the end. */
  left(): void;
}

export class AnswerReader implements WireChunks {
  readonly #source: ChunkSource;
  readonly #chunks: Uint8Array[] = [];
  /** Of the chunk to read next: those before it were read. A server may cut 64 KiB into as many chunks. */
  #nextIndex = 0;
  #waitingBytes = 0;
  #isPaused = false;
  #end: "whole" | WireError | undefined;
  #pending: { readonly resolve: (chunk: Chunk) => void; readonly reject: (error: Error) => void } | undefined;

  constructor(source: ChunkSource) {
    this.#source = source;
  }

  /** Not empty, and not after the end. False: no more until the source's `more` is called. */
  add(chunk: Uint8Array): boolean {
    const pending = this.#pending;
    if (pending !== undefined) {
      this.#pending = undefined;
      pending.resolve({ done: false, value: chunk });
      return true;
    }
    this.#chunks.push(chunk);
    this.#waitingBytes += chunk.length;
    this.#isPaused = this.#waitingBytes >= WAITING_BYTES_MAX;
    return !this.#isPaused;
  }

  /** All was added. */
  finish(): void {
    this.#end ??= "whole";
    this.#pending?.resolve(END);
    this.#pending = undefined;
  }

  /** The call failed. Nothing after the end, or after the reader left. */
  fail(failed: FailedWire): void {
    if (this.#end !== undefined) return;
    this.#end = new WireError(failed);
    this.#drop();
    this.#pending?.reject(this.#end);
    this.#pending = undefined;
  }

  [Symbol.asyncIterator](): AnswerReader {
    return this;
  }

  next(): Promise<Chunk> {
    if (this.#pending !== undefined) return Promise.reject(new TypeError("the read before is not settled"));
    const chunk = this.#chunks[this.#nextIndex];
    if (chunk !== undefined) {
      this.#nextIndex += 1;
      if (this.#nextIndex === this.#chunks.length) this.#continue();
      return Promise.resolve({ done: false, value: chunk });
    }
    if (this.#end === "whole") return Promise.resolve(END);
    if (this.#end !== undefined) return Promise.reject(this.#end);
    return new Promise((resolve, reject) => {
      this.#pending = { resolve, reject };
    });
  }

  return(): Promise<Chunk> {
    const isEarly = this.#end === undefined;
    this.#drop();
    this.finish();
    if (isEarly) this.#source.left();
    return Promise.resolve(END);
  }

  /** All that waited was read. */
  #continue(): void {
    this.#drop();
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#source.more();
  }

  #drop(): void {
    this.#chunks.length = 0;
    this.#nextIndex = 0;
    this.#waitingBytes = 0;
  }
}
