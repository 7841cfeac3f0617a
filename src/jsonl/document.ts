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
