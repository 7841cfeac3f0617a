/**
 * The body of a chat completion, from a neutral request. Field names and ranges: OpenAI's API file and `dialects.ts`.
 *
 * A request in OpenAI's own layout is sent unchanged: `given_body.ts`.
 *
 * Hot path: one call per request, 2 to 4 us for a short prompt (bench/parts/encode.ts).
 */
import { type GenerationConfig, hasOnlyTexts, type ModelRequest } from "../../work/request.ts";
import { answerSchema, isStrictSchema, type ObjectSchema } from "../schema.ts";
import { candidatesName } from "../unsupported.ts";
import { type ChatMessage, type ChatTools, messagesOfTurn, putChatTools } from "./chat_content.ts";
import { type Dialect, type OpenaiModel, openaiModel } from "./dialects.ts";
import type { Writing } from "./writing.ts";

/** What this codec writes; assignable to the official SDK's `ChatCompletionCreateParamsNonStreaming`. */
export interface ChatBody extends ChatTools {
  model: string;
  messages: ChatMessage[];
  temperature?: number;
  top_p?: number;
  /** Not OpenAI's own; the family's. */
  top_k?: number;
  max_tokens?: number;
  max_completion_tokens?: number;
  stop?: string[];
  n?: number;
  seed?: number;
  /** Mistral's name of `seed`. */
  random_seed?: number;
  presence_penalty?: number;
  frequency_penalty?: number;
  reasoning_effort?: ReasoningEffort;
  logprobs?: boolean;
  top_logprobs?: number;
  response_format?:
    | { type: "json_object" }
    | { type: "json_schema"; json_schema: { name: string; strict: boolean; schema: ObjectSchema } };
}

type TextPart = { type: "text"; text: string };

const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh", "max"] as const;
type ReasoningEffort = (typeof EFFORTS)[number];

/** A body, the settings left out of it, or why there cannot be one. */
type ChatResult =
  | { readonly body: ChatBody; readonly dropped: string[] }
  | { readonly code: "invalid_config" | "unsupported_request"; readonly message: string };

/** The body for a request in the neutral shape; `writing` gets its notes. An exact seed is not in it: see `withDigits`. */
export function chatBody(
  request: ModelRequest,
  model: string,
  dialect: Dialect,
  writing: Writing,
): ChatResult {
  const { config } = request;
  const { dropped } = writing;
  const kind = dialect.hasReasoningModels ? openaiModel(model) : undefined;
  const body: ChatBody = { model, messages: chatMessages(request, dialect, kind, writing) };
  const fault = writing.refused ?? putChatTools(body, request, writing.name);
  if (fault !== undefined) return { code: "unsupported_request", message: fault };
  if (request.safetySettings !== undefined) dropped.push("safety_settings");
  if (config.mediaResolution !== undefined) writing.drop("media_resolution");
  if (request.cachedContent !== undefined) dropped.push("cached_content");
  if (config.candidateCount !== undefined) {
    if (dialect.hasChoices) body.n = config.candidateCount;
    else dropped.push(candidatesName(request));
  }
  const stops = config.stopSequences;
  if (stops !== undefined && stops.length > dialect.stopsMax) {
    return {
      code: "invalid_config",
      message: `stop_sequences: expected at most ${dialect.stopsMax}, got ${stops.length}`,
    };
  }
  if (stops !== undefined && stops.length > 0) {
    if (kind?.hasStop === false) dropped.push("stop_sequences");
    else body.stop = [...stops];
  }
  if (config.maxOutputTokens !== undefined) body[dialect.outputLimit] = config.maxOutputTokens;
  putEffort(body, config, dialect, dropped);
  putSampling(body, config, dialect, kind, dropped);
  putLogprobs(body, config, dialect, kind, dropped);
  const problem = putFormat(body, config, dialect, dropped);
  return problem === undefined ? { body, dropped } : { code: "invalid_config", message: problem };
}

/** The messages of a request; `writing` gets its notes. */
export function chatMessages(
  request: ModelRequest,
  dialect: Pick<Dialect, "hasContentParts">,
  kind: OpenaiModel | undefined,
  writing: Writing,
): ChatMessage[] {
  const messages: ChatMessage[] = [];
  if (request.system.length > 0) {
    const role = kind?.isReasoning === true ? "developer" : "system";
    messages.push({ role, content: contentOf(request.system, dialect) });
  }
  for (const turn of request.turns) {
    const { role, parts } = turn;
    if (!hasOnlyTexts(parts)) messages.push(...messagesOfTurn(turn, dialect.hasContentParts, writing));
    else messages.push({ role: role === "model" ? "assistant" : "user", content: contentOf(parts, dialect) });
  }
  return messages;
}

function contentOf(texts: readonly string[], dialect: Pick<Dialect, "hasContentParts">): string | TextPart[] {
  if (texts.length === 1 && texts[0] !== undefined) return texts[0];
  return dialect.hasContentParts ? texts.map((text) => ({ type: "text", text })) : texts.join("");
}

/** A budget has no counterpart but 0 (do not reason) and -1 (the model decides, which is the default). */
function putEffort(body: ChatBody, config: GenerationConfig, dialect: Dialect, dropped: string[]): void {
  const thinking = config.thinkingConfig;
  if (thinking === undefined) return;
  if (Object.keys(thinking).length === 0) dropped.push("thinking_config");
  const level = thinking.thinkingLevel?.toLowerCase();
  if (level !== undefined) {
    const effort = EFFORTS.find((known) => known === level);
    if (effort === undefined || !dialect.hasReasoningEffort) dropped.push("thinking_level");
    else body.reasoning_effort = effort;
  }
  const budget = thinking.thinkingBudget;
  if (budget !== undefined && budget !== -1) {
    if (budget === 0 && level === undefined && dialect.hasReasoningEffort) body.reasoning_effort = "none";
    else dropped.push("thinking_budget");
  }
  if (thinking.includeThoughts === true && !dialect.hasThoughts) dropped.push("include_thoughts");
}

function putLogprobs(
  body: ChatBody,
  { responseLogprobs, logprobs }: GenerationConfig,
  dialect: Dialect,
  kind: OpenaiModel | undefined,
  dropped: string[],
): void {
  if (responseLogprobs === undefined && logprobs === undefined) return;
  if (!dialect.hasLogprobs || kind?.isReasoning === true) {
    dropped.push("logprobs");
    return;
  }
  body.logprobs = true;
  if (logprobs !== undefined) body.top_logprobs = logprobs;
}

function putSampling(
  body: ChatBody,
  config: GenerationConfig,
  dialect: Dialect,
  kind: OpenaiModel | undefined,
  dropped: string[],
): void {
  const sampling = kind?.sampling ?? "always";
  const isFree =
    sampling === "always" || (sampling === "without_reasoning" && body.reasoning_effort === "none");
  const { temperature, topP, topK, presencePenalty, frequencyPenalty, seed } = config;
  if (temperature !== undefined) {
    if (isFree || temperature === 1) body.temperature = temperature;
    else dropped.push("temperature");
  }
  if (topP !== undefined) {
    if (isFree || topP === 1) body.top_p = topP;
    else dropped.push("top_p");
  }
  if (topK !== undefined) {
    if (dialect.hasTopK) body.top_k = topK;
    else dropped.push("top_k");
  }
  if (presencePenalty !== undefined) {
    if (dialect.hasPenalties && (isFree || presencePenalty === 0)) body.presence_penalty = presencePenalty;
    else dropped.push("presence_penalty");
  }
  if (frequencyPenalty !== undefined) {
    if (dialect.hasPenalties && (isFree || frequencyPenalty === 0)) body.frequency_penalty = frequencyPenalty;
    else dropped.push("frequency_penalty");
  }
  if (seed === undefined) return;
  if (dialect.seed === undefined) dropped.push("seed");
  else if (typeof seed === "number") body[dialect.seed] = seed;
}

/** Puts the format that the settings ask for; returns what is wrong with it. */
export function putFormat(
  body: Pick<ChatBody, "response_format">,
  config: GenerationConfig,
  dialect: Dialect,
  dropped: string[],
): string | undefined {
  const schema = answerSchema(config);
  if (schema === null) return "response_schema: expected an object";
  const mime = config.responseMimeType;
  if (schema !== undefined && mime !== undefined && mime !== "application/json")
    dropped.push("response_mime_type");
  if (schema !== undefined && dialect.hasJsonSchema) {
    const strict = isStrictSchema(schema);
    body.response_format = { type: "json_schema", json_schema: { name: "answer", strict, schema } };
  } else if (schema !== undefined || mime === "application/json") {
    body.response_format = { type: "json_object" };
    if (schema !== undefined) dropped.push("response_schema");
  } else if (mime !== undefined && mime !== "text/plain") {
    dropped.push("response_mime_type");
  }
  return undefined;
}
