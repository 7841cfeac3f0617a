/**
 * What is wrong with one line: a value, not an exception, because a bad line ends only itself and files hold millions.
 *
 * Messages say what was expected and what was found. Of the line's own data they quote names and numbers, at most
 * 40 characters of each, and never the text of a prompt.
 */
import type { FailureCode } from "../errors.ts";
import { digitsOf, isText } from "./numbers.ts";

/** A refused line. */
export class LineFault {
  readonly code: FailureCode;
  readonly message: string;
  /** For `provider_missing`: the name of the provider. */
  readonly provider: string | undefined;
  /** The member of the item that is at fault, as the item calls it; undefined where the code says it. */
  readonly field: string | undefined;

  constructor(code: FailureCode, message: string, provider?: string, field?: string) {
    this.code = code;
    this.message = message;
    this.provider = provider;
    this.field = field;
  }

  /** The same of a member of the item. */
  in(field: string): LineFault {
    return new LineFault(this.code, this.message, this.provider, field);
  }
}

/** Two spellings of one field. */
export function givenTwice(first: string, second: string): LineFault {
  return new LineFault("invalid_config", `${first} and ${second} are the same field, set only one`);
}

/** A setting of another form or out of its range. */
export function mustBe(name: string, expected: string, value: unknown): LineFault {
  return new LineFault("invalid_config", `${name} must be ${expected}, got ${shown(value)}`);
}

/** A part of a conversation of another form; a text is never shown. */
export function wrongContents(name: string, expected: string, value: unknown): LineFault {
  return new LineFault("invalid_contents", `${name} must be ${expected}, got ${shownKind(value)}`);
}

/** Characters of user data that a message quotes at most. */
const QUOTED_CHARS_MAX = 40;

/** A value as a message shows it: names and numbers quoted and cut, structures only by their kind. */
export function shown(value: unknown): string {
  if (value === undefined) return "nothing";
  if (value === null) return "null";
  if (Array.isArray(value)) return "an array";
  if (typeof value === "object") return "an object";
  const digits = digitsOf(value);
  if (digits !== undefined) return cut(digits);
  return typeof value === "string" ? JSON.stringify(cut(value)) : String(value);
}

/** A value that may be a prompt, as a message shows it: a string only by its kind. */
export function shownKind(value: unknown): string {
  return isText(value) ? "a string" : shown(value);
}

function cut(text: string): string {
  return text.length <= QUOTED_CHARS_MAX ? text : `${text.slice(0, QUOTED_CHARS_MAX)}...`;
}
