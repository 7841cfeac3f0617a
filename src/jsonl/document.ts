/**
 * Reads a whole JSON text that a user wrote: a configuration, a price sheet, the body of a request.
 *
 * Two kinds of valid JSON are refused: a member that occurs twice, because readers do not agree on which of the two counts, and
 * nesting that recursive readers of the value could not follow. A byte order mark at the start is ignored.
 */
import { countMembers, type RepeatedMember, repeatedMember, scanStructure } from "./structure.ts";

/** The value, or why the text is refused. */
export type JsonDocument =
  | { readonly kind: "value"; readonly value: unknown }
  | { readonly kind: "not_json"; readonly cause: unknown }
  | { readonly kind: "too_deep" }
  | { readonly kind: "repeated"; readonly member: RepeatedMember };

/** Reads a text. `depthMax`: objects and lists around a value, at most. Never throws. */
export function readDocument(text: string, depthMax: number): JsonDocument {
  const bare = text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
  const { isTooDeep, memberCount } = scanStructure(bare, depthMax);
  let value: unknown;
  try {
    value = JSON.parse(bare); // iterative: depth does not harm it
  } catch (cause) {
    return { kind: "not_json", cause };
  }
  if (isTooDeep) return { kind: "too_deep" };
  if (typeof value !== "object" || value === null || countMembers(value) >= memberCount)
    return { kind: "value", value };
  const member = repeatedMember(bare);
  return member === undefined ? { kind: "value", value } : { kind: "repeated", member };
}

/**
 * Where a text stops being JSON: `line 3, column 28`, each from 1; `it is empty` or `it ends too early`. Some of V8's messages have
 * no position, and quote the text instead, which may hold a key: then the shortest prefix that is refused in the same way is
 * searched. For small texts that a user wrote: it is parsed some 20 times.
 */
export function placeOfFault(text: string): string {
  if (text.trim() === "") return "it is empty";
  const message = refusalOf(text);
  const [, position] = /at position (\d+)/.exec(message) ?? [];
  const at = position === undefined ? tokenAt(text, message) : Number(position);
  if (at === undefined || at >= text.trimEnd().length) return "it ends too early";
  const before = text.slice(0, at).split("\n");
  return `line ${before.length}, column ${(before.at(-1) ?? "").length + 1}`;
}

const TOKEN = "Unexpected token";

/** The position of the character that V8 did not expect; undefined if the text has only ended. */
function tokenAt(text: string, message: string): number | undefined {
  if (!message.startsWith(TOKEN)) return undefined;
  let [accepted, refused] = [0, text.length];
  while (refused - accepted > 1) {
    const middle = (accepted + refused) >> 1;
    if (refusalOf(text.slice(0, middle)).startsWith(TOKEN)) refused = middle;
    else accepted = middle;
  }
  return accepted;
}

function refusalOf(text: string): string {
  try {
    JSON.parse(text);
    return "";
  } catch (error) {
    return error instanceof Error ? error.message : "";
  }
}
