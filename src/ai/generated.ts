/**
 * An answered object as the result of a call, in the words of each version of the specification.
 *
 *             finish reason         usage                                    a setting that was left out
 *   v2        "tool-calls"          inputTokens, outputTokens, ...           unsupported-setting
 *   v3, v4    { unified, raw }      inputTokens: { total, cacheRead, ... }   unsupported
 *
 * Source: the types `LanguageModelV2`, `LanguageModelV3` (@ai-sdk/provider 3.0.19) and `LanguageModelV4` (4.0.38).
 */
import type { LibraryObject } from "../engine/library.ts";
import { isObject, type JsonObject } from "../work/json.ts";
import type { CallWarning, ModelVersion } from "./model_call.ts";

/** A part of an answer. */
export type GeneratedPart =
  | { type: "reasoning"; text: string }
  | { type: "text"; text: string }
  | { type: "tool-call"; toolCallId: string; toolName: string; input: string };

type UnifiedFinish = "stop" | "length" | "content-filter" | "tool-calls" | "other";

/** Tokens as versions 3 and 4 have them. */
export interface SplitUsage {
  inputTokens: {
    total: number | undefined;
    noCache: number | undefined;
    cacheRead: number | undefined;
    cacheWrite: number | undefined;
  };
  outputTokens: { total: number | undefined; text: number | undefined; reasoning: number | undefined };
}

/** Tokens as version 2 has them. */
export interface FlatUsage {
  inputTokens: number | undefined;
  outputTokens: number | undefined;
  totalTokens: number | undefined;
  reasoningTokens: number | undefined;
  cachedInputTokens: number | undefined;
}

type OtherWarning = { type: "other"; message: string };
type SplitWarning = { type: "unsupported"; feature: string; details?: string } | OtherWarning;
type FlatWarning = { type: "unsupported-setting"; setting: string; details?: string } | OtherWarning;

/** What differs between the versions. */
interface Shapes {
  v2: { finish: UnifiedFinish; usage: FlatUsage; warning: FlatWarning };
  v3: {
    finish: { unified: UnifiedFinish; raw: string | undefined };
    usage: SplitUsage;
    warning: SplitWarning;
  };
  v4: Shapes["v3"];
}

/** Why an answer ended, in the form of a version. */
export type FinishOf<V extends ModelVersion> = Shapes[V]["finish"];
/** The usage of an answer, in the form of a version. */
export type UsageOf<V extends ModelVersion> = Shapes[V]["usage"];
/** A warning, in the form of a version. */
export type WarningOf<V extends ModelVersion> = Shapes[V]["warning"];

/** What perigee knows of an answer. */
export type CallFacts = Record<string, string | number | boolean | null>;

/** What a call resolves with. */
export interface Generated<V extends ModelVersion> {
  content: GeneratedPart[];
  finishReason: FinishOf<V>;
  usage: UsageOf<V>;
  /** Under `perigee`: `taskId`, `objectId`, `costUsd`, `attempts` and other facts of the answer. */
  providerMetadata: { perigee: CallFacts };
  request: { body: unknown };
  response: { id?: string; modelId?: string };
  warnings: WarningOf<V>[];
}

/** What was asked, and what was answered. */
export interface AnsweredCall {
  readonly taskId: string;
  readonly object: LibraryObject;
  readonly request: unknown;
  readonly warnings: readonly CallWarning[];
}

/** In the words of a version. */
export function generated<V extends ModelVersion>(
  version: V,
  { taskId, object, request, warnings }: AnsweredCall,
): Generated<V> {
  const all = [...warnings, ...allWarnings(object)];
  const isFlat = version === "v2";
  const { providerRequestId: id, model: modelId } = object;
  return {
    content: contentOf(object),
    finishReason: isFlat ? finishOf(object).unified : finishOf(object),
    usage: isFlat ? flatUsage(object) : splitUsage(object),
    providerMetadata: { perigee: factsOf(taskId, object) },
    request: { body: request },
    response: { ...(id === undefined ? {} : { id }), ...(modelId === undefined ? {} : { modelId }) },
    warnings: warningsOf(version, all),
  } as Generated<V>; // by the version, as `Shapes` says
}

function contentOf({ reasoning, output, refusal, toolCalls = [] }: LibraryObject): GeneratedPart[] {
  const parts: GeneratedPart[] = [];
  if (reasoning !== undefined) parts.push({ type: "reasoning", text: reasoning });
  const text = output?.text ?? "";
  if (text !== "") parts.push({ type: "text", text });
  else if (refusal !== undefined) parts.push({ type: "text", text: refusal });
  for (const call of toolCalls) {
    const called = isObject(call) && isObject(call["function"]) ? call["function"] : undefined;
    if (!isObject(call) || called === undefined) continue; // of another kind than functions, which no call asks for
    parts.push({
      type: "tool-call",
      toolCallId: textIn(call, "id"),
      toolName: textIn(called, "name"),
      input: textIn(called, "arguments"),
    });
  }
  return parts;
}

function textIn(object: JsonObject, name: string): string {
  const value = object[name];
  return typeof value === "string" ? value : "";
}

function finishOf({ finishReason }: LibraryObject): Shapes["v3"]["finish"] {
  switch (finishReason) {
    case "stop":
    case "length":
      return { unified: finishReason, raw: finishReason };
    case "tool_calls":
      return { unified: "tool-calls", raw: finishReason };
    case "content_filter":
    case "refusal":
      return { unified: "content-filter", raw: finishReason };
    default:
      return { unified: "other", raw: finishReason };
  }
}

function splitUsage({ usage }: LibraryObject): SplitUsage {
  const { inputTokens: total, cachedTokens, cacheWriteTokens, outputTokens, reasoningTokens } = usage;
  return {
    inputTokens: {
      total,
      noCache: total - (cachedTokens ?? 0) - (cacheWriteTokens ?? 0),
      cacheRead: cachedTokens,
      cacheWrite: cacheWriteTokens,
    },
    outputTokens: {
      total: outputTokens,
      text: outputTokens === undefined ? undefined : outputTokens - (reasoningTokens ?? 0),
      reasoning: reasoningTokens,
    },
  };
}

function flatUsage({ usage }: LibraryObject): FlatUsage {
  const { inputTokens, outputTokens, reasoningTokens, cachedTokens } = usage;
  return {
    inputTokens,
    outputTokens,
    totalTokens: inputTokens + (outputTokens ?? 0),
    reasoningTokens,
    cachedInputTokens: cachedTokens,
  };
}

function factsOf(taskId: string, object: LibraryObject): CallFacts {
  const { objectId, cost, attempts, latencyMs, model, refusal, late, warnings = [] } = object;
  const leftOut = warnings.flatMap((warning) => (warning.code === "dropped" ? [warning.setting] : []));
  const facts = {
    taskId,
    objectId,
    model,
    attempts,
    latencyMs,
    costUsd: cost?.billedUsd,
    ambiguousUsd: cost?.ambiguousUsd,
    tier: cost?.tier,
    refusal,
    late,
    leftOut: leftOut.length === 0 ? undefined : leftOut.join(", "),
  };
  return Object.fromEntries(
    Object.entries(facts).flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const])),
  );
}

/** What the engine left out of an item. */
export function allWarnings({ warnings = [] }: LibraryObject): CallWarning[] {
  return warnings.map(ownWarning);
}

/** In the words of a version. */
export function warningsOf<V extends ModelVersion>(
  version: V,
  warnings: readonly CallWarning[],
): WarningOf<V>[] {
  const shown = version === "v2" ? warnings.map(flatWarning) : warnings.map(splitWarning);
  return shown as WarningOf<V>[]; // by the version, as `Shapes` says
}

function ownWarning(warning: NonNullable<LibraryObject["warnings"]>[number]): CallWarning {
  if (warning.code === "dropped") return { about: "setting", name: warning.setting };
  return { about: "other", message: "half surrogate pairs in the prompt were sent as U+FFFD" };
}

function splitWarning(warning: CallWarning): SplitWarning {
  if (warning.about === "other") return { type: "other", message: warning.message };
  const { name: feature, details } = warning;
  return { type: "unsupported", feature, ...(details === undefined ? {} : { details }) };
}

function flatWarning(warning: CallWarning): FlatWarning {
  if (warning.about === "other") return { type: "other", message: warning.message };
  const { about, name, details } = warning;
  if (about === "feature")
    return { type: "other", message: `${name}: ${details ?? "this cannot be requested"}` };
  return { type: "unsupported-setting", setting: name, ...(details === undefined ? {} : { details }) };
}
