/**
 * What is put into a body when it is sent: files that a codec does not read.
 *
 *   a local file, a file of the store, s3://   ->  codec: a marker in the body, and where its content is in `inserts`
 *                                              ->  `sealed`: the body itself says where, between two bytes 0x01
 *                                              ->  `piecesOf`: what is sent, with the content in place
 *
 * A marker has 96 random bits of this thread, so nothing that a request holds can be taken for one. It needs no escapes in JSON,
 * and none is the beginning of another. A sealed body is the same in every thread and process. Nothing that a request holds can be
 * taken for a seal: JSON has 0x01 only as an escape. A sealed body is no JSON, so it is refused wherever one is sent by mistake.
 */
import { randomBytes } from "node:crypto";
import type { MediaPart, MediaSource } from "../work/request.ts";

/** Sources whose content is not in the request, and that no provider fetches. */
export type InsertSource = Exclude<MediaSource, { readonly base64: string } | { readonly url: string }>;

const BYTES_MAX = 20 * 1024 * 1024;

/**
 * Bytes of a file at most. By default 20 MiB, which are 28 MB in base64: Anthropic takes requests of 32 MB
 * (docs.claude.com/en/api/overview), Gemini PDFs of 50 MB (ai.google.dev/gemini-api/docs/file-input-methods), both November 2026;
 * others take more or less, and refuse what is above theirs.
 */
export function mediaBytesMax(given: { readonly mediaBytesMax?: number | undefined }): number {
  return given.mediaBytesMax ?? BYTES_MAX;
}

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

/** Content that a sealed body names. */
export type SealedInsert = Pick<Insert, "source" | "encoding">;

const SEAL = "\u0001";
const SEAL_BYTE = 1;

/** The body with what its inserts are in place of their markers. */
export function sealed(body: string, inserts: readonly Insert[]): string {
  let text = body;
  for (const { marker, source, encoding } of inserts) {
    const insert: SealedInsert = { source, encoding };
    text = text.replace(marker, `${SEAL}${Buffer.from(JSON.stringify(insert)).toString("base64url")}${SEAL}`);
  }
  return text;
}

/** The bytes of a sealed body and its inserts, in order; the body alone if it has none. */
export function piecesOf(body: Uint8Array): readonly (Uint8Array | SealedInsert)[] {
  const pieces: (Uint8Array | SealedInsert)[] = [];
  let from = 0;
  for (let start = body.indexOf(SEAL_BYTE); start >= 0; start = body.indexOf(SEAL_BYTE, from)) {
    const end = body.indexOf(SEAL_BYTE, start + 1);
    if (end < 0) break;
    const name = Buffer.from(body.buffer, body.byteOffset + start + 1, end - start - 1).toString();
    const insert = JSON.parse(Buffer.from(name, "base64url").toString()) as SealedInsert; // written by `sealed`
    pieces.push(body.subarray(from, start), insert);
    from = end + 1;
  }
  pieces.push(body.subarray(from));
  return pieces;
}

/** Why a provider of a protocol is not sent the content of any of them; undefined if it may be. */
export function insertFault(inserts: readonly Insert[], protocol: string): string | undefined {
  for (const { source } of inserts) {
    if (protocol !== "function" && protocol !== "echo") continue;
    const what = "path" in source ? "a local file" : "s3" in source ? "an s3:// file" : "a file of the store";
    return `${what} is read only for providers that are reached by HTTP; give its content as inline_data`;
  }
  return undefined;
}
