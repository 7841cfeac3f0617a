/**
 * OpenAI's batch layout: `{"custom_id","method":"POST","url":"/v1/chat/completions","body":{...}}`. Lines of other endpoints:
 * `endpoint_item.ts`. `method` and `url` may be absent, as in Mistral's and Fireworks' batch lines.
 *
 * The body is kept unchanged, for providers that speak OpenAI's protocol, and read into the neutral request for all
 * others. Members of `extra_body` count as members of the body. Anthropic's and Gemini's names of an output limit, stop
 * sequences and a system instruction are put under OpenAI's. What the neutral request cannot hold is named in `unheld`, where
 * it is in messages or tools, or else in `unknownFields`. A codec that does not send the body unchanged refuses what is
 * unheld, and the rest by `providers/unsupported.ts`.
 */
import { isList, isObject, type JsonObject } from "../work/json.ts";
import type { FunctionTool, JsonValue, ModelRequest } from "../work/request.ts";
import { readOpenaiConfig } from "./config.ts";
import { kindOfUrl, readEndpointRequest } from "./endpoint_item.ts";
import { givenTwice, LineFault, shown, shownKind, wrongContents } from "./fault.ts";
import { isText } from "./numbers.ts";
import { readMessages } from "./parts/openai_messages.ts";
import { type ReadChoice, readToolChoice, readTools } from "./parts/tools.ts";

/** Members of the body that are read here and are not settings. */
const NO_SETTINGS: ReadonlySet<string> = new Set([
  "model",
  "messages",
  "stream",
  "response_format",
  "tools",
  "tool_choice",
]);

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
  const settings = readOpenaiConfig(body, NO_SETTINGS);
  if (settings instanceof LineFault) return settings;
  const conversation = readMessages(body["messages"]);
  if (conversation instanceof LineFault) return conversation;
  const { system, turns, unheld, leftOut, hasExactNumbers } = conversation;
  const read = {
    system,
    turns,
    config: settings.config,
    openaiBody: body,
    unknownFields: settings.unknownFields,
  };
  const hasTools = isGiven(body["tools"]) || isGiven(body["tool_choice"]);
  const isPlain = !hasTools && unheld === undefined && leftOut.length === 0;
  if (isPlain && body["parallel_tool_calls"] === undefined && !hasExactNumbers) return read; // most items
  const tools = readToolMembers(body);
  const notHeld = unheld ?? tools.unheld;
  return {
    ...read,
    unknownFields: settings.unknownFields.filter((name) => name !== "parallel_tool_calls"),
    ...tools.members,
    ...(notHeld === undefined ? {} : { unheld: notHeld }),
    ...(leftOut.length === 0 ? {} : { leftOut }),
    ...(hasExactNumbers ? { hasExactNumbers } : {}),
  };
}

/** Functions and their choice, as far as they can be held: the body has them anyway. */
function readToolMembers(body: JsonObject): {
  readonly members: Pick<ModelRequest, "tools" | "toolChoice" | "parallelToolCalls">;
  readonly unheld: string | undefined;
} {
  const { tools: given, tool_choice: choice, parallel_tool_calls: isParallel } = body;
  const tools = isGiven(given) ? readTools(given as JsonValue) : [];
  const chosen = isGiven(choice) ? readToolChoice(choice as JsonValue) : undefined;
  const isOdd = isGiven(isParallel) && typeof isParallel !== "boolean";
  const odd = isOdd ? `parallel_tool_calls: expected true or false, got ${shown(isParallel)}` : undefined;
  const members = {
    ...(tools instanceof LineFault || tools.length === 0 ? {} : { tools }),
    ...(chosen instanceof LineFault ? {} : chosen),
    ...(typeof isParallel === "boolean" ? { parallelToolCalls: isParallel } : {}),
  };
  return { members, unheld: faultOf(tools) ?? faultOf(chosen) ?? odd };
}

function faultOf(read: readonly FunctionTool[] | ReadChoice | LineFault | undefined): string | undefined {
  return read instanceof LineFault ? read.message : undefined;
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
  const others = isList(messages) ? messages : [];
  return { ...rest, messages: [{ role: "system", content }, ...others] };
}

function isGiven(value: JsonValue | undefined): boolean {
  return value !== undefined && value !== null;
}

function unsupported(message: string): LineFault {
  return new LineFault("unsupported_request", message);
}
