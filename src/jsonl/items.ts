/**
 * Items from the library's callers as lines, so that a list or an async iterable takes the same way as a file.
 *
 * What JSON would change in silence is refused: NaN and infinities (null in JSON), functions, cycles. A bigint is
 * written with all its digits. Whether the line is a valid request is decided when it is read.
 */
import { PerigeeError } from "../errors.ts";
import { suggestion } from "../nearest.ts";
import type { InlineItem, LineItem } from "../work/item.ts";
import { isText, markedNumber, restoreNumbers } from "./numbers.ts";

/** An inline item (interface 2.1) under a key. */
export type KeyedInlineItem = InlineItem & { readonly key: string };

/** Members that an inline item may have, those of its request included. */
const INLINE_FIELDS = [
  "key",
  "model",
  "input",
  "sla",
  "generation_config",
  "system",
  "max_tokens",
  "max_completion_tokens",
  "stop",
] as const;
const KNOWN: ReadonlySet<string> = new Set(INLINE_FIELDS);

/**
 * One line of JSON without a newline. `where` names the item in messages, e.g. `item 3`.
 * Throws `usage` when the item is no object, has a member that is not known, or holds something that JSON cannot. The sla
 * of an item is not written: it is of the run that the line is for.
 */
export function itemLine(item: LineItem | KeyedInlineItem, where = "item"): string {
  if (typeof item !== "object" || item === null || Array.isArray(item))
    throw new PerigeeError(
      "usage",
      `${where} must be an object, got ${item === null ? "null" : kindOf(item)}`,
    );
  if ("input" in item && isPlain(item, where)) return plainLine(item);
  const line = "input" in item ? lineOfInline(item) : item;
  try {
    const json = JSON.stringify(line, (name, value: unknown) => {
      if (typeof value === "bigint") return markedNumber(value.toString());
      if (typeof value === "number" && !Number.isFinite(value)) throw new TypeError(`${name} is ${value}`);
      if (typeof value === "function" || typeof value === "symbol")
        throw new TypeError(`${name} is a ${typeof value}`);
      return value;
    });
    return restoreNumbers(json);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new PerigeeError("usage", `${where} cannot be written as JSON: ${reason}`, { cause });
  }
}

/** Whether it holds only texts. */
function isPlain(item: KeyedInlineItem, where: string): boolean {
  let count = 0;
  for (const name in item) {
    if (!KNOWN.has(name)) throw unknownMember(where, name);
    if (name !== "sla" && item[name as keyof InlineItem] !== undefined) count += 1; // any name will do here
  }
  return count === 3 && isText(item.input) && isText(item.key) && isText(item.model);
}

/** Names of callers' own are shown; others may be a text of any length. */
function unknownMember(where: string, name: string): PerigeeError {
  if (!/^[\w.-]{1,64}$/.test(name))
    return new PerigeeError("usage", `${where} has a member whose name is not known`);
  const hint = suggestion(name, INLINE_FIELDS);
  return new PerigeeError("usage", `${where}: "${name}" is not a known name; ${hint}`);
}

/** Hot: texts alone hold nothing that JSON changes, and a replacer would be called nine times. */
function plainLine({ key, model, input }: KeyedInlineItem): string {
  const parts = `[{"text":${JSON.stringify(input)}}]`;
  return `{"key":${JSON.stringify(key)},"request":{"model":${JSON.stringify(model)},"contents":[{"parts":${parts}}]}}`;
}

function lineOfInline(item: KeyedInlineItem): object {
  const { key, model, input, sla: _, ...settings } = item;
  return { key, request: { model, contents: [{ parts: [{ text: input }] }], ...settings } };
}

function kindOf(value: unknown): string {
  return Array.isArray(value) ? "an array" : `a ${typeof value}`;
}
