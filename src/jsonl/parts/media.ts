/**
 * What a medium is and where: its MIME type by the end of its name, its type by its MIME type, its source by its address.
 *
 *   data:image/png;base64,...      the base64 text, as a slice of the string that was parsed
 *   https://, http://, gs://       fetched by the provider
 *   s3://                          read when the request is sent
 *
 * MIME types: those that OpenAI, Anthropic and Gemini list for their input (state 2026-11-22).
 */
import type { MediaPart, MediaSource, MediaType } from "../../work/request.ts";
import { LineFault, wrongContents } from "../fault.ts";

const MIME_OF_END: ReadonlyMap<string, string> = new Map([
  ["png", "image/png"],
  ["jpg", "image/jpeg"],
  ["jpeg", "image/jpeg"],
  ["gif", "image/gif"],
  ["webp", "image/webp"],
  ["heic", "image/heic"],
  ["heif", "image/heif"],
  ["pdf", "application/pdf"],
  ["txt", "text/plain"],
  ["md", "text/markdown"],
  ["csv", "text/csv"],
  ["html", "text/html"],
  ["xml", "text/xml"],
  ["wav", "audio/wav"],
  ["mp3", "audio/mp3"],
  ["m4a", "audio/m4a"],
  ["aac", "audio/aac"],
  ["ogg", "audio/ogg"],
  ["opus", "audio/opus"],
  ["flac", "audio/flac"],
  ["aiff", "audio/aiff"],
  ["mp4", "video/mp4"],
  ["mov", "video/mov"],
  ["mpeg", "video/mpeg"],
  ["mpg", "video/mpg"],
  ["webm", "video/webm"],
  ["avi", "video/avi"],
]);

const MIME = /^[a-z]+\/[a-z0-9][a-z0-9.+_-]{0,126}$/;
const TYPES: readonly MediaType[] = ["image", "audio", "video"];
/** Of `data:image/png;base64,`, parameters included. */
const HEAD_CHARS_MAX = 256;

/** The MIME type by the end of a file's name or address. */
function mimeOfName(name: string): string | undefined {
  const path = /^[a-z0-9]+:\/\//.test(name) ? name.replace(/[?#].*$/s, "") : name;
  return MIME_OF_END.get(path.slice(path.lastIndexOf(".") + 1).toLowerCase());
}

/** Everything that is not an image, audio or video is a document. */
function typeOfMime(mimeType: string): MediaType {
  return TYPES.find((type) => mimeType.startsWith(`${type}/`)) ?? "document";
}

/** What an input says of a medium. */
export interface GivenMedium {
  readonly source: MediaSource;
  readonly mimeType?: string | undefined;
  readonly fileName?: string | undefined;
  /** Where the layout names it (`image_url`). */
  readonly type?: MediaType | undefined;
  readonly details?: Pick<MediaPart, "detail" | "mediaResolution" | "videoMetadata"> | undefined;
}

/** The medium, with a MIME type where its name shows one. `place` is that of the part, for faults. */
export function mediaPart(given: GivenMedium, place: string): MediaPart | LineFault {
  const { source, fileName, details } = given;
  const name = fileName ?? addressOf(source);
  const mimeType = given.mimeType?.toLowerCase() ?? (name === undefined ? undefined : mimeOfName(name));
  if (mimeType !== undefined && !MIME.test(mimeType))
    return new LineFault("invalid_contents", `${place}: the MIME type is not valid`);
  const type = given.type ?? (mimeType === undefined ? undefined : typeOfMime(mimeType));
  const isFetched = "url" in source || "providerFile" in source;
  if (type === undefined || (mimeType === undefined && !isFetched))
    return new LineFault(
      "invalid_contents",
      `${place}: the MIME type is not known from the name; set mime_type, as in "image/png"`,
    );
  return {
    kind: "media",
    type,
    ...(mimeType === undefined ? {} : { mimeType }),
    ...(fileName === undefined ? {} : { fileName }),
    ...details,
    source,
  };
}

function addressOf(source: MediaSource): string | undefined {
  if ("url" in source) return source.url;
  if ("path" in source) return source.path;
  return "s3" in source ? source.s3 : undefined;
}

/** The source at an address, with the MIME type of a `data:` address. */
export function sourceOfAddress(
  address: string,
  place: string,
): Pick<GivenMedium, "source" | "mimeType"> | LineFault {
  if (address.startsWith("data:")) return sourceOfData(address, place);
  if (/^(https?|gs):\/\/./.test(address)) return { source: { url: address } };
  if (/^s3:\/\/[^/]+\/./.test(address)) return { source: { s3: address } };
  return new LineFault(
    "invalid_contents",
    `${place} must be an address that begins with https://, data:, gs:// or s3://`,
  );
}

/** Characters that are checked at each end of base64: a file of 10 MB takes no longer than one of 4 KB. */
const CHECKED_CHARS = 4_096;
/** Of both alphabets (RFC 4648, 4 and 5), as Gemini reads them, with line ends. */
const OTHER_CHARACTER = /[^A-Za-z0-9+/_=\r\n-]/;

/** What shows that a text is not base64, at its first and last 4,096 characters. `place` is its own. */
export function base64Fault(text: string, place: string): LineFault | undefined {
  const end = Math.max(CHECKED_CHARS, text.length - CHECKED_CHARS);
  const head = text.slice(0, CHECKED_CHARS).search(OTHER_CHARACTER);
  const tail = head >= 0 ? -1 : text.slice(end).search(OTHER_CHARACTER);
  if (head < 0 && tail < 0) return undefined;
  const character = 1 + (head >= 0 ? head : end + tail);
  const wayOn = text.startsWith("data:")
    ? "leave out what is before the comma"
    : "a file has its path in file_data";
  return new LineFault(
    "invalid_contents",
    `${place} must be base64, got another character at place ${character}; ${wayOn}`,
  );
}

/** `data:[mime][;name=value];base64,text` (RFC 2397). */
function sourceOfData(address: string, place: string): Pick<GivenMedium, "source" | "mimeType"> | LineFault {
  const head = /^data:([^;,]*)(?:;[^;,]*)*;base64,/.exec(address.slice(0, HEAD_CHARS_MAX));
  if (head === null)
    return new LineFault("invalid_contents", `${place} must be base64, as in data:image/png;base64,...`);
  const base64 = address.slice(head[0].length);
  if (base64 === "") return wrongContents(place, "base64 data", undefined);
  return { source: { base64 }, ...(head[1] === "" ? {} : { mimeType: head[1] }) };
}
