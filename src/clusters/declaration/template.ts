/**
 * References in declarations: `${{ identifier.output.path }}`, `${{ input.path }}`, `${{ secrets.name }}`,
 * `${{ each.item }}`, and how they are filled in. No logic: own members of values, and nothing is evaluated.
 *
 *   reference  = "${{" root step* "}}"
 *   root       = [A-Za-z0-9_-]+
 *   step       = "." name | "[" whole number "]" | "[*]" | "['" any text but ' "']" | the same in "
 *
 * `[*]` is a list of what the rest of the path finds in every element. A text that is one reference becomes the
 * referred value itself, of any type; within a text there are texts, numbers, truth values, and nothing for null. What is below null
 * is null; a member that an object does not have is a fault.
 */
import { isList, isObject, type Json } from "../../work/json.ts";
import type { Path } from "./issues.ts";

/** Every element of a list. */
export const EVERY: unique symbol = Symbol("[*]");

/** A member by name, an element by index, or every element. */
export type PathStep = string | number | typeof EVERY;

/** `${{ root.step.step }}` */
export interface Reference {
  readonly root: string;
  readonly steps: readonly PathStep[];
  /** As it is written, without braces: the same for the same reference. */
  readonly text: string;
}

/** Literal texts and references in turn. */
export type Part = string | Reference;

/** A text of a declaration in which something is wrong. */
export interface TemplateFault {
  readonly fault: string;
}

/** The place of a reference. */
export interface FoundReference {
  readonly path: Path;
  readonly reference: Reference;
  /** The text is only this reference. */
  readonly isWhole: boolean;
}

const OPEN = "${{";
const EXPRESSION = /^\s*([A-Za-z0-9_-]+)((?:\.[\w$-]+|\[\d{1,9}\]|\[\*\]|\['[^']*'\]|\["[^"]*"\])*)\s*$/;
const STEP = /\.([\w$-]+)|\[(\d+)\]|\[(\*)\]|\['([^']*)'\]|\["([^"]*)"\]/g;
const STEPS_MAX = 32;

/** The parts of a text; one part and no more when there is no reference in it. */
export function partsOf(text: string): readonly Part[] | TemplateFault {
  const parts: Part[] = [];
  let from = 0;
  for (;;) {
    const open = text.indexOf(OPEN, from);
    if (open < 0) break;
    const close = text.indexOf("}}", open);
    if (close < 0) return { fault: "a reference is not closed by }}" };
    const written = text.slice(open + OPEN.length, close);
    const reference = parseReference(written);
    if (reference === undefined)
      return { fault: `${shown(written)} is not a reference: write $\{{ name.path }}` };
    if (open > from) parts.push(text.slice(from, open));
    parts.push(reference);
    from = close + 2;
  }
  if (from < text.length || parts.length === 0) parts.push(text.slice(from));
  return parts;
}

function parseReference(written: string): Reference | undefined {
  const match = EXPRESSION.exec(written);
  if (match === null) return undefined;
  const root = match[1] as string; // groups of the pattern
  const steps = [...(match[2] as string).matchAll(STEP)].map(
    ([, name, index, every, single, double]): PathStep => {
      if (every !== undefined) return EVERY;
      return index === undefined ? ((name ?? single ?? double) as string) : Number(index);
    },
  );
  return steps.length > STEPS_MAX ? undefined : { root, steps, text: written.trim() };
}

function shown(written: string): string {
  return JSON.stringify(written.trim().slice(0, 64));
}

/** A text of a value with its parts. */
export interface FoundText {
  readonly path: Path;
  readonly text: string;
  readonly parts: readonly Part[] | TemplateFault;
}

/** All texts with references in a value, in order; also those that are at fault, and names of members that hold one. */
export function* textsOf(value: Json, path: Path = []): Generator<FoundText, void, undefined> {
  if (typeof value === "string") {
    if (value.includes(OPEN)) yield { path, text: value, parts: partsOf(value) };
  } else if (isList(value)) {
    for (const [index, item] of value.entries()) yield* textsOf(item, [...path, index]);
  } else if (isObject(value)) {
    for (const [name, member] of Object.entries(value)) {
      if (name.includes(OPEN))
        yield { path: [...path, name], text: name, parts: { fault: "a key holds no references" } };
      yield* textsOf(member, [...path, name]);
    }
  }
}

/** The references of a value without faults. */
export function* referencesOf(value: Json, path: Path = []): Generator<FoundReference, void, undefined> {
  for (const { path: at, parts } of textsOf(value, path)) {
    if ("fault" in parts) continue;
    for (const part of parts)
      if (typeof part !== "string") yield { path: at, reference: part, isWhole: parts.length === 1 };
  }
}

/** The value; null where the path ends at a null. Or why it does not exist. */
export type Found =
  | { readonly ok: true; readonly value: Json }
  | { readonly ok: false; readonly message: string };

/** Follows the steps of a path. */
export function follow(value: Json, steps: readonly PathStep[], name: string): Found {
  let at = value;
  for (const [index, step] of steps.entries()) {
    if (at === null) return { ok: true, value: null };
    if (step === EVERY) return followEvery(at, steps.slice(index + 1), name);
    const next = memberOf(at, step);
    if (next === undefined) return { ok: false, message: `${name}: there is no ${JSON.stringify(step)}` };
    at = next;
  }
  return { ok: true, value: at };
}

function followEvery(value: Json, rest: readonly PathStep[], name: string): Found {
  if (!isList(value)) return { ok: false, message: `${name}: [*] needs a list` };
  const all: Json[] = [];
  for (const item of value) {
    const found = follow(item, rest, name);
    if (!found.ok) return found;
    all.push(found.value);
  }
  return { ok: true, value: all };
}

/** Own members of objects and elements of lists; nothing else of either. */
function memberOf(value: Json, step: string | number): Json | undefined {
  if (isList(value)) return typeof step === "number" ? value[step] : undefined;
  if (!isObject(value) || !Object.hasOwn(value, String(step))) return undefined;
  return value[String(step)];
}
