/**
 * JSON as TypeScript sees it.
 */

/** Any value of JSON. */
export type Json = null | boolean | number | string | readonly Json[] | JsonObject;

/** An object of JSON. Members may be called `__proto__`: read own ones only. */
export interface JsonObject {
  readonly [name: string]: Json;
}

/** Whether it is an object of JSON: no list, not null. Of values that were read as JSON; nothing in them is checked. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether it is a list of JSON. Of values that were read as JSON; nothing in it is checked. */
export function isList(value: unknown): value is readonly Json[] {
  return Array.isArray(value);
}

/** The value as JSON; undefined when it is nested deeper (some 5,000) than `JSON.stringify` writes, although `JSON.parse` reads it. */
export function jsonOf(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}

export function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}

/** A member of its own; undefined without one of that name. */
export function own(object: JsonObject, name: string): Json | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}
