/**
 * A model request in perigee's own neutral shape: what every input layout is read into and every provider codec
 * writes from. It follows the interface's layout (section 2.5, which is Gemini's), with one spelling per field.
 */
import type { Json as JsonValue } from "./json.ts";

export type { JsonValue };

/** One turn of the conversation. Several parts are those of one message; their borders are kept. */
export interface Turn {
  readonly role: "user" | "model";
  /** Most turns are one text. Results of tools are parts of a turn of the user. */
  readonly parts: readonly TurnPart[];
}

/** What a turn consists of. A plain string is a text. */
export type TurnPart = string | SignedText | MediaPart | ToolCallPart | ToolResultPart;

/** A text of Gemini's with more than its words. */
export interface SignedText {
  readonly kind: "text";
  readonly text: string;
  /** Gemini's own; it may demand it back. */
  readonly thoughtSignature?: string;
  /** The text is a thought of the model, and not part of its answer. */
  readonly isThought?: true;
}

/** What kind of medium it is; it follows from the MIME type where that is known. */
export type MediaType = "image" | "document" | "audio" | "video";

/** Where a medium is. The last three are read when the request is sent. */
export type MediaSource =
  /** The string that was parsed, or a slice of it: the text is in memory once. */
  | { readonly base64: string }
  /** Fetched by the provider: `https://`, `http://`, `gs://`, or the address of a file at Gemini. */
  | { readonly url: string }
  /** A file at the provider, by its id there. */
  | { readonly providerFile: string }
  /** A local file, relative to the folder of the input. */
  | { readonly path: string }
  /** A file of perigee's store. */
  | { readonly fileId: string }
  /** `s3://bucket/key`. */
  | { readonly s3: string };

/** An image, a document, audio or video. */
export interface MediaPart {
  readonly kind: "media";
  readonly type: MediaType;
  /** `image/png`; absent only for addresses and files at the provider. */
  readonly mimeType?: string;
  readonly fileName?: string;
  /** OpenAI's: `auto`, `low`, `high`, `original`. */
  readonly detail?: string;
  /** Gemini's: `MEDIA_RESOLUTION_LOW`, `..._MEDIUM`, `..._HIGH`, `..._ULTRA_HIGH`. */
  readonly mediaResolution?: string;
  /** Gemini's, unchanged. */
  readonly videoMetadata?: JsonValue;
  readonly source: MediaSource;
}

/** A call of a function by the model. */
export interface ToolCallPart {
  readonly kind: "tool_call";
  /** Absent where the provider that made it has no ids (Gemini). */
  readonly id?: string;
  readonly name: string;
  readonly arguments: Readonly<Record<string, JsonValue>>;
  /** Gemini's own, which it demands back with the call. */
  readonly thoughtSignature?: string;
  /** Claude's thoughts before the call, which it demands back while it thinks: blocks, unchanged. */
  readonly thinkingBlocks?: readonly JsonValue[];
}

/** What a function returned. */
export interface ToolResultPart {
  readonly kind: "tool_result";
  /** Of the call. At least one of `id` and `name` is present. */
  readonly id?: string;
  /** Of the function. */
  readonly name?: string;
  /** Texts and media, or an object as Gemini has it. */
  readonly content: readonly (string | MediaPart)[] | Readonly<Record<string, JsonValue>>;
  /** Beside the content, which may refer to them by their file names (Gemini's `functionResponse.parts`). */
  readonly media?: readonly MediaPart[];
  readonly isError?: true;
}

/** A function that the model may call. */
export interface FunctionTool {
  readonly name: string;
  readonly description?: string;
  /** JSON Schema, unchanged; absent for a function without parameters. */
  readonly parametersJsonSchema?: JsonValue;
  /** Gemini's subset of OpenAPI (types in capitals), unchanged. At most one of the two is present. */
  readonly parameters?: JsonValue;
  /** Whether the arguments must follow the schema. */
  readonly strict?: boolean;
}

/** The texts among some parts; the same list where all of them are. */
export function textsOf(parts: readonly TurnPart[]): readonly string[] {
  if (hasOnlyTexts(parts)) return parts;
  return parts.flatMap((part) => {
    if (typeof part === "string") return [part];
    return part.kind === "text" ? [part.text] : [];
  });
}

/** Whether all parts are plain texts, as those of most turns are. */
export function hasOnlyTexts(parts: readonly TurnPart[]): parts is readonly string[] {
  for (const part of parts) if (typeof part !== "string") return false; // hot: once or twice a request
  return true;
}

/** Which functions the model must or may call. */
export interface ToolChoice {
  /** `validated` is Gemini's: as `auto`, with arguments that follow the schemas. */
  readonly mode: "auto" | "any" | "none" | "validated";
  /** Only these of the functions; absent for all. Never empty. */
  readonly names?: readonly string[];
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
  /** So many answers, 2 to 8; absent for one. */
  readonly candidateCount?: number;
  readonly thinkingConfig?: {
    readonly thinkingBudget?: number;
    readonly thinkingLevel?: string;
    readonly includeThoughts?: boolean;
  };
  /** Of media that say nothing themselves, as Gemini names levels: `MEDIA_RESOLUTION_LOW`. */
  readonly mediaResolution?: string;
}

/** What a request asks for, besides the turns of a chat. */
export const ENDPOINT_KINDS = ["embedding", "response", "completion", "moderation"] as const;

/** The kind of a request for another endpoint than a chat's. */
export type EndpointKind = (typeof ENDPOINT_KINDS)[number];

/** Whether answers to items of a kind have no output tokens; undefined: chats. */
export function hasNoOutput(kind: EndpointKind | undefined): boolean {
  return kind === "embedding" || kind === "moderation";
}

/** A request for another endpoint than a chat's. */
export interface EndpointRequest {
  readonly kind: EndpointKind;
  /** As OpenAI has it for that endpoint, unchanged, without its model. */
  readonly body: Readonly<Record<string, JsonValue>>;
  /** Its texts, in order, to be counted. */
  readonly texts: readonly string[];
  /** Tokens that are passed as numbers instead of texts. */
  readonly tokenIds: number;
}

/** One request, ready to be counted and encoded. */
export interface ModelRequest {
  /** Texts of the system instruction, in order; empty without one. */
  readonly system: readonly string[];
  readonly turns: readonly Turn[];
  readonly config: GenerationConfig;
  /** Functions; absent without any. */
  readonly tools?: readonly FunctionTool[];
  readonly toolChoice?: ToolChoice;
  /** Whether the model may call several functions at once; absent: the provider's default. */
  readonly parallelToolCalls?: boolean;
  /** Gemini's, unchanged. */
  readonly safetySettings?: readonly JsonValue[];
  /** The name of a cached content at Gemini. */
  readonly cachedContent?: string;
  /**
   * The unchanged body of an OpenAI batch line, when the item has that layout. A provider that speaks
   * OpenAI's protocol sends it as it is with its own `model`; all others use the fields above.
   */
  readonly openaiBody?: Readonly<Record<string, JsonValue>>;
  /** Of another endpoint: the fields above are empty then. A codec is for one endpoint (`Provider.endpoint`). */
  readonly endpoint?: EndpointRequest;
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
   * Names of members of `openaiBody` that the fields above do not hold. Without `openaiBody`: what the request had and the
   * fields above do not hold.
   */
  readonly unknownFields: readonly string[];
  /**
   * The first place in `openaiBody` that the fields above cannot hold, such as `messages[1].content[0].video_url`, or a
   * sentence that names it: a provider of another protocol refuses the request.
   */
  readonly unheld?: string;
  /** Names of members inside the messages of `openaiBody` that the fields above do not hold, and that change no answer. */
  readonly leftOut?: readonly string[];
  /** Arguments of calls, which OpenAI's layout has as text, hold numbers that are marked (`jsonl/numbers.ts`). */
  readonly hasExactNumbers?: true;
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
