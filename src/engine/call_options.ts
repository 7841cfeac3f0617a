/**
 * The options of calls, checked: a name that is not known, and a value of another kind, is refused with what was meant
 * instead of doing nothing. The schema of a call says of each of its options what it must be; the compiler sees to it
 * that none is missing.
 */
import { PerigeeError } from "../errors.ts";
import { suggestion } from "../nearest.ts";

/** What an option must be, in words, and whether a value is. */
export interface OptionKind {
  readonly expected: string;
  readonly isValid: (value: unknown) => boolean;
}

/** One kind for each option of a call. */
export type OptionSchema<T> = Readonly<Record<keyof T, OptionKind>>;

export const A_TEXT: OptionKind = {
  expected: "a text",
  isValid: (value) => typeof value === "string" && value !== "",
};
export const A_TRUTH: OptionKind = {
  expected: "true or false",
  isValid: (value) => typeof value === "boolean",
};
/** From 0. */
export const AN_AMOUNT: OptionKind = {
  expected: "a number from 0",
  isValid: (value) => isNumber(value) && value >= 0,
};
export const A_FUNCTION: OptionKind = {
  expected: "a function",
  isValid: (value) => typeof value === "function",
};
export const A_SIGNAL: OptionKind = {
  expected: "an AbortSignal",
  isValid: (value) => value instanceof AbortSignal,
};
export const AN_OBJECT: OptionKind = {
  expected: "an object",
  isValid: (value) => typeof value === "object" && value !== null && !Array.isArray(value),
};
export const A_LIST: OptionKind = { expected: "a list", isValid: Array.isArray };
/** Checked where it is read, with its bounds. */
export const CHECKED_LATER: OptionKind = { expected: "a value", isValid: () => true };

/** Throws `usage` for the first option that is not as the schema says; `call` names the call. Absent options are fine. */
export function checkCallOptions<T>(options: T, schema: OptionSchema<T>, call: string): void {
  if (!AN_OBJECT.isValid(options))
    throw new PerigeeError("usage", `${call}: options must be an object, got ${kindOf(options)}`);
  for (const name in options) {
    const kind = Object.hasOwn(schema, name) ? schema[name] : undefined;
    if (kind === undefined) throw unknownOption(name, Object.keys(schema), call);
    const value = options[name];
    if (value === undefined || kind.isValid(value)) continue;
    throw new PerigeeError("usage", `${call}: ${name} must be ${kind.expected}, got ${kindOf(value)}`);
  }
}

function unknownOption(name: string, known: readonly string[], call: string): PerigeeError {
  const hint = suggestion(name, known);
  const text = `${call}: "${name.slice(0, 64)}" is not a known option${hint === "" ? "" : `; ${hint}`}`;
  return new PerigeeError("usage", text);
}

function isNumber(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

function kindOf(value: unknown): string {
  if (typeof value === "number" || typeof value === "boolean" || value === null) return String(value);
  return typeof value === "string"
    ? JSON.stringify(value.slice(0, 40))
    : Array.isArray(value)
      ? "a list"
      : typeof value;
}
