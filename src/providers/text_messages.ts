/**
 * Checks what messages in OpenAI's layout hold besides texts, for protocols that accept only texts. The list of what may
 * stay is closed:
 *
 *   role, content, part.type "text", part.text           sent
 *   members that ask for nothing (work/chat_message.ts)  ignored
 *   cache_control                                        left out and named in a warning: it changes only the price
 *   anything else, or a system message after a turn      the line is refused, with the path
 */
import { asksNothing } from "../work/chat_message.ts";
import { isObject, type JsonObject } from "../work/json.ts";

/** What messages hold besides texts. */
export interface BesideTexts {
  /** Names of members that are left out. */
  readonly dropped: readonly string[];
  /** The first place that cannot be left out, and why; undefined without one. */
  readonly refused: string | undefined;
}

const CACHE = "cache_control";

/** Checks `messages` for the provider `name`. */
export function besideTexts(messages: unknown, name: string): BesideTexts {
  const dropped = new Set<string>();
  let hasTurns = false;
  if (!Array.isArray(messages)) return { dropped: [], refused: undefined };
  for (const [index, message] of messages.entries()) {
    if (!isObject(message)) continue;
    const where = `messages[${index}]`;
    const isSystem = message["role"] === "system" || message["role"] === "developer";
    if (isSystem && hasTurns)
      return refusal(`${where}: ${name} accepts a system message only before the conversation`);
    hasTurns ||= !isSystem;
    const place = placeInMessage(message, where, dropped);
    if (place !== undefined) return refusal(`${place}: ${name} accepts only text`);
  }
  return { dropped: [...dropped], refused: undefined };
}

/** The first place that holds more than text. Adds the names of members that may be left out to `dropped`. */
function placeInMessage(message: JsonObject, where: string, dropped: Set<string>): string | undefined {
  if (message["role"] === "tool" || message["role"] === "function") return `${where}.role`;
  const other = otherMember(message, ["role", "content"], dropped);
  if (other !== undefined) return `${where}.${other}`;
  const content = message["content"];
  if (typeof content === "string") return undefined;
  if (!Array.isArray(content)) return `${where}.content`;
  for (const [index, part] of content.entries()) {
    const place = `${where}.content[${index}]`;
    if (!isObject(part) || part["type"] !== "text") return place;
    const inPart = otherMember(part, ["type", "text"], dropped);
    if (inPart !== undefined) return `${place}.${inPart}`;
  }
  return undefined;
}

function otherMember(
  object: JsonObject,
  carried: readonly string[],
  dropped: Set<string>,
): string | undefined {
  for (const [name, value] of Object.entries(object)) {
    if (carried.includes(name) || asksNothing(name, value)) continue;
    if (name !== CACHE) return name.length <= 64 ? name : `${name.slice(0, 64)}...`;
    dropped.add(CACHE);
  }
  return undefined;
}

function refusal(refused: string): BesideTexts {
  return { dropped: [], refused };
}
