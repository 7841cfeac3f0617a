/**
 * A member of a JSON text as the bytes that spell it, so that numbers keep their digits and nothing is written again.
 *
 * Hot, once a result: strings are skipped with `indexOf`, nothing is copied. Linear in the text, and no depth exhausts the stack.
 */
import { Buffer } from "node:buffer";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

/**
 * The bytes of the value at `path` (names of members from the root), a view of `json`; undefined where a name or an object on the way is
 * missing. Of members with one name the last counts, as for `JSON.parse`. `json` must be valid JSON: of other bytes it returns anything.
 */
export function memberBytes(json: Uint8Array, path: readonly string[]): Uint8Array | undefined {
  const text = Buffer.from(json.buffer, json.byteOffset, json.byteLength);
  let start = afterSpace(text, 0);
  let end = afterValue(text, start);
  for (const name of path) {
    const found = memberOf(text, start, name);
    if (found === undefined) return undefined;
    ({ start, end } = found);
  }
  return text.subarray(start, end);
}

interface Span {
  readonly start: number;
  readonly end: number;
}

function memberOf(text: Buffer, object: number, name: string): Span | undefined {
  if (text[object] !== OPEN_BRACE) return undefined;
  let found: Span | undefined;
  let at = afterSpace(text, object + 1);
  while (at < text.length && text[at] === QUOTE) {
    const nameEnd = afterString(text, at);
    const colon = afterSpace(text, nameEnd);
    if (text[colon] !== COLON) return undefined;
    const start = afterSpace(text, colon + 1);
    const end = afterValue(text, start);
    if (isName(text, at, nameEnd, name)) found = { start, end };
    const next = afterSpace(text, end);
    if (text[next] !== COMMA) return found;
    at = afterSpace(text, next + 1);
  }
  return found;
}

function isName(text: Buffer, start: number, end: number, name: string): boolean {
  const spelt = text.toString("utf8", start + 1, end - 1);
  if (!spelt.includes("\\")) return spelt === name;
  try {
    return JSON.parse(text.toString("utf8", start, end)) === name;
  } catch {
    return false;
  }
}

function afterSpace(text: Buffer, from: number): number {
  let at = from;
  while (at < text.length) {
    const byte = text[at];
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return at;
    at++;
  }
  return at;
}

/** After the string whose opening quote is at `open`. */
function afterString(text: Buffer, open: number): number {
  let at = open;
  do {
    at = text.indexOf(QUOTE, at + 1);
    if (at < 0) return text.length;
  } while (isEscaped(text, at));
  return at + 1;
}

function isEscaped(text: Buffer, quote: number): boolean {
  let at = quote;
  while (text[at - 1] === BACKSLASH) at--;
  return (quote - at) % 2 === 1;
}

function afterValue(text: Buffer, start: number): number {
  const first = text[start];
  if (first === QUOTE) return afterString(text, start);
  if (first !== OPEN_BRACE && first !== OPEN_BRACKET) return afterScalar(text, start);
  let depth = 0;
  let at = start;
  while (at < text.length) {
    const byte = text[at];
    if (byte === QUOTE) {
      at = afterString(text, at);
      continue;
    }
    at++;
    if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth++;
    else if ((byte === CLOSE_BRACE || byte === CLOSE_BRACKET) && --depth === 0) return at;
  }
  return at;
}

function afterScalar(text: Buffer, start: number): number {
  let at = start;
  while (at < text.length) {
    const byte = text[at] ?? 0;
    if (byte <= 0x20 || byte === COMMA || byte === CLOSE_BRACE || byte === CLOSE_BRACKET) return at;
    at++;
  }
  return at;
}
