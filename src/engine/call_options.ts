/**
 * Checks the options of calls: an unknown name, or a value of another kind, is refused with what was expected instead of
 * being ignored. The schema of a call says what each of its options must be; the compiler ensures that they are complete.
 */
import { PerigeeError } from "../errors.ts";
import { suggestion } from "../nearest.ts";

/** What an option must be, in words and as a check. */
export interface OptionKind {
  readonly expected: string;
  readonly isValid: (value: unknown) => boolean;
  /** For an object: what its members must be. */
  readonly members?: Readonly<Record<string, OptionKind>>;
  /** For an object with free names: what each value must be. */
  readonly values?: OptionKind;
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
/** An object with these members and no others. */
export function anObjectOf<T>(members: OptionSchema<T>): OptionKind {
  return { ...AN_OBJECT, members };
}

/** An object from free names to values of a kind. */
export function byName(values: OptionKind): OptionKind {
  return { ...AN_OBJECT, values };
}

/** Checked where it is read, with its bounds. */
export const CHECKED_LATER: OptionKind = { expected: "a value", isValid: () => true };

/** Throws `usage` for the first option that is not as the schema says; `call` names the call. Absent options are fine. */
export function checkCallOptions<T>(options: T, schema: OptionSchema<T>, call: string): void {
  if (!AN_OBJECT.isValid(options))
    throw new PerigeeError("usage", `${call}: options must be an object, got ${kindOf(options)}`);
  checkMembers(options as Given, schema, { call, path: "" }); // checked to be an object
}

type Given = Readonly<Record<string, unknown>>;

/** Where a member is: the call, and the path of its object, which is empty or ends in a dot. */
interface Place {
  readonly call: string;
  readonly path: string;
}

function checkMembers(given: Given, schema: Readonly<Record<string, OptionKind>>, place: Place): void {
  for (const name in given) {
    const kind = Object.hasOwn(schema, name) ? schema[name] : undefined;
    if (kind === undefined) throw unknownOption(name, Object.keys(schema), place);
    checkValue(given[name], kind, { call: place.call, path: `${place.path}${name}` });
  }
}

function checkValue(value: unknown, kind: OptionKind, { call, path }: Place): void {
  if (value === undefined) return;
  if (!kind.isValid(value))
    throw new PerigeeError("usage", `${call}: ${path} must be ${kind.expected}, got ${kindOf(value)}`);
  if (kind.members !== undefined) checkMembers(value as Given, kind.members, { call, path: `${path}.` });
  if (kind.values === undefined) return;
  for (const [name, each] of Object.entries(value as Given))
    checkValue(each, kind.values, { call, path: `${path}[${JSON.stringify(name.slice(0, 64))}]` });
}

function unknownOption(name: string, known: readonly string[], { call, path }: Place): PerigeeError {
  const hint = suggestion(
    `${path}${name}`,
    known.map((one) => `${path}${one}`),
  );
  const text = `${call}: "${path}${name.slice(0, 64)}" is not a known option${hint === "" ? "" : `; ${hint}`}`;
  return new PerigeeError("usage", text);
}

function isNumber(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

/** A value as a message shows it. */
export function kindOf(value: unknown): string {
  if (typeof value === "number" || typeof value === "boolean" || value === null) return String(value);
  return typeof value === "string"
    ? JSON.stringify(value.slice(0, 40))
    : Array.isArray(value)
      ? "a list"
      : typeof value;
}
