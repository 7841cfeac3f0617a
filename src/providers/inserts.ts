/**
 * What is put into a body when it is sent: files that a codec does not read.
 *
 *   a local file, a file of the store, s3://   ->  a marker in the body, and where its content is in `inserts`
 *
 * A marker has 96 random bits of this thread, so nothing that a request holds can be taken for one. It needs no escapes in JSON,
 * and none is the beginning of another.
 */
import { randomBytes } from "node:crypto";
import type { MediaPart, MediaSource } from "../work/request.ts";

/** Sources whose content is not in the request, and that no provider fetches. */
export type InsertSource = Exclude<MediaSource, { readonly base64: string } | { readonly url: string }>;

/** A piece of content in place of its marker. */
export interface Insert {
  /** Occurs once in the body, inside a JSON string. */
  readonly marker: string;
  readonly source: InsertSource;
  readonly mimeType: string;
  /** How the content is written: in base64, or as a text with the escapes of JSON. */
  readonly encoding: "base64" | "text";
}

const MARK = `perigee-insert:${randomBytes(12).toString("hex")}:`;

/** The base64 text of a medium, or the marker in its place, of which `inserts` then says where the content is. */
export function base64Of(part: MediaPart, inserts: Insert[]): string | undefined {
  const { source } = part;
  if ("base64" in source) return source.base64;
  return "url" in source ? undefined : markerOf(source, part, "base64", inserts);
}

/** The text of a medium that is a text in UTF-8, or the marker in its place. */
export function plainTextOf(part: MediaPart, inserts: Insert[]): string | undefined {
  const { source } = part;
  if ("base64" in source) return Buffer.from(source.base64, "base64").toString("utf8");
  return "url" in source ? undefined : markerOf(source, part, "text", inserts);
}

function markerOf(
  source: InsertSource,
  { mimeType = "application/octet-stream" }: MediaPart,
  encoding: Insert["encoding"],
  inserts: Insert[],
): string {
  const marker = `${MARK}${inserts.length}:`;
  inserts.push({ marker, source, mimeType, encoding });
  return marker;
}

/** Why a request with inserts is not sent. */
export function insertFault({ source }: Insert): string {
  const what =
    "path" in source ? "a local file" : "fileId" in source ? "a file of the store" : "an s3:// file";
  return `${what} cannot be read here yet; give its content as inline_data, or an https:// address`;
}
