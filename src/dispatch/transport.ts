/**
 * The port for the wire: one request out, one whole response back, within one total deadline.
 */
import type { HeaderBag } from "../providers/provider.ts";

/** A POST. The body is the caller's until the promise settles and must not change before. */
export interface WireRequest {
  readonly origin: string;
  readonly path: string;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

/**
 * `not_sent`: no byte of the request left (DNS, connect, TLS). `lost`: the connection ended before the whole
 * response (the request may have been processed). `timeout`: the deadline passed after the request may have left.
 * `too_large`: the response exceeded its bound. `aborted`: the signal fired.
 */
export type WireFailure = "not_sent" | "lost" | "timeout" | "too_large" | "aborted";

/** How a request ended: with a response of any status, its body decoded and whole, or without one. */
export type WireResult =
  | { readonly ok: true; readonly status: number; readonly headers: HeaderBag; readonly body: Uint8Array }
  | { readonly ok: false; readonly failure: WireFailure; readonly message: string };

/** How long a request may take, and what ends it. */
export interface SendOptions {
  /** From the call to the last byte of the answer. */
  readonly timeoutMs: number;
  /** Called when the time has passed, and after each extension: milliseconds to extend it by; 0 ends the request. Absent: 0. */
  readonly moreMs?: (() => number) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Port. `send` may be called concurrently and without limit (who calls it bounds the number in flight); it never
 * rejects and never retries. The deadline covers everything from the call to the last byte. When it passes for good, or the
 * signal fires, or the body exceeds its bound, the socket is destroyed. After `close`, `send` answers `aborted`.
 * `close` ends idle connections at once and destroys busy ones.
 */
export interface Transport {
  send(request: WireRequest, options: SendOptions): Promise<WireResult>;
  close(): Promise<void>;
}
