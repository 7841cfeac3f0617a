/**
 * One cheap pass over the text of a line before `JSON.parse`: nesting, members and long numbers outside strings.
 *
 * It trusts nothing: on text that is not JSON the counts mean little, and `JSON.parse` refuses it afterwards.
 * Repeated member names need no table of names: a line with n members outside strings that parses to a tree with
 * fewer than n has one twice, with any escapes, and both counts are linear.
 *
 * Hot path: runs on every line; strings are jumped over by `indexOf` (600 bytes in about 0.25 us against 0.75 us for
 * a loop over the bytes; `bench/parts/read.ts`).
 */
import { afterNumber, afterString, isDigit } from "./numbers.ts";

/** What the pass found. */
export interface Structure {
  /** Nested deeper than allowed; the pass stopped there. */
  readonly isTooDeep: boolean;
  /** Members of all objects, repeated ones included. */
  readonly memberCount: number;
  /** Some number has more than 15 characters or an exponent, so a double may not hold it. */
  readonly hasLongNumber: boolean;
}

/** More characters than this in a number, and a double may not hold it: 15 decimal digits always fit. */
const NUMBER_CHARS_SAFE = 15;

/** Checks the text of one line. `depthMax` counts objects and arrays around a value, at least 1. */
export function scanStructure(text: string, depthMax: number): Structure {
  let depth = 0;
  let memberCount = 0;
  let hasLongNumber = false;
  let at = 0;
  const length = text.length;
  while (at < length) {
    const code = text.charCodeAt(at++);
    if (code === 0x22) {
      at = afterString(text, at);
    } else if (code === 0x3a) {
      memberCount++;
    } else if (code === 0x7b || code === 0x5b) {
      if (++depth > depthMax) return { isTooDeep: true, memberCount, hasLongNumber };
    } else if (code === 0x7d || code === 0x5d) {
      depth--;
    } else if (isDigit(code)) {
      const end = afterNumber(text, at);
      hasLongNumber ||= end - at >= NUMBER_CHARS_SAFE || hasExponent(text, at, end);
      at = end;
    }
  }
  return { isTooDeep: false, memberCount, hasLongNumber };
}

/** Members of all objects in a parsed value. Recursion is as deep as the value. */
export function countMembers(value: object): number {
  let count = 0;
  if (Array.isArray(value)) {
    for (const element of value)
      if (typeof element === "object" && element !== null) count += countMembers(element);
    return count;
  }
  // for-in reads the engine's cached names: half the time of Object.keys. Names inherited from a polluted
  // prototype could only raise the count, and a raised count refuses nothing.
  for (const name in value) {
    count++;
    const member: unknown = (value as Readonly<Record<string, unknown>>)[name];
    if (typeof member === "object" && member !== null) count += countMembers(member);
  }
  return count;
}

/** A member name that occurs twice in one object. */
export interface RepeatedMember {
  readonly name: string;
  /** Path from the outermost value, such as `providers.openai.key` or `[2].model`. */
  readonly path: string;
  /** Where the text is a list: the element that it is in, from 0. */
  readonly element: number;
}

/** An object or list that is open while its text is read. */
interface Open {
  /** Of an object. */
  readonly names: Set<string> | undefined;
  /** The member or element that is read. */
  at: string | number;
}

/** The first one in valid JSON text; undefined without one. */
export function repeatedMember(json: string): RepeatedMember | undefined {
  const open: Open[] = [];
  let at = 0;
  while (at < json.length) {
    const code = json.charCodeAt(at++);
    const inner = open.at(-1);
    if (code === 0x7b) open.push({ names: new Set(), at: "" });
    else if (code === 0x5b) open.push({ names: undefined, at: 0 });
    else if (code === 0x7d || code === 0x5d) open.pop();
    else if (code === 0x2c && typeof inner?.at === "number") inner.at++;
    else if (code === 0x22) {
      const start = at - 1;
      at = afterString(json, at);
      if (inner?.names === undefined || !isFollowedByColon(json, at)) continue;
      inner.at = String(JSON.parse(json.slice(start, at)));
      if (inner.names.has(inner.at)) return repeatAt(open, inner.at);
      inner.names.add(inner.at);
    }
  }
  return undefined;
}

function repeatAt(open: readonly Open[], name: string): RepeatedMember {
  const path = open.reduce((before, { at }) => {
    if (typeof at === "number") return `${before}[${at}]`;
    if (!/^[\w-]{1,64}$/.test(at)) return `${before}[${JSON.stringify(at.slice(0, 64))}]`;
    return before === "" ? at : `${before}.${at}`;
  }, "");
  const first = open[0]?.at;
  return { name, path, element: typeof first === "number" ? first : 0 };
}

function hasExponent(text: string, from: number, end: number): boolean {
  for (let at = from; at < end; at++) if ((text.charCodeAt(at) | 0x20) === 0x65) return true;
  return false;
}

function isFollowedByColon(json: string, from: number): boolean {
  let at = from;
  while (json.charCodeAt(at) <= 0x20) at++;
  return json.charCodeAt(at) === 0x3a;
}
