/**
 * Files of a prompt between the AI SDK and OpenAI's parts of a message.
 *
 *   image/*            image_url, as an address or a data URL
 *   audio/wav, /mpeg   input_audio, in base64
 *   application/pdf    file, as a data URL
 *   text/*             text
 *
 * Anything else is refused: it would reach no model.
 */
import { Buffer } from "node:buffer";
import type { Json } from "../work/json.ts";
import { ModelCallError } from "./call_error.ts";
import type { FileBytes, MessagePart } from "./model_call.ts";

const AUDIO_FORMATS: ReadonlyMap<string, string> = new Map([
  ["audio/wav", "wav"],
  ["audio/x-wav", "wav"],
  ["audio/mp3", "mp3"],
  ["audio/mpeg", "mp3"],
]);

/** A file as a part of a message in OpenAI's form. Throws a `ModelCallError` with the code `unsupported_request`. */
export function partOfFile({ data, mediaType = "", filename }: MessagePart, where: string): Json {
  const file = fileOf(data, where);
  if (mediaType.startsWith("image/")) {
    const type = mediaType === "image/*" ? "image/jpeg" : mediaType;
    return { type: "image_url", image_url: { url: file.url ?? dataUrl(type, file.base64) } };
  }
  if (mediaType.startsWith("text/") && file.base64 !== undefined)
    return { type: "text", text: Buffer.from(file.base64, "base64").toString() };
  if (file.base64 === undefined)
    throw unsupported(`${where}: only images are sent by their address, got one of ${mediaType}`);
  const format = AUDIO_FORMATS.get(mediaType);
  if (format !== undefined) return { type: "input_audio", input_audio: { data: file.base64, format } };
  if (mediaType === "application/pdf")
    return {
      type: "file",
      file: { filename: filename ?? "document.pdf", file_data: dataUrl(mediaType, file.base64) },
    };
  throw unsupported(`${where}: files of ${mediaType} cannot be sent; images, WAV, MP3, PDF and texts can`);
}

/** A part of a message in OpenAI's form as a file of the AI SDK; undefined for another part. `isTagged`: in the form of version 4. */
export function fileOfPart(part: Readonly<Record<string, Json>>, isTagged: boolean): MessagePart | undefined {
  const {
    image_url: image,
    input_audio: audio,
    file,
  } = part as Readonly<Record<string, Members | undefined>>;
  if (part["type"] === "image_url" && typeof image?.["url"] === "string")
    return fileAt(image["url"], "image/*", isTagged);
  if (part["type"] === "input_audio" && typeof audio?.["data"] === "string")
    return filePart(audio["data"], audio["format"] === "wav" ? "audio/wav" : "audio/mpeg", isTagged);
  if (part["type"] !== "file" || typeof file?.["file_data"] !== "string") return undefined;
  const found = fileAt(file["file_data"], "application/pdf", isTagged);
  return typeof file["filename"] === "string" ? { ...found, filename: file["filename"] } : found;
}

type Members = Readonly<Record<string, Json | undefined>>;

interface FoundFile {
  readonly url?: string;
  readonly base64?: string;
}

function fileOf(data: FileBytes | undefined, where: string): FoundFile {
  if (typeof data === "string") return /^https?:\/\//i.test(data) ? { url: data } : { base64: data };
  if (data instanceof URL) return urlOf(data);
  if (data instanceof Uint8Array) return { base64: base64Of(data) };
  switch (data?.type) {
    case "data":
      return { base64: typeof data.data === "string" ? data.data : base64Of(data.data) };
    case "url":
      return urlOf(data.url);
    case "text":
      return { base64: Buffer.from(data.text).toString("base64") };
    default:
      throw unsupported(`${where}: a file must be bytes, base64 or an address`);
  }
}

function urlOf(url: URL): FoundFile {
  if (url.protocol !== "data:") return { url: url.href };
  const [, isBase64, data = ""] = /^data:[^,]*?(;base64)?,(.*)$/s.exec(url.href) ?? [];
  return { base64: isBase64 === undefined ? Buffer.from(decodeURIComponent(data)).toString("base64") : data };
}

function fileAt(address: string, usualType: string, isTagged: boolean): MessagePart {
  const [, type, data] = /^data:([^;,]+);base64,(.*)$/s.exec(address) ?? [];
  if (data !== undefined) return filePart(data, type ?? usualType, isTagged);
  const url = new URL(address);
  return { type: "file", mediaType: usualType, data: isTagged ? { type: "url", url } : url };
}

function filePart(base64: string, mediaType: string, isTagged: boolean): MessagePart {
  return { type: "file", mediaType, data: isTagged ? { type: "data", data: base64 } : base64 };
}

function base64Of(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
}

function dataUrl(type: string, base64 = ""): string {
  return `data:${type};base64,${base64}`;
}

function unsupported(message: string): ModelCallError {
  return new ModelCallError(message, { code: "unsupported_request" });
}
