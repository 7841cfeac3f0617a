/**
 * Members of messages in OpenAI's chat layout, and which of them ask for nothing: readers and translators ignore those alike.
 *
 * Sources: as for the members of the body (providers/chat_members.ts).
 */
import type { Json } from "./json.ts";

/** Of a message of any role. */
export const MESSAGE_MEMBERS: ReadonlySet<string> = new Set([
  "annotations",
  "audio",
  "content",
  "function_call",
  "name",
  "refusal",
  "role",
  "tool_call_id",
  "tool_calls",
]);
/** Of a message, at other servers. */
export const MESSAGE_MEMBERS_ELSEWHERE: ReadonlySet<string> = new Set([
  "cache_control",
  "images",
  "partial",
  "prefix",
  "reasoning",
  "reasoning_content",
  "reasoning_details",
  "thinking",
  "tool_name",
]);
/** Of a part of its content. */
export const PART_MEMBERS: ReadonlySet<string> = new Set([
  "file",
  "image_url",
  "input_audio",
  "refusal",
  "text",
  "type",
]);
/** Of a part, at other servers. */
export const PART_MEMBERS_ELSEWHERE: ReadonlySet<string> = new Set([
  "audio_url",
  "cache_control",
  "thinking",
  "video_url",
]);

const KNOWN = [MESSAGE_MEMBERS, MESSAGE_MEMBERS_ELSEWHERE, PART_MEMBERS, PART_MEMBERS_ELSEWHERE];
/** Lists that OpenAI's SDK writes into messages even where they are empty. */
const LISTS: ReadonlySet<string> = new Set(["annotations", "tool_calls"]);

/** Whether a member asks for nothing: it is absent, a known one that is null, or an empty list that the SDK always writes. */
export function asksNothing(name: string, value: Json | undefined): boolean {
  if (value === undefined) return true;
  if (value === null) return KNOWN.some((names) => names.has(name));
  return Array.isArray(value) && value.length === 0 && LISTS.has(name);
}
