/**
 * OpenAI's batch layout: `{"custom_id","method":"POST","url":"/v1/chat/completions","body":{...}}`. Lines of other endpoints:
 * `endpoint_item.ts`.
 * `method` and `url` may be absent, as in Mistral's and Fireworks' batch lines.
 *
 * The body is kept unchanged, for providers that speak OpenAI's protocol, and read into the neutral request for all
 * others. Members of `extra_body` count as members of the body. Anthropic's and Gemini's names of an output limit, stop sequences and a system instruction are put under OpenAI's. What the neutral request cannot hold (images, tool calls) leaves its name in `unknownFields`: `messages`
 * when a message has more than text, else the name of the body's member. A codec that does not send the body unchanged
 * refuses `messages` and `tools`, and reports the rest as dropped.
 */
import { asksNothing } from "../work/chat_message.ts";
import { isObject, type JsonObject } from "../work/json.ts";
import type { JsonValue, ModelRequest, Turn } from "../work/request.ts";
import { readOpenaiConfig } from "./config.ts";
import { kindOfUrl, readEndpointRequest } from "./endpoint_item.ts";
import { givenTwice, LineFault, shown, shownKind, wrongContents } from "./fault.ts";
import { isText } from "./numbers.ts";

/** Members of the body that are read here and are not settings. */
const NO_SETTINGS: ReadonlySet<string> = new Set(["model", "messages", "stream", "response_format"]);

/** Reads a line of the batch layout, all but its model. */
export function readOpenaiRequest(line: JsonObject): ModelRequest | LineFault {
  const method = line["method"] ?? "POST";
  if (method !== "POST") return unsupported(`method must be "POST", got ${shown(method)}`);
  const kind = kindOfUrl(line["url"]);
  if (kind instanceof LineFault) return kind;
  const given = line["body"];
  if (!isObject(given))
    return new LineFault("invalid_line", `body must be an object, got ${shownKind(given)}`);
  return kind === "chat" ? readOpenaiBody(given) : readEndpointRequest(kind, given);
}

/** Reads a chat completion's body, all but its model. */
export function readOpenaiBody(given: JsonObject): ModelRequest | LineFault {
  const whole = withExtraMembers(given);
  const body = whole instanceof LineFault ? whole : underOwnNames(whole);
  if (body instanceof LineFault) return body;
  if (isGiven(body["stream"]) && body["stream"] !== false)
    return unsupported("stream must be false or absent: answers are written whole");
  const read = readOpenaiConfig(body, NO_SETTINGS);
  if (read instanceof LineFault) return read;
  const conversation = readMessages(body["messages"]);
  if (conversation instanceof LineFault) return conversation;
  const { system, turns, isTextAlone } = conversation;
  const unknownFields = isTextAlone ? read.unknownFields : ["messages", ...read.unknownFields];
  return { system, turns, config: read.config, openaiBody: body, unknownFields };
}

/** OpenAI's SDK calls vendors' members `extra_body`, and servers read them beside the others: so does every check here. */
function withExtraMembers(body: JsonObject): JsonObject | LineFault {
  const { extra_body: extra } = body;
  if (extra === undefined) return body;
  if (extra !== null && !isObject(extra))
    return new LineFault("invalid_config", `extra_body must be an object, got ${shown(extra)}`);
  const twice = Object.keys(extra ?? {}).find((name) => isOwn(body, name) && isOwn(extra, name));
  if (twice !== undefined) return givenTwice(twice, `extra_body.${twice}`);
  const { extra_body: _, ...rest } = body;
  const more = Object.entries(extra ?? {}).filter(([name]) => !isOwn(body, name));
  return { ...rest, ...Object.fromEntries(more) };
}

function isOwn(object: JsonObject | null, name: string): boolean {
  return object !== null && Object.hasOwn(object, name) && isGiven(object[name]);
}

/** What other providers call members that OpenAI has too. */
const OTHER_NAMES = [
  ["max_output_tokens", "max_tokens"],
  ["stop_sequences", "stop"],
] as const;

/** The body with only OpenAI's names; the same object if it has no others. */
function underOwnNames(body: JsonObject): JsonObject | LineFault {
  let own: Record<string, JsonValue> | undefined;
  for (const [other, name] of OTHER_NAMES) {
    const value = body[other];
    if (value === undefined) continue;
    const { [other]: _, ...rest } = own ?? body;
    own = rest;
    if (value === null) continue;
    if (isGiven(body[name])) return givenTwice(name, other);
    own = { ...rest, [name]: value };
  }
  const { system } = body;
  if (system === undefined) return own ?? body;
  if (system === null) {
    const { system: _, ...rest } = own ?? body;
    return rest;
  }
  const content = isText(system) || Array.isArray(system) ? system : undefined;
  if (content === undefined) return wrongContents("system", "a string or an array", system);
  const { system: _, messages, ...rest } = own ?? body;
  const others = Array.isArray(messages) ? (messages as readonly JsonValue[]) : [];
  return { ...rest, messages: [{ role: "system", content }, ...others] };
}

interface Conversation {
  readonly system: readonly string[];
  readonly turns: readonly Turn[];
  /** False when some message holds what texts cannot, or a system message follows a turn. */
  readonly isTextAlone: boolean;
}

/** Reads the messages of a chat. */
export function readMessages(messages: JsonValue | undefined): Conversation | LineFault {
  if (!Array.isArray(messages)) return wrongContents("messages", "an array", messages);
  if (messages.length === 0) return new LineFault("invalid_contents", "messages is empty");
  const system: string[] = [];
  const turns: Turn[] = [];
  let isTextAlone = true;
  for (const [index, message] of (messages as readonly JsonValue[]).entries()) {
    const where = `messages[${index}]`;
    if (!isObject(message)) return wrongContents(where, "an object", message);
    const role = message["role"];
    if (!isText(role)) return wrongContents(`${where}.role`, "a string", role);
    const content = readContent(message["content"], where);
    if (content instanceof LineFault) return content;
    if (!content.isTextAlone || hasOthers(message, "role", "content")) isTextAlone = false;
    if (role === "system" || role === "developer") {
      if (turns.length > 0) isTextAlone = false;
      system.push(...content.texts);
    } else if (role === "user" || role === "assistant") {
      if (content.texts.length > 0)
        turns.push({ role: role === "user" ? "user" : "model", texts: content.texts });
    } else if (role === "tool" || role === "function") {
      isTextAlone = false;
      if (content.texts.length > 0) turns.push({ role: "user", texts: content.texts });
    } else {
      const expected = "system, developer, user, assistant or tool";
      return new LineFault("invalid_contents", `${where}.role must be ${expected}, got ${shown(role)}`);
    }
  }
  return { system, turns, isTextAlone };
}

/** The texts of a message; `null` and absent content has no texts (an assistant that called a tool). */
function readContent(
  content: JsonValue | undefined,
  where: string,
): { readonly texts: readonly string[]; readonly isTextAlone: boolean } | LineFault {
  if (isText(content)) return { texts: [content], isTextAlone: true };
  if (content === undefined || content === null) return { texts: [], isTextAlone: false };
  if (!Array.isArray(content)) return wrongContents(`${where}.content`, "a string or an array", content);
  if (content.length === 0) return new LineFault("invalid_contents", `${where}.content is empty`);
  const texts: string[] = [];
  let isTextAlone = true;
  for (const [index, part] of (content as readonly JsonValue[]).entries()) {
    if (!isObject(part)) return wrongContents(`${where}.content[${index}]`, "an object", part);
    if (part["type"] !== "text") continue;
    const text = part["text"];
    if (!isText(text)) return wrongContents(`${where}.content[${index}].text`, "a string", text);
    if (hasOthers(part, "type", "text")) isTextAlone = false;
    texts.push(text);
  }
  return { texts, isTextAlone: isTextAlone && texts.length === content.length };
}

/** Whether an object has members besides these two, such as the tool calls, the name or the reasoning of a message. */
function hasOthers(object: JsonObject, one: string, other: string): boolean {
  for (const name in object) {
    if (name !== one && name !== other && !asksNothing(name, object[name])) return true;
  }
  return false;
}

function isGiven(value: JsonValue | undefined): boolean {
  return value !== undefined && value !== null;
}

function unsupported(message: string): LineFault {
  return new LineFault("unsupported_request", message);
}
