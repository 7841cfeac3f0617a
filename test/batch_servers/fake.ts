/**
 * What a fake provider is: a state machine that turns requests into replies and has no clock, socket or chance of its own.
 *
 * `serve.ts` puts one on a real socket, `transport.ts` answers a `Transport` from several in virtual time.
 */
import type { Ledger } from "./ledger.ts";

export interface FakeRequest {
  readonly method: string;
  /** With or without `?query`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: Uint8Array;
}

export interface FakeReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** How long the answer takes; sockets answer at once. Default 0. */
  readonly afterMs?: number;
  /** The connection breaks after so many bytes of the body. */
  readonly tornAfterBytes?: number;
}

/** `lost`: the effect took place and its answer is lost. `refused_connection`: nothing arrived. */
export type FakeAnswer = FakeReply | "lost" | "refused_connection";

export interface BatchFake {
  readonly ledger: Ledger;
  handle(request: FakeRequest): FakeAnswer;
}

const utf8 = new TextDecoder();
const encoder = new TextEncoder();

export function jsonReply(status: number, body: unknown, headers: Record<string, string> = {}): FakeReply {
  return {
    status,
    headers: { "content-type": "application/json", ...headers },
    body: encoder.encode(JSON.stringify(body)),
  };
}

export function bytesReply(body: Uint8Array, type = "application/octet-stream"): FakeReply {
  return { status: 200, headers: { "content-type": type }, body };
}

/** The JSON object of a body; undefined where it is not one. */
export function objectOf(body: Uint8Array | string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(typeof body === "string" ? body : utf8.decode(body));
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

export type JsonObject = { readonly [name: string]: unknown };

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The lines of a text, without empty ones. */
export function linesOf(bytes: Uint8Array): string[] {
  return utf8
    .decode(bytes)
    .split("\n")
    .filter((line) => line.trim() !== "");
}

/** The path without its query, and the query of both places. */
export function addressOf({ path, query = {} }: FakeRequest): {
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
} {
  const [bare = "", text = ""] = path.split("?");
  return { path: bare, query: { ...Object.fromEntries(new URLSearchParams(text)), ...query } };
}

export function textBytes(text: string): Uint8Array {
  return encoder.encode(text);
}

/** The key of a request. */
export function bearerOf({ headers }: FakeRequest): string {
  return (headers["authorization"] ?? headers["api-key"] ?? "").replace(/^Bearer /, "");
}
