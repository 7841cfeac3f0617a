/**
 * Checks the arguments of an engine's calls before anything begins: a source, a list of items, an id.
 */
import { PerigeeError } from "../errors.ts";
import { kindOf } from "./call_options.ts";
import type { Source } from "./files/input.ts";

/** As of keys. */
const NAME_BYTES_MAX = 512;

/** The source, of a list a copy: its caller may change it from then on. Throws as `checkSource` does. */
export function takenSource(source: Source, call: string): Source {
  checkSource(source, call);
  return Array.isArray(source) ? [...source] : source;
}

/** Throws `usage` unless `source` is a path, or can be iterated. `call` is the name of the call, for the message. */
function checkSource(source: unknown, call: string): void {
  if (typeof source === "string" && source !== "") return;
  if (typeof source === "object" && source !== null && !isBytes(source) && isIterable(source)) return;
  const got =
    source === "" ? "an empty text" : isBytes(source) ? "bytes: pass them in a list" : kindOf(source);
  throw new PerigeeError(
    "usage",
    `${call}: the source must be a path, a stream, or an iterable of items, got ${got}`,
  );
}

/** Throws `usage` unless `items` is a list. */
export function checkItems(items: unknown, call: string): void {
  if (!Array.isArray(items))
    throw new PerigeeError("usage", `${call}: items must be a list, got ${kindOf(items)}`);
}

/** Throws `usage` unless `id` is a text. Whether a task has this id is not checked here. */
export function checkId(id: unknown, call: string): void {
  if (typeof id !== "string")
    throw new PerigeeError("usage", `${call}: the id must be a text, got ${kindOf(id)}`);
}

/** Throws `usage` unless the caller's name for its work is absent, or a text of 1 to 512 bytes. */
export function checkName(name: string | undefined, call: string): void {
  if (name === undefined) return;
  const bytes = Buffer.byteLength(name);
  if (bytes < 1 || bytes > NAME_BYTES_MAX)
    throw new PerigeeError("usage", `${call}: id must have 1 to ${NAME_BYTES_MAX} bytes, got ${bytes}`);
}

/** Throws `usage` unless `value` is a text; `what` is the call and the argument. */
export function checkText(value: unknown, what: string): void {
  if (typeof value !== "string")
    throw new PerigeeError("usage", `${what} must be a text, got ${kindOf(value)}`);
}

function isBytes(source: unknown): boolean {
  return source instanceof Uint8Array || source instanceof ArrayBuffer;
}

function isIterable(source: object): boolean {
  return Symbol.iterator in source || Symbol.asyncIterator in source;
}
