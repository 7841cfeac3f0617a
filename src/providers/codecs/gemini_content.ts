/**
 * Turns, functions and their choice as Gemini's generateContent has them. Source: @google/genai 2.32.
 *
 *   media      `inlineData`, or `fileData` for https://, gs:// and files of its own
 *   call       `functionCall` with the signature of the thought before it
 *   result     `functionResponse`, in which a text is `{ output }` and an error `{ error }`
 *
 * Ids of calls are sent as they are, and none is made: Gemini goes by names and order.
 */
import {
  type FunctionTool,
  hasOnlyTexts,
  type JsonValue,
  type MediaPart,
  type ModelRequest,
  type ToolChoice,
  type ToolResultPart,
  type TurnPart,
} from "../../work/request.ts";
import { base64Of } from "../inserts.ts";
import type { Writing } from "./writing.ts";

/** A part as sent; assignable to the SDK's `Part`. */
export type GeminiPart =
  | { text: string; thought?: true; thoughtSignature?: string }
  | ({
      mediaResolution?: { level: string };
      videoMetadata?: JsonValue;
    } & (
      | { inlineData: { mimeType: string; data: string } }
      | { fileData: { mimeType?: string; fileUri: string } }
    ))
  | { functionCall: { id?: string; name: string; args: Record<string, unknown> }; thoughtSignature?: string }
  | { functionResponse: { id?: string; name: string; response: Record<string, unknown> } };

/** Functions, their choice and what only Gemini has, as sent. */
export interface GeminiTools {
  tools?: {
    functionDeclarations: {
      name: string;
      description?: string;
      parameters?: JsonValue;
      parametersJsonSchema?: JsonValue;
    }[];
  }[];
  toolConfig?: { functionCallingConfig: { mode: string; allowedFunctionNames?: string[] } };
  safetySettings?: JsonValue[];
  cachedContent?: string;
}

/** The parts of a turn. */
export function geminiParts(parts: readonly TurnPart[], writing: Writing): GeminiPart[] {
  if (hasOnlyTexts(parts)) return parts.map((text) => ({ text })); // most turns
  return parts.flatMap((part) => {
    if (typeof part === "string") return [{ text: part }];
    if (part.kind === "text") {
      const { text, isThought, thoughtSignature } = part;
      return [
        { text, ...(isThought === true ? { thought: true as const } : {}), ...signed(thoughtSignature) },
      ];
    }
    if (part.kind === "media") return [mediumOf(part, writing)];
    if (part.kind === "tool_result") return resultOf(part, writing);
    if (part.thinkingBlocks !== undefined) writing.drop("thinking_blocks");
    const call = { ...withId(part.id), name: part.name, args: part.arguments };
    return [{ functionCall: call, ...signed(part.thoughtSignature) }];
  });
}

function withId(id: string | undefined): { id?: string } {
  return id === undefined ? {} : { id };
}

function signed(thoughtSignature: string | undefined): { thoughtSignature?: string } {
  return thoughtSignature === undefined ? {} : { thoughtSignature };
}

function mediumOf(part: MediaPart, writing: Writing): GeminiPart {
  const { source, mimeType, mediaResolution, videoMetadata, detail, fileName } = part;
  if (detail !== undefined && detail !== "auto") writing.drop("detail");
  if (fileName !== undefined) writing.drop("file_name");
  const beside = {
    ...(mediaResolution === undefined ? {} : { mediaResolution: { level: mediaResolution } }),
    ...(videoMetadata === undefined ? {} : { videoMetadata }),
  };
  if ("url" in source)
    return { fileData: { ...(mimeType === undefined ? {} : { mimeType }), fileUri: source.url }, ...beside };
  const data = base64Of(part, writing.inserts) ?? "";
  return { inlineData: { mimeType: mimeType ?? "", data }, ...beside };
}

/** Media are parts beside the result. */
function resultOf(part: ToolResultPart, writing: Writing): GeminiPart[] {
  const name = part.name ?? writing.pairOf(part).name;
  const head = { ...withId(part.id), name };
  const { content, isError } = part;
  if (!Array.isArray(content))
    return [{ functionResponse: { ...head, response: content as Record<string, unknown> } }];
  const texts: string[] = [];
  const media: GeminiPart[] = [];
  for (const one of content as readonly (string | MediaPart)[]) {
    if (typeof one === "string") texts.push(one);
    else media.push(mediumOf(one, writing));
  }
  const response = { [isError === true ? "error" : "output"]: texts.join("") };
  return [{ functionResponse: { ...head, response } }, ...media];
}

/** Puts functions, their choice and what only Gemini has into a body. */
export function putGeminiTools(body: GeminiTools, request: ModelRequest, writing: Writing): void {
  const { tools, toolChoice, parallelToolCalls, safetySettings, cachedContent } = request;
  if (tools !== undefined)
    body.tools = [{ functionDeclarations: tools.map((tool) => declarationOf(tool, writing)) }];
  if (toolChoice !== undefined) body.toolConfig = { functionCallingConfig: configOf(toolChoice) };
  if (parallelToolCalls !== undefined) writing.drop("parallel_tool_calls");
  if (safetySettings !== undefined) body.safetySettings = [...safetySettings];
  if (cachedContent !== undefined) body.cachedContent = cachedContent;
}

function declarationOf({ strict, ...declaration }: FunctionTool, writing: Writing) {
  if (strict === true) writing.drop("strict");
  return declaration;
}

/** Names are allowed only where a call is demanded or validated. */
function configOf({ mode, names }: ToolChoice): { mode: string; allowedFunctionNames?: string[] } {
  if (names === undefined) return { mode: mode.toUpperCase() };
  return { mode: (mode === "auto" ? "validated" : mode).toUpperCase(), allowedFunctionNames: [...names] };
}
