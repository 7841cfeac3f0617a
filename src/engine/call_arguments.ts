/**
 * What the calls of an engine are about, checked before anything begins: a source, a list of items, an id.
 */
import { PerigeeError } from "../errors.ts";
import { kindOf } from "./call_options.ts";

/** Throws `usage` for what is neither a path nor something that can be iterated; `call` names the call. */
export function checkSource(source: unknown, call: string): void {
  if (typeof source === "string" && source !== "") return;
  if (typeof source === "object" && source !== null && !isBytes(source) && isIterable(source)) return;
  const got =
    source === "" ? "an empty text" : isBytes(source) ? "bytes: pass them in a list" : kindOf(source);
  throw new PerigeeError(
    "usage",
    `${call}: the source must be a path, a stream, or an iterable of items, got ${got}`,
  );
}

/** Throws `usage` for what is not a list. */
export function checkItems(items: unknown, call: string): void {
  if (!Array.isArray(items))
    throw new PerigeeError("usage", `${call}: items must be a list, got ${kindOf(items)}`);
}

/** Throws `usage` for what is not a text. Any text may name a task, and most name none. */
export function checkId(id: unknown, call: string): void {
  if (typeof id !== "string")
    throw new PerigeeError("usage", `${call}: the id must be a text, got ${kindOf(id)}`);
}

function isBytes(source: unknown): boolean {
  return source instanceof Uint8Array || source instanceof ArrayBuffer;
}

function isIterable(source: object): boolean {
  return Symbol.iterator in source || Symbol.asyncIterator in source;
}
