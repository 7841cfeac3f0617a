/**
 * A call of the AI SDK as an item in OpenAI's layout, with what of the call could not be carried.
 *
 * `providerOptions.perigee` has perigee's own options. Of the provider that the model names (`providerOptions.openai` for `openai:gpt-5-mini`) some members are
 * known to all providers of OpenAI's protocol; the others become a warning. Those of other providers are for other models.
 */
import type { Item } from "../work/item.ts";
import type { Json, JsonObject } from "../work/json.ts";
import { ModelCallError } from "./call_error.ts";
import { partOfFile } from "./file_parts.ts";
import type { CallTool, CallWarning, Draft, MessagePart, ModelCall, ToolOutput } from "./model_call.ts";

/** What `providerOptions.perigee` of a call may have. */
export interface PerigeeCallOptions {
  /** Minutes, 1 to 43,200; 0: at once, whatever the model's sla is. Default: the model's. */
  readonly sla?: number;
  /** A name of this call, 1 to 400 bytes. The same call under it is asked once, however often it is made. Default: its content, and how often it was made. */
  readonly key?: string;
  /** The caller's own, which is kept with the task. */
  readonly metadata?: JsonObject;
  /** Further members of a body in OpenAI's layout under their own names, such as `reasoning_effort` or `service_tier`. */
  readonly more?: JsonObject;
}

/** What is submitted of a call. */
export interface CalledItem {
  readonly item: Item;
  readonly key: string | undefined;
  readonly warnings: readonly CallWarning[];
}

/** The settings of a call, and what an item calls them. */
const SETTINGS = [
  ["maxOutputTokens", "max_output_tokens"],
  ["temperature", "temperature"],
  ["topP", "top_p"],
  ["topK", "top_k"],
  ["presencePenalty", "presence_penalty"],
  ["frequencyPenalty", "frequency_penalty"],
  ["seed", "seed"],
] as const;
/** Options of a provider that all of OpenAI's protocol have, and what an item calls them. */
const SHARED_OPTIONS: ReadonlyMap<string, string> = new Map([
  ["reasoningEffort", "reasoning_effort"],
  ["serviceTier", "service_tier"],
  ["parallelToolCalls", "parallel_tool_calls"],
  ["user", "user"],
]);
const OWN_OPTIONS: ReadonlySet<string> = new Set([
  "sla",
  "key",
  "metadata",
  "more",
] satisfies (keyof PerigeeCallOptions)[]);

/** `sla` is the model's. Throws a `ModelCallError` for what no item can hold. */
export function itemOfCall(model: string, call: ModelCall, sla: number | undefined): CalledItem {
  const warnings: CallWarning[] = [];
  const own = ownOptions(call);
  const messages = call.prompt.flatMap((message, index) => messagesOf(message, `prompt[${index}]`, warnings));
  const item: Draft = { model, messages };
  for (const [name, member] of SETTINGS) {
    const value = call[name];
    if (value !== undefined) item[member] = value;
  }
  if (call.stopSequences !== undefined && call.stopSequences.length > 0) item["stop"] = call.stopSequences;
  if (call.responseFormat?.type === "json") item["response_format"] = formatOf(call.responseFormat);
  addTools(item, call, warnings);
  if (call.reasoning !== undefined && call.reasoning !== "provider-default")
    item["reasoning_effort"] = call.reasoning;
  addShared(item, model, call, warnings);
  if (call.headers !== undefined && Object.keys(call.headers).some((name) => !/^user-agent$/i.test(name)))
    warnings.push({ about: "setting", name: "headers", details: "perigee sends its own" });
  Object.assign(item, own.more);
  const minutes = own.sla ?? sla;
  if (minutes !== undefined && minutes !== 0) item["sla"] = minutes;
  if (own.metadata !== undefined) item["metadata"] = own.metadata;
  return { item: item as unknown as Item, key: own.key, warnings }; // the engine checks it as it does every item
}

function ownOptions({ providerOptions }: ModelCall): PerigeeCallOptions {
  const own = providerOptions?.["perigee"] ?? {};
  const unknown = Object.keys(own).find((name) => !OWN_OPTIONS.has(name));
  if (unknown !== undefined)
    throw new ModelCallError(
      `providerOptions.perigee: "${unknown}" is not known; expected ${[...OWN_OPTIONS].join(", ")}`,
      { code: "usage" },
    );
  const { key } = own;
  if (key !== undefined && (typeof key !== "string" || key === "" || Buffer.byteLength(key) > 400))
    throw new ModelCallError("providerOptions.perigee.key must be a text of 1 to 400 bytes", {
      code: "usage",
    });
  return own as PerigeeCallOptions; // the engine checks the others with the item
}

function messagesOf(
  { role, content }: ModelCall["prompt"][number],
  where: string,
  warnings: CallWarning[],
): Json[] {
  if (typeof content === "string") return [{ role, content }];
  switch (role) {
    case "tool":
      return content
        .filter(({ type }) => type === "tool-result")
        .map(({ toolCallId = "", output }) => resultOf(toolCallId, output, where));
    case "assistant":
      return [assistantMessage(content, where, warnings)];
    default:
      return [{ role, content: userContent(content, where) }];
  }
}

function userContent(parts: readonly MessagePart[], where: string): Json {
  const [first] = parts;
  if (parts.length === 1 && first?.type === "text") return first.text ?? "";
  return parts.map((part, index) =>
    part.type === "file"
      ? partOfFile(part, `${where}.content[${index}]`)
      : { type: "text", text: part.text ?? "" },
  );
}

function assistantMessage(parts: readonly MessagePart[], where: string, warnings: CallWarning[]): Json {
  let text = "";
  const calls: Json[] = [];
  for (const part of parts) {
    if (part.type === "text") text += part.text ?? "";
    else if (part.type === "tool-call") calls.push(toolCall(part));
    else if (part.type === "reasoning")
      warnings.push({
        about: "other",
        message: `${where}: the model's earlier reasoning is not sent back to it`,
      });
    else
      throw new ModelCallError(`${where}: a part of an assistant's message cannot be a ${part.type}`, {
        code: "unsupported_request",
      });
  }
  if (calls.length === 0) return { role: "assistant", content: text };
  return { role: "assistant", content: text === "" ? null : text, tool_calls: calls };
}

function toolCall({ toolCallId = "", toolName = "", input }: MessagePart): Json {
  const text = typeof input === "string" ? input : JSON.stringify(input ?? {});
  return { id: toolCallId, type: "function", function: { name: toolName, arguments: text } };
}

function resultOf(id: string, output: ToolOutput | undefined, where: string): Json {
  return { role: "tool", tool_call_id: id, content: textOfOutput(output, where) };
}

function textOfOutput(output: ToolOutput | undefined, where: string): string {
  const { type, value, reason } = output ?? { type: "text", value: "" };
  if (type === "execution-denied") return reason ?? "The call of this tool was denied.";
  if (typeof value === "string" && type !== "json" && type !== "error-json") return value;
  if (type !== "content") return JSON.stringify(value ?? null);
  const parts = value as readonly MessagePart[]; // as all versions have it
  const other = parts.find((part) => part.type !== "text");
  if (other !== undefined)
    throw new ModelCallError(`${where}: the result of a tool can be a text or JSON, got a ${other.type}`, {
      code: "unsupported_request",
    });
  return parts.map(({ text = "" }) => text).join("\n");
}

/** Strict where there is a schema, as the AI SDK's own provider of OpenAI sends it. */
function formatOf({
  schema,
  name,
  description,
}: Extract<ModelCall["responseFormat"], { type: "json" }>): JsonObject {
  if (schema === undefined) return { type: "json_object" };
  return {
    type: "json_schema",
    json_schema: {
      name: name ?? "response",
      ...(description === undefined ? {} : { description }),
      schema: schema as Json,
      strict: true,
    },
  };
}

function addTools(item: Draft, { tools = [], toolChoice }: ModelCall, warnings: CallWarning[]): void {
  const functions = tools.filter(({ type }) => type === "function");
  for (const { type, name } of tools)
    if (type !== "function")
      warnings.push({ about: "feature", name: `tool ${name}`, details: "only functions can be called" });
  if (functions.length === 0) return;
  item["tools"] = functions.map(functionTool);
  if (toolChoice === undefined) return;
  item["tool_choice"] =
    toolChoice.type === "tool"
      ? { type: "function", function: { name: toolChoice.toolName } }
      : toolChoice.type;
}

function functionTool({ name, description, inputSchema, strict }: CallTool): Json {
  return {
    type: "function",
    function: {
      name,
      ...(description === undefined ? {} : { description }),
      parameters: inputSchema as Json,
      ...(strict === undefined ? {} : { strict }),
    },
  };
}

function addShared(
  item: Draft,
  model: string,
  { providerOptions }: ModelCall,
  warnings: CallWarning[],
): void {
  const [provider = ""] = model.split(":", 1);
  if (provider === "perigee") return;
  for (const [name, value] of Object.entries(providerOptions?.[provider] ?? {})) {
    const member = SHARED_OPTIONS.get(name);
    if (value === undefined) continue;
    if (member !== undefined) item[member] = value as Json;
    else
      warnings.push({
        about: "setting",
        name: `providerOptions.${provider}.${name}`,
        details: "set the member of the provider's body in providerOptions.perigee.more",
      });
  }
}
