/**
 * What the decoders of batch wires share in reading untrusted JSON and making results of it, with the bytes as they are.
 */
import { Buffer } from "node:buffer";
import { objectOf, stringOf, type Unchecked } from "../json.ts";
import type { HeaderBag } from "../provider.ts";
import type { BatchResult } from "./batch_wire.ts";
import { memberBytes } from "./json_member.ts";

/** A line around a body: its bytes are kept as they are. */
export function lineOf(before: string, body: Uint8Array, after: string): Uint8Array {
  return Buffer.concat([Buffer.from(before), body, Buffer.from(after)]);
}

/** A number of requests: proto3 JSON writes 64-bit numbers as strings. */
export function requestsOf(value: unknown): number | undefined {
  const count = typeof value === "string" && /^\d{1,15}$/.test(value) ? Number(value) : value;
  return Number.isSafeInteger(count) && (count as number) >= 0 ? (count as number) : undefined; // checked to be a number
}

/** An amount of money or ticks from 0. */
export function amountOf(value: unknown): number | undefined {
  const amount = typeof value === "string" && /^\d{1,30}$/.test(value) ? Number(value) : value;
  return typeof amount === "number" && Number.isFinite(amount) && amount >= 0 ? amount : undefined;
}

/** A token for the next page; undefined after the last one. A page is never left out for its token, so tokens may be long. */
export function tokenOf(value: unknown): string | undefined {
  const token = stringOf(value);
  return token === undefined || token === "" || token.length > TOKEN_CHARS_MAX ? undefined : token;
}

const TOKEN_CHARS_MAX = 8_192;

/** A member of an element: the bytes, what they spell, and the names of members from its root. */
interface AnswerMember {
  readonly element: Uint8Array;
  readonly line: Unchecked;
  readonly path: readonly string[];
}

/**
 * A result whose answer is a member of its element; `null` where the member is missing, which no codec takes for an answer. Hot: its bytes
 * are looked for when they are read.
 */
export function answered(
  id: string,
  status: number,
  { element, line, path }: AnswerMember,
  headers: HeaderBag = {},
): BatchResult {
  let value: unknown = line;
  for (const name of path) value = objectOf(value)?.[name];
  return new MemberAnswer({ id, status, headers }, value, element, path);
}

/** Hot: a class, because V8 takes a microsecond to make an object with a getter of its own. */
class MemberAnswer {
  readonly is = "answered";
  readonly id: string;
  readonly status: number;
  readonly headers: HeaderBag;
  readonly value: unknown;
  readonly #element: Uint8Array;
  readonly #path: readonly string[];

  constructor(
    { id, status, headers }: Pick<MemberAnswer, "id" | "status" | "headers">,
    value: unknown,
    element: Uint8Array,
    path: readonly string[],
  ) {
    this.id = id;
    this.status = status;
    this.headers = headers;
    this.value = value;
    this.#element = element;
    this.#path = path;
  }

  get body(): Uint8Array {
    return memberBytes(this.#element, this.#path) ?? NULL;
  }
}

/** The same of an error, which becomes what realtime answers with: `{"error":...}`. */
export function answeredError(
  id: string,
  status: number,
  { element, path }: { readonly element: Uint8Array; readonly path: readonly string[] },
): BatchResult {
  const error = memberBytes(element, path) ?? NULL;
  return { is: "answered", id, status, headers: {}, body: lineOf('{"error":', error, "}") };
}

const NULL: Uint8Array = Buffer.from("null");

/** A result without an answer and without an error. */
export function nothingOf(id: string): BatchResult {
  return {
    is: "unfinished",
    id,
    code: "unknown",
    message: "the batch has neither an answer nor an error for it",
  };
}

/** An invalid result: torn, or of another shape. */
export function unreadable(message: string): BatchResult {
  return { is: "unreadable", message };
}
