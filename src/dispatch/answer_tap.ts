/**
 * Who reads an answer while it arrives, beside the item that it is for.
 *
 *   waiting -> begun (the first chunk was passed on: nothing is repeated any more) -> the item ends
 *   waiting | begun -> left (its reader has left: what is under way is cut, and nothing more is sent)
 *
 * At most one chunk waits here: the provider's socket is paused while the reader takes no more.
 */
import type { StreamChunk } from "../providers/streams/event_reader.ts";

/** Takes chunks in order. What it returns is waited for before the next one. */
export type TakesChunks = (chunk: StreamChunk) => Promise<void> | undefined;

/** One for a call. */
export class AnswerTap {
  readonly #take: TakesChunks;
  readonly #left = new AbortController();
  /** Whether a chunk was passed on. */
  hasBegun = false;

  constructor(take: TakesChunks) {
    this.#take = take;
  }

  /** Aborts when its reader has left. */
  get left(): AbortSignal {
    return this.#left.signal;
  }

  /** Its reader has left. */
  leave(): void {
    this.#left.abort();
  }

  /** Passes a chunk on. */
  pass(chunk: StreamChunk): Promise<void> | undefined {
    this.hasBegun = true;
    return this.#take(chunk);
  }
}
