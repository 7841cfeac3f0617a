/**
 * Numbers that a double cannot hold, carried through JavaScript as marked strings and written with their own digits.
 *
 *   12345678901234567890  --markNumbers-->  "\0perigee-number:<nonce>:12345678901234567890"
 *                         --JSON.parse, encode, JSON.stringify, restoreNumbers-->  12345678901234567890
 *
 * The nonce is drawn once per thread, so no input can hold a marker: marked values are encoded in the thread that
 * parsed them. A number is marked when reading it as a double and printing it results in another value: integers beyond
 * 2^53, too many digits, 1e400. Only lines in which `structure.ts` saw a long number or an exponent are passed here.
 */
import { randomBytes } from "node:crypto";

const MARK = `\u0000perigee-number:${randomBytes(12).toString("hex")}:`;
/** The marker as `JSON.stringify` writes it. */
const ESCAPED_MARK: string = JSON.stringify(MARK).slice(1, -1);
const MARKED_LITERAL = new RegExp(`"${ESCAPED_MARK.replaceAll("\\", "\\\\")}([-+.0-9eE]+)"`, "g");
/** The same in JSON that is a text of JSON: the arguments of a call in OpenAI's layout. */
const MARKED_IN_TEXT: RegExp = new RegExp(
  `\\\\"\\\\${ESCAPED_MARK.replaceAll("\\", "\\\\")}([-+.0-9eE]+)\\\\"`,
  "g",
);

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** The placeholder for a JSON number; `digits` is the number as written. `restoreNumbers` turns it back. */
export function markedNumber(digits: string): string {
  return MARK + digits;
}

/** The digits of a placeholder, or undefined when the value is anything else. */
export function digitsOf(value: unknown): string | undefined {
  if (typeof value !== "string" || value.charCodeAt(0) !== 0 || !value.startsWith(MARK)) return undefined;
  return value.slice(MARK.length);
}

/** True for strings of the input; false for everything else, placeholders of numbers included. */
export function isText(value: unknown): value is string {
  return typeof value === "string" && (value.charCodeAt(0) !== 0 || !value.startsWith(MARK));
}

/** JSON text with every placeholder turned back into its number. `json` is a result of `JSON.stringify`. */
export function restoreNumbers(json: string): string {
  return json.includes(ESCAPED_MARK)
    ? json.replace(MARKED_IN_TEXT, "$1").replace(MARKED_LITERAL, "$1")
    : json;
}

/** Valid JSON text with placeholders for the numbers that a double would change; the same text without any. */
export function markNumbers(json: string): string {
  const pieces: string[] = [];
  let copied = 0;
  let at = 0;
  while (at < json.length) {
    const code = json.charCodeAt(at);
    if (code === QUOTE) {
      at = afterString(json, at + 1);
    } else if (code === 0x2d || isDigit(code)) {
      const end = afterNumber(json, at + 1);
      const digits = json.slice(at, end);
      if (!survivesDouble(digits)) {
        pieces.push(json.slice(copied, at), `"${ESCAPED_MARK}${digits}"`);
        copied = end;
      }
      at = end;
    } else {
      at++;
    }
  }
  return pieces.length === 0 ? json : pieces.join("") + json.slice(copied);
}

/** Index after the closing quote of the string whose first character is at `from`; past the end without a closing quote. */
export function afterString(json: string, from: number): number {
  let at = from;
  for (;;) {
    const quote = json.indexOf('"', at);
    if (quote < 0) return json.length + 1;
    let backslashes = 0;
    while (quote - 1 - backslashes >= from && json.charCodeAt(quote - 1 - backslashes) === BACKSLASH)
      backslashes++;
    if (backslashes % 2 === 0) return quote + 1;
    at = quote + 1;
  }
}

/** Index after the number token that continues at `from`. */
export function afterNumber(json: string, from: number): number {
  let at = from;
  for (;;) {
    const code = json.charCodeAt(at);
    const goesOn = isDigit(code) || code === 0x2e || code === 0x2b || code === 0x2d || (code | 0x20) === 0x65; // . + - e E
    if (!goesOn) return at;
    at++;
  }
}

export function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}

function survivesDouble(digits: string): boolean {
  const value = Number(digits);
  return Number.isFinite(value) && decimalOf(digits) === decimalOf(String(value));
}

/** One spelling per value: `<digits without outer zeros>e<exponent>`, the point after the last digit, no sign. */
function decimalOf(number: string): string {
  const exponentAt = number.search(/[eE]/);
  const mantissa = (exponentAt < 0 ? number : number.slice(0, exponentAt)).replace("-", "");
  const point = mantissa.indexOf(".");
  const digits = mantissa.replace(".", "");
  let exponent = exponentAt < 0 ? 0 : Number(number.slice(exponentAt + 1));
  if (point >= 0) exponent -= mantissa.length - point - 1;
  let start = 0;
  let end = digits.length;
  while (start < end && digits.charCodeAt(start) === 0x30) start++;
  while (end > start && digits.charCodeAt(end - 1) === 0x30) end--;
  return start === end ? "0" : `${digits.slice(start, end)}e${exponent + digits.length - end}`;
}
