/**
 * Turns, functions and their choice as Anthropic's messages have them. Source: @anthropic-ai/sdk 1.11.
 *
 *   image      base64 or address; JPEG, PNG, GIF, WebP       audio, video   refused
 *   document   PDF as base64 or address; other texts as text
 *   call       `tool_use`, after the thoughts that came before it; ids of other characters get new ones
 *   result     `tool_result`, before all else in its turn, as the API demands
 */
import type {
  FunctionTool,
  JsonValue,
  MediaPart,
  ModelRequest,
  ToolChoice,
  ToolResultPart,
  Turn,
} from "../../work/request.ts";
import { base64Of, plainTextOf } from "../inserts.ts";
import { jsonSchemaOf } from "../schema.ts";
import type { Writing } from "./writing.ts";

/** A text as sent. */
export type TextBlock = { type: "text"; text: string };
type ImageType = "image/jpeg" | "image/png" | "image/gif" | "image/webp";
type ImageBlock = {
  type: "image";
  source: { type: "base64"; media_type: ImageType; data: string } | { type: "url"; url: string };
};
type DocumentBlock = {
  type: "document";
  source:
    | { type: "base64"; media_type: "application/pdf"; data: string }
    | { type: "text"; media_type: "text/plain"; data: string }
    | { type: "url"; url: string };
  title?: string;
};
type ResultBlock = {
  type: "tool_result";
  tool_use_id: string;
  content: string | (TextBlock | ImageBlock | DocumentBlock)[];
  is_error?: true;
};
type CallBlock = { type: "tool_use"; id: string; name: string; input: Readonly<Record<string, JsonValue>> };
/** A block of a message. Blocks of thoughts are passed on unchanged. */
export type MessageBlock = TextBlock | ImageBlock | DocumentBlock | ResultBlock | CallBlock;

/** Functions and their choice as sent. */
export interface AnthropicTools {
  tools?: {
    name: string;
    description?: string;
    input_schema: { type: "object"; [member: string]: unknown };
    strict?: boolean;
  }[];
  tool_choice?:
    | { type: "auto" | "any"; disable_parallel_tool_use?: true }
    | { type: "tool"; name: string; disable_parallel_tool_use?: true }
    | { type: "none" };
}

/** Ids that the API takes. */
export const TOOL_IDS: RegExp = /^[a-zA-Z0-9_-]+$/;
const IMAGES: ReadonlySet<string> = new Set(["image/jpeg", "image/png", "image/gif", "image/webp"]);

/** The content of a turn that has more than texts. */
export function blocksOf({ role, parts }: Turn, writing: Writing): MessageBlock[] {
  const results: MessageBlock[] = [];
  const thoughts: MessageBlock[] = [];
  const others: MessageBlock[] = [];
  for (const part of parts) {
    if (typeof part === "string") {
      if (part !== "") others.push({ type: "text", text: part }); // an empty one is refused beside other blocks
    } else if (part.kind === "tool_result") results.push(resultOf(part, writing));
    else if (part.kind === "text") {
      if (part.isThought === true) writing.refuse(part, "cannot be sent thoughts of another model");
      if (part.thoughtSignature !== undefined) writing.drop("thought_signature");
      others.push({ type: "text", text: part.text });
    } else if (part.kind === "media") {
      if (role === "model") writing.refuse(part, "takes media only in turns of the user");
      const block = mediumOf(part, writing);
      if (block !== undefined) others.push(block);
    } else {
      if (part.thoughtSignature !== undefined) writing.drop("thought_signature");
      if (part.thinkingBlocks !== undefined)
        thoughts.push(...(part.thinkingBlocks as readonly MessageBlock[])); // its own
      const { id, name } = writing.pairOf(part);
      others.push({ type: "tool_use", id, name, input: part.arguments });
    }
  }
  return [...results, ...thoughts, ...others];
}

function resultOf(part: ToolResultPart, writing: Writing): ResultBlock {
  const { id } = writing.pairOf(part);
  const { content, isError } = part;
  const blocks = isList(content) ? content.flatMap((one) => resultBlocks(one, writing)) : undefined;
  const [first] = blocks ?? [];
  const isText = blocks?.length === 1 && first?.type === "text";
  return {
    type: "tool_result",
    tool_use_id: id,
    content: blocks === undefined ? JSON.stringify(content) : isText ? first.text : blocks,
    ...(isError === true ? { is_error: true as const } : {}),
  };
}

function resultBlocks(
  part: string | MediaPart,
  writing: Writing,
): (TextBlock | ImageBlock | DocumentBlock)[] {
  if (typeof part === "string") return [{ type: "text", text: part }];
  const block = mediumOf(part, writing);
  return block === undefined ? [] : [block];
}

function isList(content: ToolResultPart["content"]): content is readonly (string | MediaPart)[] {
  return Array.isArray(content);
}

function mediumOf(part: MediaPart, writing: Writing): ImageBlock | DocumentBlock | undefined {
  const { type, source, mimeType, fileName } = part;
  const isDocument = type === "document";
  writing.dropDetails(part, isDocument ? { fileName: true } : {});
  const refuse = (why: string): undefined => {
    writing.refuse(part, why);
    return undefined;
  };
  if (type === "audio" || type === "video") return refuse(`takes no ${type}`);
  const url = "url" in source ? source.url : undefined;
  if (url?.startsWith("gs://") === true) return refuse("fetches https:// addresses only");
  const title = fileName === undefined ? {} : { title: fileName };
  if (!isDocument) {
    if (url !== undefined) return { type: "image", source: { type: "url", url } };
    if (!isImage(mimeType)) return refuse(`takes JPEG, PNG, GIF and WebP images, not ${mimeType}`);
    const data = base64Of(part, writing.inserts) ?? "";
    return { type: "image", source: { type: "base64", media_type: mimeType, data } };
  }
  const isPdf = (mimeType ?? "application/pdf") === "application/pdf";
  if (!isPdf && mimeType?.startsWith("text/") !== true)
    return refuse(`takes PDF and text documents, not ${mimeType}`);
  if (url !== undefined)
    return isPdf
      ? { type: "document", source: { type: "url", url }, ...title }
      : refuse("fetches only PDF documents");
  if (isPdf) {
    const data = base64Of(part, writing.inserts) ?? "";
    return { type: "document", source: { type: "base64", media_type: "application/pdf", data }, ...title };
  }
  const data = plainTextOf(part, writing.inserts) ?? "";
  return { type: "document", source: { type: "text", media_type: "text/plain", data }, ...title };
}

function isImage(mimeType: string | undefined): mimeType is ImageType {
  return mimeType !== undefined && IMAGES.has(mimeType);
}

/** Puts functions and their choice into a body; returns why they cannot be. */
export function putAnthropicTools(
  body: AnthropicTools,
  { tools, toolChoice, parallelToolCalls }: ModelRequest,
  { name, dropped }: { readonly name: string; readonly dropped: string[] },
): string | undefined {
  if (tools !== undefined) body.tools = tools.map(toolOf);
  const choice = toolChoice === undefined ? undefined : choiceOf(toolChoice);
  if (typeof choice === "string") return `tool_choice: ${name} ${choice}`;
  if (choice !== undefined) body.tool_choice = choice;
  if (parallelToolCalls === undefined) return undefined;
  const mode = body.tool_choice ?? { type: "auto" as const };
  if (tools === undefined || mode.type === "none") dropped.push("parallel_tool_calls");
  else if (!parallelToolCalls) body.tool_choice = { ...mode, disable_parallel_tool_use: true };
  return undefined;
}

function toolOf({ name, description, parameters, parametersJsonSchema, strict }: FunctionTool) {
  const schema = parametersJsonSchema ?? (parameters === undefined ? undefined : jsonSchemaOf(parameters));
  const given = (schema ?? { properties: {} }) as Record<string, unknown>; // checked to be an object when it was read
  return {
    name,
    ...(description === undefined ? {} : { description }),
    input_schema: { ...given, type: "object" as const },
    ...(strict === undefined ? {} : { strict }),
  };
}

function choiceOf({ mode, names = [] }: ToolChoice): NonNullable<AnthropicTools["tool_choice"]> | string {
  const [first, second] = names;
  if (mode === "validated") return "has no mode VALIDATED";
  if (first === undefined) return { type: mode };
  if (second !== undefined || mode !== "any")
    return "can be restricted only to one function, which it must call";
  return { type: "tool", name: first };
}
