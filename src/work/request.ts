/**
 * A model request in perigee's own neutral shape: what every input layout is read into and every provider codec
 * writes from. It follows the interface's layout (section 2.5, which is Gemini's), with one spelling per field.
 */
import type { Json as JsonValue } from "./json.ts";

export type { JsonValue };

/** One turn of the conversation. Several texts are the parts of one message; their borders are kept. */
export interface Turn {
  readonly role: "user" | "model";
  readonly texts: readonly string[];
}

/**
 * A JSON number kept as its original digits because a double cannot hold it (integers beyond 2^53).
 * Codecs must write the digits, not a string: see `jsonl/layout` for the marker that survives `JSON.stringify`.
 */
export type ExactNumber = number | { readonly digits: string };

/** The generation settings that perigee understands; absent means the provider's default. */
export interface GenerationConfig {
  readonly temperature?: number;
  readonly topP?: number;
  readonly topK?: number;
  /** Output tokens at most, reasoning included. */
  readonly maxOutputTokens?: number;
  readonly stopSequences?: readonly string[];
  readonly seed?: ExactNumber;
  readonly presencePenalty?: number;
  readonly frequencyPenalty?: number;
  readonly responseMimeType?: string;
  /** Gemini's subset of OpenAPI (types in capitals), unchanged. */
  readonly responseSchema?: JsonValue;
  /** Plain JSON Schema, unchanged. */
  readonly responseJsonSchema?: JsonValue;
  /** Whether the answer has the log probabilities of its tokens. */
  readonly responseLogprobs?: true;
  /** For so many alternatives of each token, 0 to 20. */
  readonly logprobs?: number;
  readonly thinkingConfig?: {
    readonly thinkingBudget?: number;
    readonly thinkingLevel?: string;
    readonly includeThoughts?: boolean;
  };
}

/** One request, ready to be counted and encoded. */
export interface ModelRequest {
  /** Texts of the system instruction, in order; empty without one. */
  readonly system: readonly string[];
  readonly turns: readonly Turn[];
  readonly config: GenerationConfig;
  /**
   * The unchanged body of an OpenAI batch line, when the item has that layout. A provider that speaks
   * OpenAI's protocol sends it as it is with its own `model`; all others use the fields above.
   */
  readonly openaiBody?: Readonly<Record<string, JsonValue>>;
  /**
   * What answers must fit, and whether the provider is asked for it: the item's own, or null for one that is not to be checked. Absent: as
   * the work says.
   */
  readonly schema?: JsonValue;
  /** Whether the answer is checked here, so that a provider which does not take its schema may answer all the same. */
  readonly isChecked?: true;
  /** Whether the output limit must hold for sure, under any name of the provider: a cost cap counts on it. */
  readonly isLimitSure?: true;
  /**
   * Names of members of `openaiBody` that the fields above do not hold; `messages` when a message has more than text, or a
   * system message follows a turn. Without `openaiBody`: what the request had and the fields above do not hold.
   */
  readonly unknownFields: readonly string[];
}

/** A model as written by users: `<provider>:<name>`, split at the first colon only (names may hold colons). */
export interface ModelId {
  readonly provider: string;
  readonly name: string;
}

/** Splits `<provider>:<name>`; undefined when either side is empty or there is no colon. */
export function parseModelId(text: string): ModelId | undefined {
  const colon = text.indexOf(":");
  if (colon <= 0 || colon === text.length - 1) return undefined;
  return { provider: text.slice(0, colon), name: text.slice(colon + 1) };
}
