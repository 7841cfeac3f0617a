/**
 * The body of an Anthropic message, from a neutral request. Field names and rules: @anthropic-ai/sdk 1.11.
 *
 *   model                sampling                                         thinking
 *   up to 3.x            temperature, top_p, top_k                        by budget, from 1,024
 *   4.0 to 4.5           the same, but not temperature and top_p at once  by budget, from 1,024
 *   4.6                  as 4.5                                           adaptive, by effort
 *   later, or unknown    defaults only                                    adaptive, by effort
 *
 * `max_tokens` is demanded: the item's, else the settings', else 4,096; plus the budget of thinking when the item gives
 * none, since thoughts count towards it.
 */
import { type GenerationConfig, hasOnlyTexts, type ModelRequest } from "../../work/request.ts";
import { answerSchema, type ObjectSchema } from "../schema.ts";
import { candidatesName } from "../unsupported.ts";
import {
  type AnthropicTools,
  blocksOf,
  type MessageBlock,
  putAnthropicTools,
  type TextBlock,
} from "./anthropic_content.ts";
import type { Writing } from "./writing.ts";

/** What this codec writes; without sampling it is assignable to the SDK's `MessageCreateParamsNonStreaming`. */
export interface AnthropicBody extends AnthropicTools {
  model: string;
  max_tokens: number;
  /** Before the messages: the marks of the prompt cache are put by it (`cache_marks.ts`). */
  system?: string | TextBlock[];
  messages: { role: "user" | "assistant"; content: string | MessageBlock[] }[];
  temperature?: number;
  top_p?: number;
  top_k?: number;
  stop_sequences?: string[];
  thinking?:
    | { type: "adaptive"; display?: "summarized" }
    | { type: "disabled" }
    | { type: "enabled"; budget_tokens: number; display?: "summarized" };
  output_config?: { effort?: Effort; format?: { type: "json_schema"; schema: ObjectSchema } };
}

type Effort = "low" | "medium" | "high" | "xhigh" | "max";

/** A body and the settings left out of it, or why there cannot be one. */
type AnthropicResult =
  | { readonly body: AnthropicBody; readonly dropped: string[] }
  | { readonly code: "invalid_config" | "unsupported_request"; readonly message: string };

const OUTPUT_TOKENS_DEFAULT = 4_096;
const THINKING_TOKENS_MIN = 1_024;

/** Structured outputs began with Opus 4.1 (docs: structured outputs, November 2025); earlier models refuse them. */
const SCHEMA_GENERATION_MIN = 4.1;

/** The first API version in which no model takes sampling settings. Versions are dates and compare as text. */
export const VERSION_2026 = "2026-10-21";

/** The body for a request; `writing` gets its notes. `version` is the `anthropic-version` sent with it. */
export function anthropicBody(
  request: ModelRequest,
  model: string,
  { version, outputTokensDefault }: { version: string; outputTokensDefault: number | undefined },
  writing: Writing,
): AnthropicResult {
  const { config } = request;
  const { dropped } = writing;
  const generation = generationOf(model);
  const max_tokens = config.maxOutputTokens ?? outputTokensDefault ?? OUTPUT_TOKENS_DEFAULT;
  const messages = request.turns.map((turn) => ({
    role: turn.role === "model" ? ("assistant" as const) : ("user" as const),
    content: hasOnlyTexts(turn.parts) ? contentOf(turn.parts) : blocksOf(turn, writing),
  }));
  const body: AnthropicBody =
    request.system.length === 0
      ? { model, max_tokens, messages }
      : { model, max_tokens, system: contentOf(request.system), messages };
  const fault = writing.refused ?? putAnthropicTools(body, request, writing);
  if (fault !== undefined) return { code: "unsupported_request", message: fault };
  if (config.stopSequences !== undefined && config.stopSequences.length > 0) {
    body.stop_sequences = [...config.stopSequences];
  }
  putThinking(body, config, generation, dropped);
  const takesSampling = generation <= 4.6 && version < VERSION_2026;
  if (takesSampling) putSampling(body, config, generation, dropped);
  else dropSampling(config, dropped);
  if (config.candidateCount !== undefined) dropped.push(candidatesName(request));
  if (request.safetySettings !== undefined) dropped.push("safety_settings");
  if (config.mediaResolution !== undefined) writing.drop("media_resolution");
  if (request.cachedContent !== undefined) dropped.push("cached_content");
  if (config.seed !== undefined) dropped.push("seed");
  if (config.presencePenalty !== undefined) dropped.push("presence_penalty");
  if (config.frequencyPenalty !== undefined) dropped.push("frequency_penalty");
  if (config.responseLogprobs !== undefined || config.logprobs !== undefined) dropped.push("logprobs");
  const schema = answerSchema(config);
  if (schema === null) return { code: "invalid_config", message: "response_schema: expected an object" };
  const isLeft = request.isChecked === true && generation < SCHEMA_GENERATION_MIN;
  if (schema !== undefined && isLeft) dropped.push("response_schema");
  else if (schema !== undefined) {
    body.output_config = { ...body.output_config, format: { type: "json_schema", schema } };
  }
  const takenMime = schema === undefined ? "text/plain" : "application/json";
  if ((config.responseMimeType ?? takenMime) !== takenMime) dropped.push("response_mime_type");
  return { body, dropped };
}

/** 4.6 of `claude-opus-4-6`, 3.5 of `claude-3-5-sonnet-20241022`; infinity for a name without a version, as the newest. */
function generationOf(model: string): number {
  if (model === last.model) return last.generation;
  const match = /claude-(?:[a-z]+-)?(\d)(?:[-.](\d)(?!\d))?/.exec(model);
  const generation = match === null ? Number.POSITIVE_INFINITY : Number(`${match[1]}.${match[2] ?? 0}`);
  last = { model, generation };
  return generation;
}

/** Most lines name the model of the line before; the pattern takes a microsecond. */
let last = { model: "", generation: Number.POSITIVE_INFINITY };

function contentOf(texts: readonly string[]): string | TextBlock[] {
  if (texts.length === 1 && texts[0] !== undefined) return texts[0];
  return texts.map((text) => ({ type: "text", text }));
}

function putSampling(
  body: AnthropicBody,
  config: GenerationConfig,
  generation: number,
  dropped: string[],
): void {
  const { temperature, topP, topK } = config;
  // Thinking by budget allows the default temperature and no top_k (docs: extended thinking, feature compatibility).
  const thinks = body.thinking?.type === "enabled";
  if (temperature !== undefined) {
    if (!thinks) body.temperature = temperature;
    else if (temperature !== 1) dropped.push("temperature");
  }
  if (topP !== undefined) {
    if (body.temperature === undefined || generation < 4) body.top_p = topP;
    else dropped.push("top_p");
  }
  if (topK === undefined) return;
  if (thinks) dropped.push("top_k");
  else body.top_k = topK;
}

/** Values that equal the default are left out without a word: the answer is the same. */
function dropSampling(config: GenerationConfig, dropped: string[]): void {
  if (config.temperature !== undefined && config.temperature !== 1) dropped.push("temperature");
  if (config.topP !== undefined && config.topP < 0.99) dropped.push("top_p");
  if (config.topK !== undefined) dropped.push("top_k");
}

const EFFORT_OF_LEVEL: ReadonlyMap<string, Effort> = new Map([
  ["minimal", "low"],
  ["low", "low"],
  ["medium", "medium"],
  ["high", "high"],
  ["xhigh", "xhigh"],
  ["max", "max"],
]);

function putThinking(
  body: AnthropicBody,
  config: GenerationConfig,
  generation: number,
  dropped: string[],
): void {
  const thinking = config.thinkingConfig;
  if (thinking === undefined) return;
  const { thinkingBudget: budget, thinkingLevel: level } = thinking;
  const isAdaptive = generation >= 4.6;
  if (Object.keys(thinking).length === 0) dropped.push("thinking_config");
  if (level?.toLowerCase() === "none") {
    body.thinking = { type: "disabled" };
  } else if (level !== undefined) {
    const effort = EFFORT_OF_LEVEL.get(level.toLowerCase());
    if (effort === undefined || !isAdaptive) dropped.push("thinking_level");
    else {
      body.thinking = { type: "adaptive" };
      body.output_config = { effort };
    }
  }
  const isTwofold = level !== undefined && budget !== undefined && budget !== -1;
  if (isTwofold) dropped.push("thinking_budget");
  else if (budget !== undefined && level === undefined) putBudget(body, config, budget, isAdaptive, dropped);
  if (thinking.includeThoughts === true) showThoughts(body, isAdaptive, dropped);
}

function putBudget(
  body: AnthropicBody,
  config: GenerationConfig,
  budget: number,
  isAdaptive: boolean,
  dropped: string[],
): void {
  if (budget === 0) body.thinking = { type: "disabled" };
  else if (budget === -1 && isAdaptive) body.thinking = { type: "adaptive" };
  else if (isAdaptive || budget < THINKING_TOKENS_MIN) dropped.push("thinking_budget");
  else {
    body.thinking = { type: "enabled", budget_tokens: budget };
    if (config.maxOutputTokens === undefined) body.max_tokens += budget;
  }
}

/** Newer models return a summary of their thoughts on request. */
function showThoughts(body: AnthropicBody, isAdaptive: boolean, dropped: string[]): void {
  if (body.thinking === undefined && isAdaptive) body.thinking = { type: "adaptive" };
  if (body.thinking === undefined || body.thinking.type === "disabled") dropped.push("include_thoughts");
  else if (isAdaptive) body.thinking.display = "summarized";
}
