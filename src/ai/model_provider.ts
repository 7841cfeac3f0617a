/**
 * A model object of the AI SDK as a provider of perigee: limits, retries, prices, caps and resume around its calls.
 *
 *   providers: { mine: modelProvider(openai("gpt-5-mini")) }        every model of `mine:` is this one
 *   providers: { mine: modelProvider((name) => openai(name)) }      `mine:gpt-5-mini` is `openai("gpt-5-mini")`
 *
 * A model that embeds answers items of the kind `embedding` (embedding_provider.ts). What a call throws: model_errors.ts. The model itself does not repeat calls: only `generateText` does, which is not used here.
 */
import type { FunctionAnswer, FunctionRequest, ProviderFunction } from "../providers/function.ts";
import { isList, isObject, type Json, type JsonObject } from "../work/json.ts";
import { type CalledEmbeddingModel, embedder } from "./embedding_provider.ts";
import { fileOfPart } from "./file_parts.ts";
import type { AnswerFormat, CallTool, MessagePart, ModelCall, PromptMessage } from "./model_call.ts";
import { checkVersion, marked, permanent } from "./model_errors.ts";

/** A model object of version 2, 3 or 4: what of it is used. */
export interface CalledModel {
  readonly specificationVersion: string;
  readonly modelId: string;
  readonly provider: string;
  doGenerate(call: ModelCall): PromiseLike<CalledAnswer>;
}

/** What a model resolves with. */
export interface CalledAnswer {
  readonly content: readonly {
    readonly type: string;
    readonly text?: string;
    readonly toolCallId?: string;
    readonly toolName?: string;
    readonly input?: string;
  }[];
  readonly finishReason: string | { readonly unified: string };
  readonly usage: CalledUsage;
}

/** Tokens of either form: numbers of version 2, sums with their parts of versions 3 and 4. */
interface CalledUsage {
  readonly inputTokens: Total;
  readonly outputTokens: Total;
  readonly cachedInputTokens?: number | undefined;
  readonly reasoningTokens?: number | undefined;
}
type Total =
  | number
  | undefined
  | {
      readonly total: number | undefined;
      readonly cacheRead?: number | undefined;
      readonly cacheWrite?: number | undefined;
      readonly reasoning?: number | undefined;
    };

/** Members of a body that a call has in another place, or cannot have. */
const READ_MEMBERS: ReadonlySet<string> = new Set(["tools", "tool_choice", "response_format", "messages"]);

/** Settings that a call has a place for. */
const READ_SETTINGS: ReadonlySet<string> = new Set([
  "temperature",
  "topP",
  "topK",
  "maxOutputTokens",
  "presencePenalty",
  "frequencyPenalty",
  "stopSequences",
  "seed",
  "responseMimeType",
  "responseJsonSchema",
  "thinkingConfig",
] satisfies (keyof FunctionRequest["settings"])[]);

/** What a call is written for. */
interface Called {
  readonly version: string;
  readonly provider: string;
}

/** A model object of any kind that is used here. */
export type AnyCalledModel = CalledModel | CalledEmbeddingModel;

/** The function for `providers` of a configuration. `model`: a model object, or a function that returns one by its name. */
export function modelProvider(model: AnyCalledModel | ((name: string) => AnyCalledModel)): ProviderFunction {
  const named = typeof model === "function" ? model : () => model;
  const chat: ProviderFunction = async (request, { signal }) => {
    try {
      const called = named(request.model);
      checkVersion(called);
      if (!("doGenerate" in called))
        throw permanent(`the model "${called.modelId}" embeds texts; it cannot answer a prompt`);
      const call = callOf(request, { version: called.specificationVersion, provider: called.provider });
      return answerOf(await called.doGenerate({ ...call, abortSignal: signal }));
    } catch (error) {
      throw marked(error);
    }
  };
  const embed = embedder(model);
  return embed === undefined ? chat : Object.assign(chat, { embed });
}

/** The call of a model. Throws for what no call can have: it would be left out in silence. */
function callOf(
  { messages, settings, more = {} }: FunctionRequest,
  { version, provider }: Called,
): ModelCall {
  const isTagged = version === "v4";
  const { temperature, topP, topK, maxOutputTokens, stopSequences, seed } = settings;
  const { presencePenalty, frequencyPenalty, thinkingConfig } = settings;
  const names = new Map<string, string>();
  const prompt = messages.map((message, index) =>
    messageOf(message, `messages[${index}]`, { isTagged, names }),
  );
  const given = {
    ...{ temperature, topP, topK, maxOutputTokens, presencePenalty, frequencyPenalty },
    stopSequences: stopSequences === undefined ? undefined : [...stopSequences],
    seed: typeof seed === "number" ? seed : undefined,
    responseFormat: formatIn(more["response_format"]) ?? formatOfSettings(settings),
    tools: toolsIn(more["tools"]),
    toolChoice: choiceIn(more["tool_choice"]),
    ...effortOf(thinkingConfig?.thinkingLevel, isTagged, provider),
  };
  const other = [
    ...Object.keys(more).filter((name) => !READ_MEMBERS.has(name)),
    ...Object.keys(settings).filter((name) => !READ_SETTINGS.has(name)),
    ...(typeof seed === "object" ? ["seed (above 2^53)"] : []),
    ...(thinkingConfig?.thinkingBudget === undefined ? [] : ["thinkingBudget"]),
  ];
  if (other.length > 0)
    throw permanent(`${other.join(", ")}: a model of the AI SDK cannot be called with it; leave it out`);
  return { prompt, ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) };
}

/** Version 4 has a name for the effort; models of earlier ones have it among the options of their provider. */
function effortOf(
  effort: string | undefined,
  isTagged: boolean,
  provider: string,
): Pick<ModelCall, "reasoning" | "providerOptions"> {
  if (effort === undefined) return {};
  const reasoningEffort = effort.toLowerCase();
  if (isTagged) return { reasoning: reasoningEffort };
  const [name = ""] = provider.split(".", 1); // such as openai of openai.responses
  return { providerOptions: { [name]: { reasoningEffort } } };
}

interface MessagePlace {
  readonly isTagged: boolean;
  /** Of the tools that were called, by the ids of the calls. */
  readonly names: Map<string, string>;
}

function messageOf(
  message: FunctionRequest["messages"][number],
  where: string,
  { isTagged, names }: MessagePlace,
): PromptMessage {
  const { role, content = null, tool_calls: calls = [], tool_call_id: id = "" } = message;
  switch (role) {
    case "system":
    case "developer":
      return { role: "system", content: textOf(content, where) };
    case "user":
      return { role: "user", content: partsOf(content, where, isTagged) };
    case "assistant": {
      const called = (Array.isArray(calls) ? calls : []).map((call) => toolCallOf(call, where));
      for (const { toolCallId = "", toolName = "" } of called) names.set(toolCallId, toolName);
      const said = content === null || content === "" ? [] : partsOf(content, where, isTagged);
      return { role: "assistant", content: [...said, ...called] };
    }
    case "tool": {
      const toolCallId = String(id);
      const output = { type: "text", value: textOf(content, where) };
      const toolName = names.get(toolCallId) ?? "";
      return { role: "tool", content: [{ type: "tool-result", toolCallId, toolName, output }] };
    }
    default:
      throw permanent(`${where}.role: expected system, developer, user, assistant or tool`);
  }
}

function textOf(content: Json, where: string): string {
  return partsOf(content, where, false)
    .map(({ text }) => {
      if (text === undefined) throw permanent(`${where}.content: expected only texts`);
      return text;
    })
    .join("\n");
}

function partsOf(content: Json, where: string, isTagged: boolean): MessagePart[] {
  if (typeof content === "string") return [{ type: "text", text: content }];
  if (!isList(content)) throw permanent(`${where}.content: expected a text or a list of parts`);
  return content.map((part, index) => {
    const text = isObject(part) && part["type"] === "text" ? part["text"] : undefined;
    if (typeof text === "string") return { type: "text", text };
    const file = isObject(part) ? fileOfPart(part, isTagged) : undefined;
    if (file === undefined)
      throw permanent(
        `${where}.content[${index}]: expected a text, image_url, input_audio or a file with file_data`,
      );
    return file;
  });
}

function toolCallOf(call: Json, where: string): MessagePart {
  const called = isObject(call) ? call["function"] : undefined;
  if (!isObject(call) || !isObject(called))
    throw permanent(`${where}.tool_calls: expected calls of functions`);
  return {
    type: "tool-call",
    toolCallId: String(call["id"]),
    toolName: String(called["name"]),
    input: inputOf(called["arguments"]),
  };
}

/** What the model called the tool with, which may not be JSON. */
function inputOf(text: Json | undefined): unknown {
  if (typeof text !== "string") return text ?? {};
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function toolsIn(tools: Json | undefined): CallTool[] | undefined {
  if (!isList(tools)) return undefined;
  return tools.map((tool, index) => {
    const declared = isObject(tool) ? tool["function"] : undefined;
    if (!isObject(declared)) throw permanent(`tools[${index}]: expected a function`);
    const { name, description, parameters, strict } = declared;
    return {
      type: "function",
      name: String(name),
      ...(typeof description === "string" ? { description } : {}),
      inputSchema: parameters ?? { type: "object", properties: {} },
      ...(typeof strict === "boolean" ? { strict } : {}),
    };
  });
}

function choiceIn(choice: Json | undefined): ModelCall["toolChoice"] {
  if (choice === "auto" || choice === "none" || choice === "required") return { type: choice };
  const called = isObject(choice) ? choice["function"] : undefined;
  return isObject(called) ? { type: "tool", toolName: String(called["name"]) } : undefined;
}

function formatIn(format: Json | undefined): AnswerFormat | undefined {
  if (!isObject(format)) return undefined;
  const { type, json_schema: declared } = format;
  if (type === "json_object") return { type: "json" };
  if (type !== "json_schema" || !isObject(declared)) return undefined;
  const { schema, name, description } = declared;
  return {
    type: "json",
    schema,
    ...(typeof name === "string" ? { name } : {}),
    ...(typeof description === "string" ? { description } : {}),
  };
}

function formatOfSettings({
  responseJsonSchema: schema,
  responseMimeType,
}: FunctionRequest["settings"]): AnswerFormat | undefined {
  if (schema !== undefined) return { type: "json", schema };
  return responseMimeType === "application/json" ? { type: "json" } : undefined;
}

function answerOf({ content, finishReason, usage }: CalledAnswer): FunctionAnswer {
  const textsOf = (type: string): string =>
    content.flatMap((part) => (part.type === type && part.text !== undefined ? [part.text] : [])).join("");
  const calls = content.filter(({ type }) => type === "tool-call");
  const reasoning = textsOf("reasoning");
  const tokens = usageOf(usage);
  const finish = finishOf(typeof finishReason === "string" ? finishReason : finishReason.unified);
  return {
    text: textsOf("text"),
    ...(tokens === undefined ? {} : { usage: tokens }),
    ...(finish === undefined ? {} : { finishReason: finish }),
    ...(calls.length === 0 ? {} : { toolCalls: calls.map(openaiCall) }),
    ...(reasoning === "" ? {} : { reasoning }),
  };
}

function openaiCall({
  toolCallId = "",
  toolName = "",
  input = "{}",
}: CalledAnswer["content"][number]): JsonObject {
  return { id: toolCallId, type: "function", function: { name: toolName, arguments: input } };
}

function finishOf(reason: string): FunctionAnswer["finishReason"] {
  switch (reason) {
    case "stop":
    case "length":
      return reason;
    case "tool-calls":
      return "tool_calls";
    case "content-filter":
      return "content_filter";
    default:
      return undefined;
  }
}

/** Undefined where the model does not say: then perigee counts. */
function usageOf(usage: CalledUsage): FunctionAnswer["usage"] {
  const [input, output] = [sumOf(usage.inputTokens), sumOf(usage.outputTokens)];
  if (input.total === undefined || output.total === undefined) return undefined;
  return {
    inputTokens: input.total,
    outputTokens: output.total,
    cachedTokens: input.cacheRead ?? usage.cachedInputTokens ?? 0,
    cacheWriteTokens: input.cacheWrite ?? 0,
    reasoningTokens: output.reasoning ?? usage.reasoningTokens ?? 0,
  };
}

function sumOf(tokens: Total): Exclude<Total, number | undefined> {
  return typeof tokens === "object" ? tokens : { total: tokens };
}
