/**
 * Items from the library's callers as lines, so that a list or an async iterable takes the same way as a file.
 *
 * What JSON would change in silence is refused: NaN and infinities (null in JSON), functions, cycles. A bigint is
 * written with all its digits. Whether the line is a valid request is decided when it is read.
 */
import { messageOf, PerigeeError } from "../errors.ts";
import { nearest, suggestion } from "../nearest.ts";
import type { Item, LineItem } from "../work/item.ts";
import { SETTING_NAMES } from "./config.ts";
import { isText, markedNumber, restoreNumbers } from "./numbers.ts";

/** An item under a key. */
export type KeyedItem = Item & { readonly key: string };

/** Members that every item may have, besides settings. */
const ITEM_FIELDS = [
  "key",
  "model",
  "input",
  "contents",
  "messages",
  "sla",
  "metadata",
  "system",
  "system_instruction",
  "systemInstruction",
  "generation_config",
  "generationConfig",
] as const;
const KNOWN: ReadonlySet<string> = new Set([...ITEM_FIELDS, ...SETTING_NAMES, "schema"]);

/**
 * One line of JSON without a newline. `where` names the item in messages, e.g. `item 3`.
 * Throws `usage` when the item is not an object, has a member that is not known, or holds something that JSON cannot. The sla
 * of an item is not written: it is of the run that the line is for.
 */
export function itemLine(item: LineItem | KeyedItem, where = "item"): string {
  if (typeof item !== "object" || item === null || Array.isArray(item))
    throw new PerigeeError("usage", `${where} must be an object, got ${kindOf(item)}`);
  const isLine = "request" in item || "body" in item;
  const isKind = !isLine && "kind" in item && item.kind !== undefined;
  if (!isLine && !isKind && isPlain(item, where)) return plainLine(item);
  const line = isLine ? item : isKind ? withKind(item) : withRequest(item);
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
    const reason = messageOf(cause);
    throw new PerigeeError("usage", `${where} cannot be written as JSON: ${reason}`, { cause });
  }
}

/** A prompt that consists only of texts. */
type Plain = KeyedItem & { readonly input: string };

/** Whether it is a prompt that holds only texts. Members beside `messages` may be OpenAI's, which are checked where they are read. */
function isPlain(item: KeyedItem, where: string): item is Plain {
  let count = 0;
  for (const name in item) {
    if (!KNOWN.has(name) && item.messages === undefined) throw unknownMember(where, name);
    if (name !== "sla" && item[name as keyof Item] !== undefined) count += 1; // any name will do here
  }
  return count === 3 && isText(item.input) && isText(item.key) && isText(item.model);
}

/** Names of callers' own are shown; others may be a text of any length. */
function unknownMember(where: string, name: string): PerigeeError {
  if (!/^[\w.-]{1,64}$/.test(name))
    return new PerigeeError("usage", `${where} has a member whose name is not known`);
  const near = nearest(name, [...KNOWN]);
  const hint = suggestion(name, near === undefined ? ITEM_FIELDS : [near]);
  return new PerigeeError("usage", `${where}: "${name}" is not a known name; ${hint}`);
}

/** Hot: plain texts hold nothing that JSON changes, and a replacer would be called nine times. */
function plainLine({ key, model, input }: Plain): string {
  const parts = `[{"text":${JSON.stringify(input)}}]`;
  return `{"key":${JSON.stringify(key)},"request":{"model":${JSON.stringify(model)},"contents":[{"parts":${parts}}]}}`;
}

/** Its members are of OpenAI's body for its endpoint, and are checked where the line is read. */
function withKind({ key, sla: _, metadata, ...request }: KeyedItem): object {
  return { key, request, metadata };
}

function withRequest({ key, sla: _, metadata, ...item }: KeyedItem): object {
  if (item.input === undefined) return { key, request: item, metadata }; // left out of the JSON when it is undefined
  const { model, input, ...settings } = item;
  return { key, request: { model, contents: [{ parts: [{ text: input }] }], ...settings }, metadata };
}

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  return Array.isArray(value) ? "an array" : `a ${typeof value}`;
}
