/**
 * Fills references of a declaration in: the input and config of a member's execution, and which of its texts name secrets.
 *
 * `${{ secrets.name }}` becomes the text `secret://name`, which the runtime replaces where `secretPaths` point and the satellite
 * lets it (`secret_fields.ts`). Only texts of the declaration are pointed at, so `secret://...` in an output of another member stays
 * a text.
 */
import { isList, isObject, type Json, type JsonObject } from "../../work/json.ts";
import { type Part, partsOf, type Reference } from "./template.ts";

/** How the runtime knows secrets in texts. */
const SECRET_MARK = "secret://";

/** The value of a reference. Throws `ReferenceFault`. */
export type LookUp = (reference: Reference) => Json;

/** Throws `ReferenceFault` once it has given more than that in all: one text may refer to another thousands of times. */
export function atMost(charsMax: number, lookUp: LookUp): LookUp {
  let left = charsMax;
  return (reference) => {
    const value = lookUp(reference);
    left -= typeof value === "string" ? value.length : JSON.stringify(value).length;
    if (left >= 0) return value;
    throw new ReferenceFault(`${reference.text}: what is filled in has more than ${charsMax} characters`);
  };
}

/** A reference whose value does not exist, or does not fit its place. */
export class ReferenceFault extends Error {}

/** A value without references, but for those to secrets. */
export interface Filled {
  readonly value: Json;
  /** JSON pointers (RFC 6901) of texts in which secrets are named. */
  readonly secretPaths: readonly string[];
}

/** `pointer` is that of the value itself, such as `/input`. */
export function fill(value: Json, pointer: string, lookUp: LookUp): Filled {
  const secretPaths: string[] = [];
  return { value: fillValue(value, pointer, lookUp, secretPaths), secretPaths };
}

function fillValue(value: Json, pointer: string, lookUp: LookUp, secretPaths: string[]): Json {
  if (typeof value === "string") return fillText(value, pointer, lookUp, secretPaths);
  if (isList(value)) {
    return value.map((item, index) => fillValue(item, `${pointer}/${index}`, lookUp, secretPaths));
  }
  if (!isObject(value)) return value;
  const members = Object.entries(value).map(([name, member]) => {
    const at = `${pointer}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
    return [name, fillValue(member, at, lookUp, secretPaths)] as const;
  });
  return Object.fromEntries(members);
}

function fillText(text: string, pointer: string, lookUp: LookUp, secretPaths: string[]): Json {
  const parts = partsOf(text);
  if ("fault" in parts) throw new ReferenceFault(parts.fault);
  if (namesSecret(parts)) {
    secretPaths.push(pointer);
    return parts.map((part) => (typeof part === "string" ? part : secretText(part))).join("");
  }
  const [only] = parts;
  if (parts.length === 1 && only !== undefined && typeof only !== "string") return lookUp(only);
  return parts.map((part) => (typeof part === "string" ? part : within(part, lookUp(part)))).join("");
}

/** By reference, or because the author wrote the mark. Then there is nothing else in it: `check_references.ts`. */
export function namesSecret(parts: readonly Part[]): boolean {
  return parts.some((part) => (typeof part === "string" ? part.includes(SECRET_MARK) : isSecret(part)));
}

/** Secrets are filled in by the runtime, right before each attempt. */
export function isSecret({ root }: Reference): boolean {
  return root === "secrets";
}

function secretText(reference: Reference): string {
  if (!isSecret(reference)) throw new ReferenceFault(`${reference.text} is beside a secret`);
  return `${SECRET_MARK}${String(reference.steps[0])}`;
}

function within({ text }: Reference, value: Json): string {
  if (value === null) return "";
  if (typeof value !== "object") return String(value);
  throw new ReferenceFault(`${text}: is ${isList(value) ? "a list" : "an object"}, within a text`);
}

/** Of what was filled in as a whole object. */
export function asObject(value: Json, what: string): JsonObject {
  if (isObject(value)) return value;
  throw new ReferenceFault(`${what} must be an object`);
}
