/**
 * The body of a request that is read from its source while it is sent.
 *
 *   reading --source ended, all bytes given--> done
 *      |  --source threw, or has more or fewer bytes than stated--> failed: the call is ended
 *      +--the call ended--> ended: the reader that waits for a piece gets nothing, and the source is closed
 *
 * The last piece is held back until the source has ended: a source with too many bytes never becomes a whole request.
 * Limits: pieces of 256 KiB, one chunk of the source in memory.
 */
import type { RequestSource } from "./transport.ts";

/** Larger bodies are passed to the socket in pieces of this size, so that their progress shows. */
export const UPLOAD_PIECE_BYTES: number = 256 * 1024;

const EMPTY: Uint8Array = new Uint8Array(0);
const END = { done: true, value: undefined } as const;

type Piece = IteratorResult<Uint8Array, undefined>;

/** For one call. `next` is not called again before it is settled. */
export class Upload implements AsyncIterable<Uint8Array> {
  readonly lengthBytes: number;
  readonly #source: AsyncIterable<Uint8Array>;
  readonly #chunks: AsyncIterator<Uint8Array>;
  #onFault: (message: string) => void = () => undefined;
  /** What of the last chunk was not given. */
  #chunk = EMPTY;
  #readBytes = 0;
  #state: "reading" | "done" | "ended" = "reading";
  /** Whether the source has said that it ended. */
  #isDrained = false;
  #resolve: ((piece: Piece) => void) | undefined;

  constructor({ lengthBytes, chunks }: RequestSource) {
    this.lengthBytes = lengthBytes;
    this.#source = chunks;
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  /** Whether all bytes were given and their end was read. */
  get isDone(): boolean {
    return this.#state === "done";
  }

  /** `onFault` is called at most once, and must end the call. */
  begin(onFault: (message: string) => void): void {
    this.#onFault = onFault;
  }

  [Symbol.asyncIterator](): Upload {
    return this;
  }

  next(): Promise<Piece> {
    if (this.#state !== "reading") return Promise.resolve(END);
    return new Promise((resolve) => {
      this.#resolve = resolve;
      this.#piece().then(
        (piece) => this.#give(piece),
        (error: unknown) => this.#fail(error),
      );
    });
  }

  return(): Promise<Piece> {
    this.end();
    return Promise.resolve(END);
  }

  /** The call ended: nothing more is needed of the source. May be called again. */
  end(): void {
    if (this.#state === "ended") return;
    this.#state = "ended";
    this.#chunk = EMPTY;
    this.#resolve?.(END);
    void close(this.#source, this.#chunks);
  }

  #give(piece: Uint8Array): void {
    if (this.#state !== "reading") return;
    if (piece.length === 0) this.#state = "done";
    this.#resolve?.(piece.length === 0 ? END : { done: false, value: piece });
  }

  #fail(error: unknown): void {
    if (this.#state !== "reading") return;
    const reason = error instanceof LengthError ? error.message : `failed (${reasonOf(error)})`;
    this.#onFault(`the stream of the request ${reason}`);
  }

  /** The next piece; an empty one at the end. */
  async #piece(): Promise<Uint8Array> {
    while (this.#chunk.length === 0 && !this.#isDrained) await this.#read();
    const piece = this.#chunk.subarray(0, UPLOAD_PIECE_BYTES);
    const rest = this.#chunk.subarray(piece.length);
    if (this.#readBytes === this.lengthBytes && rest.length === 0)
      while (!this.#isDrained) await this.#read();
    this.#chunk = rest;
    return piece;
  }

  async #read(): Promise<void> {
    const { done, value } = await this.#chunks.next();
    const { lengthBytes } = this;
    if (done === true) {
      if (this.#readBytes < lengthBytes)
        throw new LengthError(`ended after ${this.#readBytes} of ${lengthBytes} bytes`);
      this.#isDrained = true;
      return;
    }
    this.#readBytes += value.length;
    if (this.#readBytes > lengthBytes) throw new LengthError(`has more than the stated ${lengthBytes} bytes`);
    if (value.length > 0) this.#chunk = value;
  }
}

class LengthError extends Error {}

/** Ends a source that was not read; what that throws is the source's own. A stream of Node waits for its last read in `return`. */
async function close(source: AsyncIterable<Uint8Array>, chunks: AsyncIterator<Uint8Array>): Promise<void> {
  const { destroy } = source as { readonly destroy?: unknown };
  try {
    if (typeof destroy === "function") destroy.call(source);
    await chunks.return?.();
  } catch {
    // nobody waits for it
  }
}

/** The code of an error, or its class; never its message, which may quote what was sent. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  const code: unknown = "code" in error ? error.code : undefined;
  return typeof code === "string" ? code : error.name;
}
