/**
 * Reading untrusted JSON: bytes to a value, and a value to what it should be or to `undefined`. Never throws.
 *
 * Limits: bytes that are not UTF-8, and a byte order mark, make no JSON (RFC 8259, section 8.1): such a body is not
 * trusted to be whole. `JSON.parse` of V8 is iterative, so depth cannot exhaust the stack.
 */
import { Buffer, isUtf8 } from "node:buffer";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** A JSON object whose members nobody has checked yet. */
export type Unchecked = Readonly<Record<string, unknown>>;

/** The value that the bytes spell, or `undefined` when they are not JSON in UTF-8. */
export function parseJson(body: Uint8Array): unknown {
  const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString("utf8");
  // A replacement character is either the answer's own or our reading of bytes that are not UTF-8.
  if (text.includes("\uFFFD") && !isUtf8(body)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** What an answer's body spells, or `undefined` when it is not JSON in UTF-8; read once. */
export function answerJson(answer: { readonly body: Uint8Array; readonly value?: unknown }): unknown {
  return answer.value ?? parseJson(answer.body);
}

/** The value when it is a JSON object (not an array). */
export function objectOf(value: unknown): Unchecked | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  return value as Unchecked; // any object can be read member by member when every member is unknown
}

/** The value when it is an array. */
export function arrayOf(value: unknown): readonly unknown[] | undefined {
  return Array.isArray(value) ? value : undefined;
}

/** Of several answers the one with `index` 0, at any position; the first without such an index. */
export function firstByIndex(answers: readonly unknown[]): unknown {
  const [first] = answers;
  if (answers.length < 2) return first;
  return answers.find((each) => (objectOf(each)?.["index"] ?? 0) === 0) ?? first;
}

/** Several answers by their `index`; without one they are in order already. */
export function allByIndex(answers: readonly unknown[]): readonly unknown[] {
  const indexOf = (each: unknown): number => countOf(objectOf(each)?.["index"]) ?? 0;
  return answers.toSorted((one, other) => indexOf(one) - indexOf(other));
}

/** The value when it is a string. */
export function stringOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** Characters of a name that a provider sends: a model, the id of a request. */
const NAME_CHARS_MAX = 256;
const NAME = /^[\x20-\x7e]+$/;

/** The value when it is a name: printable ASCII of at most 256 characters. */
export function nameOf(value: unknown): string | undefined {
  return typeof value === "string" && value.length <= NAME_CHARS_MAX && NAME.test(value) ? value : undefined;
}

/** The value when it counts something: a whole number from 0 that a double holds exactly. */
export function countOf(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined; // checked to be a number
}

/**
 * A JSON object's text with one more member whose number keeps its digits, which `JSON.stringify` would round.
 * `digits` must be a JSON integer. `depth` 1 puts it last into the object, 2 last into the object's last member.
 */
export function withDigits(json: string, name: string, digits: string, depth: 1 | 2): string {
  const head = json.slice(0, -depth);
  return `${head}${head.endsWith("{") ? "" : ","}${JSON.stringify(name)}:${digits}${"}".repeat(depth)}`;
}

/** After the quote that ends the text which begins at `at`; undefined if it does not end. */
export function stringEnd(bytes: Buffer, at: number): number | undefined {
  for (let end = bytes.indexOf(QUOTE, at + 1); end >= 0; end = bytes.indexOf(QUOTE, end + 1)) {
    let slashes = 0;
    while (bytes[end - 1 - slashes] === BACKSLASH) slashes += 1;
    if (slashes % 2 === 0) return end + 1;
  }
  return undefined;
}
