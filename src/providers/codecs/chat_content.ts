/**
 * Turns, functions and their choice as OpenAI's chat completions have them. Source: OpenAI's API file, openai 6.
 *
 *   image      `image_url`, with base64 as a `data:` address           video   refused
 *   audio      `input_audio`, WAV and MP3, not by address
 *   document   `file` with `file_data`, not by address
 *   call       `tool_calls` of the assistant's message
 *   result     a message of the role `tool`, before what else is in its turn
 */
import type {
  FunctionTool,
  JsonValue,
  MediaPart,
  ModelRequest,
  ToolCallPart,
  ToolChoice,
  ToolResultPart,
  Turn,
} from "../../work/request.ts";
import { base64Of } from "../inserts.ts";
import { jsonSchemaOf } from "../schema.ts";
import type { Writing } from "./writing.ts";

type TextPart = { type: "text"; text: string };
type Detail = "auto" | "low" | "high";
type MediumPart =
  | { type: "image_url"; image_url: { url: string; detail?: Detail } }
  | { type: "input_audio"; input_audio: { data: string; format: "wav" | "mp3" } }
  | { type: "file"; file: { filename: string; file_data: string } };
type Call = { id: string; type: "function"; function: { name: string; arguments: string } };

/** A message as sent. */
export type ChatMessage =
  | { role: "system" | "developer"; content: string | TextPart[] }
  | { role: "user"; content: string | (TextPart | MediumPart)[] }
  | { role: "assistant"; content: string | TextPart[] | null; tool_calls?: Call[] }
  | { role: "tool"; tool_call_id: string; content: string | TextPart[] };

/** Functions and their choice as sent. */
export interface ChatTools {
  tools?: {
    type: "function";
    function: { name: string; description?: string; parameters?: Record<string, unknown>; strict?: boolean };
  }[];
  tool_choice?:
    | "auto"
    | "none"
    | "required"
    | { type: "function"; function: { name: string } }
    | {
        type: "allowed_tools";
        allowed_tools: { mode: "auto" | "required"; tools: Record<string, unknown>[] };
      };
  parallel_tool_calls?: boolean;
}

const FORMATS: ReadonlyMap<string, "wav" | "mp3"> = new Map([
  ["audio/wav", "wav"],
  ["audio/x-wav", "wav"],
  ["audio/wave", "wav"],
  ["audio/mp3", "mp3"],
  ["audio/mpeg", "mp3"],
]);
const DETAILS: ReadonlyMap<string, Detail> = new Map([
  ["MEDIA_RESOLUTION_LOW", "low"],
  ["MEDIA_RESOLUTION_HIGH", "high"],
]);

/** The messages of a turn that has more than texts. */
export function messagesOfTurn(turn: Turn, hasContentParts: boolean, writing: Writing): ChatMessage[] {
  const results: ChatMessage[] = [];
  const content: (TextPart | MediumPart)[] = [];
  const calls: Call[] = [];
  for (const part of turn.parts) {
    if (typeof part === "string") content.push({ type: "text", text: part });
    else if (part.kind === "tool_result") results.push(resultOf(part, hasContentParts, writing));
    else if (part.kind === "tool_call") calls.push(callOf(part, writing));
    else if (part.kind === "text") {
      if (part.isThought === true) writing.refuse(part, "cannot be sent thoughts of another model");
      if (part.thoughtSignature !== undefined) writing.drop("thought_signature");
      content.push({ type: "text", text: part.text });
    } else {
      if (turn.role === "model") writing.refuse(part, "takes media only in turns of the user");
      const medium = mediumOf(part, writing);
      if (medium !== undefined) content.push(medium);
    }
  }
  if (turn.role === "user")
    return content.length === 0
      ? results
      : [...results, { role: "user", content: joined(content, hasContentParts) }];
  const texts = joined(content, hasContentParts) as string | TextPart[]; // media are refused
  return [
    ...results,
    {
      role: "assistant",
      content: content.length === 0 ? null : texts,
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
    },
  ];
}

/** Texts as the server takes them; parts where there is more. */
function joined<P extends TextPart | MediumPart>(
  content: readonly P[],
  hasContentParts: boolean,
): string | P[] {
  const texts = content.map((part) => (part.type === "text" ? part.text : undefined));
  if (texts.includes(undefined) || (hasContentParts && texts.length > 1)) return [...content];
  return texts.join("");
}

function callOf(part: ToolCallPart, writing: Writing): Call {
  const { id, name } = writing.pairOf(part);
  if (part.thoughtSignature !== undefined) writing.drop("thought_signature");
  if (part.thinkingBlocks !== undefined) writing.drop("thinking_blocks");
  return { id, type: "function", function: { name, arguments: JSON.stringify(part.arguments) } };
}

function resultOf(part: ToolResultPart, hasContentParts: boolean, writing: Writing): ChatMessage {
  const { id } = writing.pairOf(part);
  if (part.isError === true) writing.drop("is_error"); // the text says so
  const { content, media = [] } = part;
  const list = Array.isArray(content)
    ? (content as readonly (string | MediaPart)[])
    : [JSON.stringify(content)];
  const texts: TextPart[] = [];
  for (const one of [...list, ...media]) {
    if (typeof one === "string") texts.push({ type: "text", text: one });
    else writing.refuse(one, "takes only text as the result of a tool");
  }
  return { role: "tool", tool_call_id: id, content: joined(texts, hasContentParts) };
}

function mediumOf(part: MediaPart, writing: Writing): MediumPart | undefined {
  const { type, source, mimeType = "" } = part;
  const url = "url" in source ? source.url : undefined;
  const refuse = (why: string): undefined => {
    writing.refuse(part, why);
    return undefined;
  };
  if (type === "video") return refuse("takes no video");
  if (url?.startsWith("gs://") === true) return refuse("fetches https:// addresses only");
  if (type === "image") return imageOf(part, url, writing);
  writing.dropDetails(part, { fileName: true });
  if (url !== undefined)
    return refuse(`takes ${type === "audio" ? "audio" : "documents"} only as content, not by address`);
  if (type === "audio") {
    const format = FORMATS.get(mimeType);
    if (format === undefined) return refuse(`takes WAV and MP3 audio, not ${mimeType}`);
    if (part.fileName !== undefined) writing.drop("file_name");
    return { type: "input_audio", input_audio: { data: base64Of(part, writing.inserts) ?? "", format } };
  }
  const data = `data:${mimeType};base64,${base64Of(part, writing.inserts) ?? ""}`;
  return { type: "file", file: { filename: part.fileName ?? nameOf(part), file_data: data } };
}

function imageOf(part: MediaPart, url: string | undefined, writing: Writing): MediumPart {
  const { detail, mediaResolution, mimeType } = part;
  const given = detail ?? (mediaResolution === undefined ? undefined : DETAILS.get(mediaResolution));
  const isLost = mediaResolution !== undefined && given === undefined;
  writing.dropDetails(part, isLost ? {} : { detail: true });
  const address = url ?? `data:${mimeType};base64,${base64Of(part, writing.inserts) ?? ""}`;
  return {
    type: "image_url",
    image_url: { url: address, ...(given === undefined ? {} : { detail: given as Detail }) },
  };
}

/** A file has a name there, by whose end the server knows what it is. */
function nameOf({ mimeType = "", source }: MediaPart): string {
  if ("path" in source) return source.path.slice(source.path.lastIndexOf("/") + 1);
  if ("s3" in source) return source.s3.slice(source.s3.lastIndexOf("/") + 1);
  const end =
    mimeType === "application/pdf" ? "pdf" : mimeType === "text/plain" ? "txt" : mimeType.split("/")[1];
  return `document.${end ?? "bin"}`;
}

/** Puts functions and their choice into a body; returns why they cannot be. */
export function putChatTools(
  body: ChatTools,
  { tools, toolChoice, parallelToolCalls }: ModelRequest,
  name: string,
): string | undefined {
  if (tools !== undefined) body.tools = tools.map(toolOf);
  if (parallelToolCalls !== undefined) body.parallel_tool_calls = parallelToolCalls;
  if (toolChoice === undefined) return undefined;
  if (toolChoice.mode === "validated") return `tool_choice: ${name} has no mode VALIDATED`;
  const isRestricted =
    toolChoice.names !== undefined && (toolChoice.names.length > 1 || toolChoice.mode !== "any");
  if (isRestricted && name !== "openai")
    return `tool_choice: ${name} can be restricted only to one function, which it must call`;
  body.tool_choice = choiceOf(toolChoice);
  return undefined;
}

function toolOf({ name, description, parameters, parametersJsonSchema, strict }: FunctionTool) {
  const schema = parametersJsonSchema ?? (parameters === undefined ? undefined : jsonSchemaOf(parameters));
  return {
    type: "function" as const,
    function: {
      name,
      ...(description === undefined ? {} : { description }),
      ...(schema === undefined ? {} : { parameters: schema as Record<string, JsonValue> }), // it was an object when it was read
      ...(strict === undefined ? {} : { strict }),
    },
  };
}

function choiceOf({ mode, names }: ToolChoice): NonNullable<ChatTools["tool_choice"]> {
  const word = mode === "any" ? "required" : mode === "none" ? "none" : "auto";
  if (names === undefined || mode === "none") return word;
  const [first = ""] = names;
  if (mode === "any" && names.length === 1) return { type: "function", function: { name: first } };
  const tools = names.map((name) => ({ type: "function", function: { name } }));
  return { type: "allowed_tools", allowed_tools: { mode: mode === "any" ? "required" : "auto", tools } };
}
