/**
 * Members of a message in OpenAI's chat layout that ask for nothing: readers and translators ignore them alike.
 */
import type { Json } from "./json.ts";

/** Lists that OpenAI's SDK writes into messages even where they are empty. */
const LISTS: ReadonlySet<string> = new Set(["annotations", "tool_calls"]);

/** Whether a member asks for nothing: it is null or absent, or an empty list that the SDK always writes. */
export function asksNothing(name: string, value: Json | undefined): boolean {
  if (value === undefined || value === null) return true;
  return Array.isArray(value) && value.length === 0 && LISTS.has(name);
}
