/**
 * The call of a language model, as the AI SDK makes it: the members that versions 2, 3 and 4 of its specification have, and what only
 * one of them has marked so. Written by structure, so that nothing of the AI SDK is loaded.
 *
 * Source: `LanguageModelV2CallOptions`, `LanguageModelV3CallOptions` (@ai-sdk/provider 3.0.19) and `LanguageModelV4CallOptions` (4.0.38).
 */
import type { Json } from "../work/json.ts";

/** The version of the specification that a model object has. */
export type ModelVersion = "v2" | "v3" | "v4";

/** By provider: what only that one understands. */
export type ProviderSettingsOfCall = Record<string, Record<string, unknown>>;

/** The bytes of a file: base64 or bytes, or where it is. Version 4 says which in `type`. */
export type FileBytes =
  | string
  | Uint8Array
  | URL
  | { type: "data"; data: string | Uint8Array }
  | { type: "url"; url: URL }
  | { type: "text"; text: string }
  | { type: "reference"; reference: Record<string, string> };

/** A part of a message, any of them. */
export interface MessagePart {
  type: string;
  text?: string;
  /** Of a file. */
  data?: FileBytes;
  mediaType?: string;
  filename?: string | undefined;
  /** Of a tool call or its result. */
  toolCallId?: string;
  toolName?: string;
  input?: unknown;
  output?: ToolOutput;
  providerOptions?: ProviderSettingsOfCall | undefined;
}

/** What a tool returned. */
export interface ToolOutput {
  type: string;
  value?: unknown;
  reason?: string | undefined;
}

/** A message of the prompt. */
export interface PromptMessage {
  role: "system" | "user" | "assistant" | "tool";
  /** A text of the system, else parts. */
  content: string | MessagePart[];
}

/** A tool: a function of the caller, or one of a provider (`provider`; in version 2 `provider-defined`). */
export interface CallTool {
  type: string;
  name: string;
  description?: string | undefined;
  inputSchema?: unknown;
  strict?: boolean | undefined;
}

/** One call. */
export interface ModelCall {
  prompt: PromptMessage[];
  maxOutputTokens?: number | undefined;
  temperature?: number | undefined;
  stopSequences?: string[] | undefined;
  topP?: number | undefined;
  topK?: number | undefined;
  presencePenalty?: number | undefined;
  frequencyPenalty?: number | undefined;
  seed?: number | undefined;
  responseFormat?: AnswerFormat | undefined;
  tools?: CallTool[] | undefined;
  toolChoice?: { type: "auto" | "none" | "required" } | { type: "tool"; toolName: string } | undefined;
  abortSignal?: AbortSignal | undefined;
  headers?: Record<string, string | undefined> | undefined;
  /** Version 4: the effort; `provider-default` says nothing. */
  reasoning?: string | undefined;
  providerOptions?: ProviderSettingsOfCall | undefined;
}

/** What the answer has to be. */
export type AnswerFormat =
  | { type: "text" }
  | { type: "json"; schema?: unknown; name?: string | undefined; description?: string | undefined };

/** What was left out of a call, in perigee's own words; each version has its own form of it. */
export type CallWarning =
  | { readonly about: "setting" | "feature"; readonly name: string; readonly details?: string }
  | { readonly about: "other"; readonly message: string };

/** A record of JSON that is being made. */
export type Draft = Record<string, Json>;
