/**
 * A request of OpenAI's responses as one of its chat completions, for providers that have no responses.
 *
 *   input                  a text, or messages, function calls and their results; thoughts are left out
 *   instructions           a system message before them
 *   tools, tool_choice     functions only
 *   text.format            response_format; reasoning.effort  reasoning_effort; max_output_tokens  max_tokens
 *   include, truncation, store, prompt_cache_key, user, safety_identifier   left out: they change no answer here
 *   anything else          refused
 *
 * Source: `ResponseCreateParams` and `ChatCompletionCreateParams` of openai 6
 */
import { PerigeeError, refusedParam } from "../../errors.ts";
import { isList, isObject, type JsonObject } from "../../work/json.ts";
import type { JsonValue } from "../../work/request.ts";

/** Members that a chat has by the same name. */
const SAME = ["temperature", "top_p", "parallel_tool_calls", "service_tier", "seed", "stop"] as const;
const LEFT_OUT: ReadonlySet<string> = new Set([
  ...["include", "truncation", "store", "prompt_cache_key", "user", "safety_identifier"],
  ...["model", "input", "instructions", "tools", "tool_choice", "text", "reasoning", "max_output_tokens"],
]);

/** The chat's body without its model. Throws `usage` (`details.param`) for what a chat does not have. */
export function chatOfResponse(body: JsonObject): JsonObject {
  const same = SAME.filter((name) => isGiven(body[name])).map((name) => [name, body[name]] as const);
  const other = Object.keys(body).find(
    (name) => isGiven(body[name]) && !LEFT_OUT.has(name) && !SAME.some((each) => each === name),
  );
  if (other !== undefined) throw unsupported(other);
  const { input, instructions, tools, tool_choice, text, reasoning, max_output_tokens } = body;
  const system = isGiven(instructions) ? [{ role: "system", content: instructions as JsonValue }] : [];
  const format = isObject(text) ? text["format"] : undefined;
  const effort = isObject(reasoning) ? reasoning["effort"] : undefined;
  return {
    messages: [...system, ...messagesOf(input)],
    ...Object.fromEntries(same),
    ...(isList(tools) && tools.length > 0 ? { tools: tools.map(toolOf) } : {}),
    ...(isGiven(tool_choice) ? { tool_choice: choiceOf(tool_choice as JsonValue) } : {}),
    ...(isObject(format) ? { response_format: formatOf(format) } : {}),
    ...(isGiven(effort) ? { reasoning_effort: effort as JsonValue } : {}),
    ...(isGiven(max_output_tokens) ? { max_tokens: max_output_tokens as JsonValue } : {}),
  } as JsonObject;
}

/** What a response calls members of the chat that it became. */
const RESPONSES_NAMES: ReadonlyMap<string, string> = new Map([
  ["response_format.json_schema", "text.format"],
  ["response_format", "text.format"],
  ["reasoning_effort", "reasoning.effort"],
  ["max_completion_tokens", "max_output_tokens"],
  ["max_tokens", "max_output_tokens"],
]);
const CHATS_NAME = new RegExp(
  `\\b(?:${[...RESPONSES_NAMES.keys()].join("|").replaceAll(".", "\\.")})\\b`,
  "g",
);

/** A refusal of the chat in words for the response. */
export function responseError(error: unknown): unknown {
  if (!(error instanceof PerigeeError) || typeof error.details["param"] !== "string") return error;
  const { code, message, details, cause } = error;
  const { param } = error.details;
  const own = param === "messages" ? "input" : inResponse(param);
  return new PerigeeError(code, inResponse(message), { cause, details: { ...details, param: own } });
}

function inResponse(text: string): string {
  return text.replace(CHATS_NAME, (name) => RESPONSES_NAMES.get(name) ?? name);
}

function messagesOf(input: JsonValue | undefined): readonly JsonValue[] {
  if (typeof input === "string") return [{ role: "user", content: input }];
  if (!isList(input) || input.length === 0) throw refusedParam("input", "must be a text or a list of items");
  return input.flatMap((item, index) => messageOf(item, `input.${index}`));
}

function messageOf(item: JsonValue, place: string): readonly JsonValue[] {
  if (!isObject(item)) throw refusedParam(place, "must be an object");
  const { type = "message", role, content, call_id, name, arguments: given, output } = item;
  if (type === "message" && isGiven(content))
    return [{ role: role ?? "user", content: contentOf(content, place) }];
  if (type === "function_call") {
    const call = {
      id: call_id ?? "",
      type: "function",
      function: { name: name ?? "", arguments: given ?? "" },
    };
    return [{ role: "assistant", content: null, tool_calls: [call] }];
  }
  if (type === "function_call_output") {
    const text = typeof output === "string" ? output : JSON.stringify(output ?? "");
    return [{ role: "tool", tool_call_id: call_id ?? "", content: text }];
  }
  if (type === "reasoning") return [];
  throw unsupported(`${place}.type`);
}

function contentOf(content: JsonValue | undefined, place: string): JsonValue {
  if (!isList(content)) return content ?? "";
  return content.map((part, index): JsonValue => {
    const { type, text, image_url, detail, refusal } = isObject(part) ? part : {};
    if (type === "input_text" || type === "output_text") return { type: "text", text: text ?? "" };
    if (type === "refusal") return { type: "text", text: refusal ?? "" };
    if (type !== "input_image" || !isGiven(image_url)) throw unsupported(`${place}.content.${index}.type`);
    const more = isGiven(detail) ? { detail: detail as JsonValue } : {};
    return { type: "image_url", image_url: { url: image_url as JsonValue, ...more } };
  });
}

function toolOf(tool: JsonValue, index: number): JsonValue {
  const { type, ...called } = isObject(tool) ? tool : {};
  if (type !== "function") throw unsupported(`tools.${index}.type`);
  return { type, function: withoutNull(called) };
}

function choiceOf(choice: JsonValue): JsonValue {
  if (typeof choice === "string") return choice;
  const { type, name } = isObject(choice) ? choice : {};
  if (type !== "function" || !isGiven(name)) throw unsupported("tool_choice");
  return { type, function: { name: name as JsonValue } };
}

function formatOf({ type, ...format }: JsonObject): JsonValue {
  return type === "json_schema" ? { type, json_schema: withoutNull(format) } : { type: type ?? "text" };
}

function withoutNull(object: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => isGiven(value)));
}

function isGiven(value: JsonValue | undefined): boolean {
  return value !== undefined && value !== null;
}

function unsupported(param: string): PerigeeError {
  return refusedParam(param, "is not supported for a model whose provider has no responses");
}
