/**
 * The members of an object of the input under one spelling: camelCase and snake_case are read, null counts as absent.
 */
import type { JsonObject } from "../../work/json.ts";
import type { JsonValue } from "../../work/request.ts";
import { unknownField } from "../config.ts";
import { givenTwice, LineFault, wrongContents } from "../fault.ts";
import { isText } from "../numbers.ts";

/** Members by their camelCase names; those that are absent or null are not in it. */
export type Members = ReadonlyMap<string, JsonValue>;

/** The members of `object`, of which all must have one of the `known` names (in camelCase). `place` is that of the object. */
export function membersOf(object: JsonObject, known: readonly string[], place: string): Members | LineFault {
  const members = new Map<string, JsonValue>();
  for (const name of Object.keys(object)) {
    const own = known.includes(name) ? name : known.find((one) => snakeOf(one) === name);
    if (own === undefined) return unknownField(place, name, known);
    const value = object[name] as JsonValue; // an own member
    if (value === null) continue;
    if (members.has(own)) return givenTwice(`${place}.${own}`, `${place}.${snakeOf(own)}`);
    members.set(own, value);
  }
  return members;
}

/** A member that is a text; undefined if it is absent. */
export function textIn(members: Members, name: string, place: string): string | undefined | LineFault {
  const value = members.get(name);
  if (value === undefined || isText(value)) return value;
  return wrongContents(`${place}.${name}`, "a string", value);
}

/** Several texts; the first that is not one is a fault. */
export function textsIn<N extends string>(
  members: Members,
  names: readonly N[],
  place: string,
): { readonly [name in N]?: string } | LineFault {
  const texts: { [name in N]?: string } = {};
  for (const name of names) {
    const text = textIn(members, name, place);
    if (text instanceof LineFault) return text;
    if (text !== undefined) texts[name] = text;
  }
  return texts;
}

/** A camelCase name in snake_case. */
export function snakeOf(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
