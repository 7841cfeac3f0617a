/**
 * The port for the wire: one request and its response within one total deadline, both whole (`send`) or as streams (`stream`).
 */
import type { HeaderBag } from "../providers/provider.ts";

export type WireMethod = "GET" | "POST" | "PUT" | "DELETE";

/** A request whose body may be read from a source while it is sent. */
export interface StreamRequest {
  /** Absent: POST. */
  readonly method?: WireMethod | undefined;
  readonly origin: string;
  readonly path: string;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  /** Bytes are the caller's until the call ends and must not change before. */
  readonly body: Uint8Array | RequestSource;
}

/**
 * The bytes of a request, read once, at the pace of the socket. When the call ends before they were read, however it ends, the
 * iterator's `return` is called, and `destroy` of a source that has it (Node's streams).
 */
export interface RequestSource {
  /** How many bytes `chunks` has: the `content-length`. With any other number the call fails as `source_failed`. */
  readonly lengthBytes: number;
  readonly chunks: AsyncIterable<Uint8Array>;
}

/** A request with a whole body. */
export interface WireRequest extends StreamRequest {
  readonly body: Uint8Array;
}

/**
 * `not_sent`: no byte of the request left (DNS, connect, TLS). `lost`: the connection ended before the whole
 * response (the request may have been processed). `timeout`: the deadline passed after the request may have left.
 * `too_large`: the response exceeded its bound. `aborted`: the signal fired, or the reader of the response left.
 * `source_failed`: the source of the request threw or has another length than stated; the whole request never left.
 * `source_refused`: what the request is made of is missing or cannot be sent, and another try would find the same; nothing left.
 * `source_away`: the disk or the store that has it cannot be read for now; the whole request never left.
 */
export type WireFailure =
  | "not_sent"
  | "lost"
  | "timeout"
  | "too_large"
  | "aborted"
  | "source_failed"
  | "source_refused"
  | "source_away";

export interface FailedWire {
  readonly ok: false;
  readonly failure: WireFailure;
  readonly message: string;
}

/** How a request ended: with a response of any status, its body decoded and whole, or without one. */
export type WireResult =
  | { readonly ok: true; readonly status: number; readonly headers: HeaderBag; readonly body: Uint8Array }
  | FailedWire;

/** A response of which the head has arrived, or a failure before that. */
export type WireStream =
  | { readonly ok: true; readonly status: number; readonly headers: HeaderBag; readonly chunks: WireChunks }
  | FailedWire;

/**
 * The decoded body of a response, to be read once. What is not read waits at the other end: at most 64 KiB and one chunk are
 * held here. It ends after the last byte of a whole body; if the call ends before, `next` rejects with a `WireError`.
 */
export interface WireChunks extends AsyncIterable<Uint8Array> {
  /** Not before the call before it is settled. */
  next(): Promise<IteratorResult<Uint8Array, undefined>>;
  /** The rest is not needed: ends the call and its socket. A `for await` that is left early calls it. */
  return(): Promise<IteratorResult<Uint8Array, undefined>>;
}

/** Why the body of a response ended before its end. */
export class WireError extends Error {
  readonly failure: WireFailure;

  constructor({ failure, message }: { readonly failure: WireFailure; readonly message: string }) {
    super(message);
    this.name = "WireError";
    this.failure = failure;
  }
}

/** How long a request may take, and what ends it. */
export interface SendOptions {
  /** From the call to the last byte of the answer. */
  readonly timeoutMs: number;
  /** Called when the time has passed, and after each extension: milliseconds to extend it by; 0 ends the request. Absent: 0. */
  readonly moreMs?: (() => number) | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface StreamOptions extends SendOptions {
  /** The response's body, decoded, at most. */
  readonly bytesMax: number;
}

/**
 * Port. `send` and `stream` may be called concurrently and without limit (who calls them bounds the number in flight); they never
 * reject and never retry. The deadline covers everything from the call to the last byte; the time in which a reader does not
 * read counts. When it passes for good, or the signal fires, or the body exceeds its bound, the socket is destroyed.
 * A response may begin before the whole request was sent; when it is complete, the rest of the request is not sent.
 * After `close`, both answer `aborted`. `close` ends idle connections at once and destroys busy ones.
 */
export interface Transport {
  send(request: WireRequest, options: SendOptions): Promise<WireResult>;
  /** Resolves when the head of the response has arrived. A body that is never read holds its connection until the deadline. */
  stream(request: StreamRequest, options: StreamOptions): Promise<WireStream>;
  close(): Promise<void>;
}
