/**
 * Writes uploaded bytes to a file as they arrive, in one pass: hashes and counts them, and checks limits.
 *
 *   head (64 bytes or a line: is it text?) -> written, hashed, indexed -> synced
 *
 * The content type may be known only at the end, because a form orders its fields freely: then the head is kept and checked after all
 * bytes have arrived.
 *
 * Memory: one chunk, and two numbers for every 1,000 items.
 */
import { createHash } from "node:crypto";
import { type DiskFile, errorCodeOf, isNoSpace } from "../../disk.ts";
import { refuseEncoding } from "../../engine/files/byte_source.ts";
import { PerigeeError } from "../../errors.ts";
import { ItemIndex } from "./item_index.ts";

/** `requests` are lines of text, within limits; `lines` are only indexed; `bytes` are not read. */
export type Content = "requests" | "lines" | "bytes";

/** Limits and content of an upload. */
export interface UploadBounds {
  readonly bytesMax: number;
  /** For requests; includes blank lines. */
  readonly linesMax: number;
  readonly lineBytesMax: number;
  /** A function is called once, after all bytes have arrived. */
  readonly content: Content | (() => Content);
  /** Called before this many bytes are written; may throw. */
  readonly reserve: (bytes: number) => void;
}

/** The result of an upload. It is written; the caller who opened the file syncs it. */
export interface Uploaded {
  readonly bytes: number;
  readonly sha256: string;
  readonly content: Content;
  /** Absent for bytes. */
  readonly index: ItemIndex | undefined;
}

const HEAD_BYTES = 64;
const LF = 0x0a;

/** Writes from the start of an empty file. Throws `too_large`, `unsupported_encoding`, and what `chunks` throws. */
export async function writeUpload(
  file: DiskFile,
  chunks: AsyncIterable<Uint8Array>,
  bounds: UploadBounds,
): Promise<Uploaded> {
  const { bytesMax, linesMax, lineBytesMax } = bounds;
  const hash = createHash("sha256");
  const index = new ItemIndex(lineBytesMax);
  const known = typeof bounds.content === "string" ? bounds.content : undefined;
  let head: Uint8Array | undefined;
  let bytes = 0;
  for await (const chunk of withHead(chunks)) {
    head ??= chunk.slice(0, HEAD_BYTES);
    if (bytes === 0 && known === "requests") refuseEncoding(chunk, "the file");
    if (bytes + chunk.byteLength > bytesMax) throw tooLarge("bytes", bytesMax);
    bounds.reserve(chunk.byteLength);
    hash.update(chunk);
    if (known !== "bytes") index.add(chunk);
    if (known === "requests" && index.lineCount > linesMax) throw tooLarge("lines", linesMax);
    await onDisk(file.write(chunk, bytes));
    bytes += chunk.byteLength;
  }
  index.end();
  const content = typeof bounds.content === "string" ? bounds.content : bounds.content();
  if (content === "requests" && head !== undefined) refuseEncoding(head, "the file");
  if (content === "requests" && index.lineCount > linesMax) throw tooLarge("lines", linesMax);
  return { bytes, sha256: hash.digest("hex"), content, index: content === "bytes" ? undefined : index };
}

/** Converts the rejection of a file operation to an error that a caller can act on; a disk of perigee's own says what is wrong itself. */
export async function onDisk<T>(operation: Promise<T>): Promise<T> {
  try {
    return await operation;
  } catch (cause) {
    if (cause instanceof PerigeeError) throw cause;
    const code = errorCodeOf(cause);
    if (isNoSpace(code))
      throw new PerigeeError("disk_full", "there is no space left for the file", { cause });
    throw new PerigeeError("store_failed", `the file cannot be kept (${code ?? "unknown error"})`, { cause });
  }
}

/** The same bytes, with enough in the first chunk to detect the content. Omits empty chunks. */
async function* withHead(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let head: Uint8Array | undefined = new Uint8Array(0);
  for await (const chunk of chunks) {
    if (chunk.byteLength === 0) continue;
    if (head === undefined) {
      yield chunk;
      continue;
    }
    head = head.byteLength === 0 ? chunk : Buffer.concat([head, chunk]);
    if (head.byteLength < HEAD_BYTES && !head.includes(LF)) continue;
    yield head;
    head = undefined;
  }
  if (head !== undefined && head.byteLength > 0) yield head;
}

function tooLarge(what: "bytes" | "lines", most: number): PerigeeError {
  return new PerigeeError("too_large", `a file has at most ${most} ${what}`, {
    details: { param: "file", max: most },
  });
}
