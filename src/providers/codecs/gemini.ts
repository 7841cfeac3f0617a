/**
 * The codec of Gemini's generateContent (`POST {base}/{version}/models/{model}:generateContent`).
 * Source: @google/genai 2.32 and ai.google.dev/api. The version is `v1beta` by default.
 *
 * perigee's own layout is Gemini's, so all of it is sent as it is. Reading an answer by `finishReason`:
 *
 *   STOP (or none, or unknown)                     text or tool calls -> success; none -> ambiguous `empty_output`
 *   MAX_TOKENS                                     the same, marked `length`; none -> `empty_output`
 *   SAFETY, RECITATION, BLOCKLIST, IMAGE_*, ...    the same, marked; none -> permanent `filtered`, and so is a blocked
 *                                                  prompt (`promptFeedback`)
 *   MALFORMED_FUNCTION_CALL, ..._TOOL_CALL(S)      permanent `unsupported_request`
 *   OTHER, MALFORMED_RESPONSE, CONTINUATION, ...   ambiguous: the text is not whole
 */
import type { Usage } from "../../work/outcome.ts";
import type { GenerationConfig, JsonValue, ModelRequest } from "../../work/request.ts";
import { modelPath, versionedPath, wireAddress } from "../address.ts";
import { geminiMembers } from "../answer_members.ts";
import {
  brokenCall,
  brokenOff,
  cutOff,
  ended,
  filtered,
  type ReadAnswer,
  severalAnswers,
} from "../endings.ts";
import { geminiEmbeddings } from "../endpoints/gemini_embeddings.ts";
import { errorFacts } from "../error_body.ts";
import { encoded, isHtml, translated } from "../exchange.ts";
import {
  allByIndex,
  answerJson,
  arrayOf,
  firstByIndex,
  nameOf,
  objectOf,
  stringOf,
  type Unchecked,
} from "../json.ts";
import type { Decoded, Provider, ProviderSettings, WireAnswer, WireHead } from "../provider.ts";
import { itemFailure, refusalInside, refusalOf } from "../refusals.ts";
import { geminiUsage } from "../usage.ts";
import { type GeminiPart, type GeminiTools, geminiParts, putGeminiTools } from "./gemini_content.ts";
import { Writing } from "./writing.ts";

/** The version in the path when the settings do not name one. */
export const GEMINI_VERSION = "v1beta";

/** What this codec writes; its parts are assignable to the SDK's `Content` and `GenerationConfig`. */
export interface GeminiBody extends GeminiTools {
  contents: GeminiContent[];
  systemInstruction?: { parts: { text: string }[] };
  generationConfig?: GeminiConfig;
}

type GeminiContent = { role: "user" | "model"; parts: GeminiPart[] };

/** Gemini's generation settings as sent. */
export interface GeminiConfig {
  temperature?: number;
  topP?: number;
  topK?: number;
  maxOutputTokens?: number;
  stopSequences?: string[];
  seed?: number;
  presencePenalty?: number;
  frequencyPenalty?: number;
  responseMimeType?: string;
  responseSchema?: JsonValue;
  responseJsonSchema?: JsonValue;
  responseLogprobs?: boolean;
  logprobs?: number;
  candidateCount?: number;
  thinkingConfig?: GeminiThinking;
  mediaResolution?: string;
}

type GeminiThinking = { thinkingBudget?: number; thinkingLevel?: string; includeThoughts?: boolean };

/** A codec for Gemini's generateContent. */
export function geminiProvider(settings: ProviderSettings): Provider {
  const address = wireAddress(settings, settings.key === undefined ? {} : { "x-goog-api-key": settings.key });
  const base = versionedPath(address.path, settings.apiVersion ?? GEMINI_VERSION);
  const headOf =
    (method: string) =>
    (model: string): WireHead => ({
      origin: address.origin,
      path: `${base}/${resource(model)}:${method}${address.search}`,
      headers: address.headers,
    });
  const embeddings = geminiEmbeddings(settings, headOf("batchEmbedContents"), (model) =>
    model.startsWith("models/") ? model : `models/${model}`,
  );
  return {
    settings,
    endpoint: (kind) => (kind === "embedding" ? embeddings : undefined),
    head: headOf("generateContent"),
    encode: (request, model, isCheckOnly) => {
      const read = translated(request, settings.name);
      if ("ok" in read) return read;
      if (isTwofold(request.config)) read.dropped.push("thinking_budget");
      const writing = new Writing(request, settings.name, read.dropped);
      const body = geminiBody(request, writing);
      if (writing.refused !== undefined)
        return { ok: false, code: "unsupported_request", message: writing.refused };
      const target = { settings, model, inserts: writing.inserts };
      const seedPlace = { name: "seed", depth: 2 } as const;
      return encoded(body, request, read.dropped, target, seedPlace, isCheckOnly);
    },
    decode: (answer) => decode(answer, settings.name),
    limits: () => undefined,
  };
}

/** `models/<name>`, or the collection that the name begins with. */
function resource(model: string): string {
  const [, collection = "models", name = model] = /^(models|tunedModels)\/(.+)$/s.exec(model) ?? [];
  return `${collection}/${modelPath(name)}`;
}

/** The body for a request. An exact seed is not in it: see `withDigits`, for which the settings are last. */
function geminiBody(request: ModelRequest, writing: Writing): GeminiBody {
  const body: GeminiBody = {
    contents: request.turns.map((turn) => ({ role: turn.role, parts: geminiParts(turn.parts, writing) })),
  };
  putGeminiTools(body, request, writing);
  if (request.system.length > 0) body.systemInstruction = { parts: request.system.map((text) => ({ text })) };
  const { seed, stopSequences, responseSchema, thinkingConfig, ...config } = request.config;
  const settings: GeminiConfig = { ...config };
  if (thinkingConfig !== undefined) settings.thinkingConfig = thinkingOf(thinkingConfig);
  if (stopSequences !== undefined) settings.stopSequences = [...stopSequences];
  if (typeof seed === "number") settings.seed = seed;
  // The two spellings exclude each other, and both demand the mime type.
  if (responseSchema !== undefined && config.responseJsonSchema === undefined) {
    settings.responseSchema = responseSchema;
  }
  if (settings.responseSchema !== undefined || settings.responseJsonSchema !== undefined) {
    settings.responseMimeType ??= "application/json";
  }
  if (settings.logprobs !== undefined) settings.responseLogprobs = true; // demanded beside it
  if (seed !== undefined || Object.keys(settings).length > 0) body.generationConfig = settings;
  return body;
}

/** No thoughts, and so many: one of them would be left out. */
function isTwofold({ thinkingConfig: thinking }: GenerationConfig): boolean {
  return thinking?.thinkingLevel?.toUpperCase() === "NONE" && (thinking.thinkingBudget ?? 0) !== 0;
}

/** Levels are an enum in capitals; `none`, of OpenAI's layout, is a budget of nothing. */
function thinkingOf(given: NonNullable<GenerationConfig["thinkingConfig"]>): GeminiThinking {
  const { thinkingLevel, ...thinking } = given;
  if (thinkingLevel === undefined) return thinking;
  const level = thinkingLevel.toUpperCase();
  return level === "NONE" ? { ...thinking, thinkingBudget: 0 } : { ...thinking, thinkingLevel: level };
}

function decode(answer: WireAnswer, name: string): Decoded {
  if (answer.status < 200 || answer.status > 299) return refusalOf(name, answer);
  const value = isHtml(answer) ? undefined : answerJson(answer);
  const body = objectOf(value) ?? objectOf(arrayOf(value)?.[0]);
  if (body === undefined)
    return itemFailure("ambiguous", "invalid_response", `${name} answered no JSON object`);
  const usage = geminiUsage(body["usageMetadata"]);
  const error = body["error"] ?? undefined;
  if (error !== undefined) return refusalInside(name, answer, errorFacts(error), usage);
  const candidates = arrayOf(body["candidates"]) ?? [];
  const candidate = objectOf(firstByIndex(candidates));
  if (candidate === undefined) return withoutCandidate(name, body, usage);
  const facts = {
    name,
    usage,
    tier: nameOf(answer.headers["x-gemini-service-tier"]),
    model: nameOf(body["modelVersion"]),
    requestId: nameOf(answer.headers["x-request-id"] ?? body["responseId"]),
  };
  const first = decodeCandidate(candidate, facts);
  if (candidates.length < 2) return first;
  const [, ...others] = allByIndex(candidates);
  return severalAnswers([first, ...others.map((one) => decodeCandidate(objectOf(one) ?? {}, facts))]);
}

function decodeCandidate(candidate: Unchecked, facts: Omit<ReadAnswer, "text" | "members">): Decoded {
  const { name, usage, tier, model, requestId } = facts;
  const text = textOf(candidate["content"]);
  const members = geminiMembers(candidate);
  return outcomeOf(candidate["finishReason"], { name, text, members, usage, tier, model, requestId });
}

function withoutCandidate(name: string, body: Unchecked, usage: Usage | undefined): Decoded {
  if (stringOf(objectOf(body["promptFeedback"])?.["blockReason"]) !== undefined) {
    return itemFailure("permanent", "filtered", `${name} blocked the prompt`, usage);
  }
  if (usage === undefined && body["candidates"] === undefined) {
    return itemFailure("ambiguous", "invalid_response", `${name} answered without candidates`);
  }
  return itemFailure("ambiguous", "empty_output", `${name} answered without text`, usage);
}

/** Reasons of an end that a filter made. */
export const FILTERED: ReadonlySet<unknown> = new Set([
  "SAFETY",
  "RECITATION",
  "LANGUAGE",
  "BLOCKLIST",
  "PROHIBITED_CONTENT",
  "SPII",
  "IMAGE_SAFETY",
  "IMAGE_PROHIBITED_CONTENT",
  "IMAGE_RECITATION",
  "IMAGE_OTHER",
  "NO_IMAGE",
]);
const TOOLS: ReadonlySet<unknown> = new Set([
  "MALFORMED_FUNCTION_CALL",
  "UNEXPECTED_TOOL_CALL",
  "TOO_MANY_TOOL_CALLS",
]);
const BROKEN: ReadonlySet<unknown> = new Set([
  "OTHER",
  "MALFORMED_RESPONSE",
  "FINISH_REASON_UNSPECIFIED",
  "CONTINUATION",
]);

function outcomeOf(reason: unknown, answer: ReadAnswer): Decoded {
  if (reason === "MAX_TOKENS") return cutOff(answer);
  if (FILTERED.has(reason)) return filtered(answer);
  if (TOOLS.has(reason)) return brokenCall(answer);
  if (BROKEN.has(reason)) return brokenOff(answer);
  return ended(answer);
}

/** The parts' texts joined, without thoughts. */
function textOf(content: unknown): string {
  let text = "";
  for (const value of arrayOf(objectOf(content)?.["parts"]) ?? []) {
    const part = objectOf(value);
    if (part?.["thought"] !== true) text += stringOf(part?.["text"]) ?? "";
  }
  return text;
}
