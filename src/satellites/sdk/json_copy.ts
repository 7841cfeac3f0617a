/**
 * Values of other people's functions as JSON: copied once, so that nobody changes them afterwards, and refused when they are
 * none. Only own members; no getter of a prototype and no `toJSON` is called.
 *
 * Limit: 64 levels, which also ends what holds itself.
 */
import type { Json } from "../../work/json.ts";

const LEVELS_MAX = 64;

/** The copy, or why it is not JSON: words without the value. */
export type JsonCopy =
  | { readonly ok: true; readonly value: Json }
  | { readonly ok: false; readonly reason: string };

/** Members that are undefined are left out, as `JSON.stringify` does. */
export function copyJson(value: unknown): JsonCopy {
  try {
    return { ok: true, value: copy(value, 1) };
  } catch (error) {
    if (error instanceof NotJson) return { ok: false, reason: error.message };
    return { ok: false, reason: "it cannot be read" }; // a getter or a proxy that throws
  }
}

class NotJson extends Error {}

function copy(value: unknown, level: number): Json {
  if (value === null || typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value === "number") {
    if (Number.isFinite(value)) return value;
    throw new NotJson(`${value} is not a number of JSON`);
  }
  if (typeof value !== "object") throw new NotJson(`a ${typeof value} is not JSON`);
  if (level > LEVELS_MAX) throw new NotJson(`it has more than ${LEVELS_MAX} levels`);
  if (Array.isArray(value)) return Array.from(value, (one: unknown) => copy(one, level + 1));
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== null && prototype !== Object.prototype && Object.getPrototypeOf(prototype) !== null)
    throw new NotJson("an object of a class is not JSON");
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return Object.fromEntries(members.map(([name, member]) => [name, copy(member, level + 1)]));
}
