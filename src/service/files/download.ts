/**
 * Downloads: bytes with a name, as they are now.
 *
 *   complete      200 with ETag; 206 or 416 for a range; 304 for who has it
 *   incomplete    200 with `X-Incomplete: true`, no ETag and no ranges: it will have more
 *
 * A reader that takes nothing for a minute is cut off; one key has at most 20 downloads at a time. A download whose bytes cannot be read to
 * their end breaks off, and is reported as a fault.
 */
import { Readable } from "node:stream";
import type { ServiceContext } from "../context.ts";
import { envelope, plain } from "../http/errors.ts";
import type { FastifyReply, FastifyRequest } from "../http/fastify.ts";
import { rangeOf } from "./byte_range.ts";
import { StallWatch } from "./transfers.ts";

/** Bytes that a reader may take whole or in parts. */
export interface Download {
  /** For the file that the reader saves; any text. */
  readonly name: string;
  readonly mimeType: string;
  readonly isComplete: boolean;
  /** Undefined when it must be read to be known; then there are no ranges. */
  readonly bytes: number | undefined;
  /** In its quotes; undefined without one. */
  readonly etag: string | undefined;
  read(range?: { readonly start: number; readonly end: number }): AsyncIterable<Uint8Array>;
}

/** What a service has for all its downloads. */
export type DownloadParts = Pick<ServiceContext, "clock" | "transfers">;

/** Held back for a reader that is slower than we are. */
const AHEAD_BYTES = 64 * 1024;

/** Answers GET and HEAD. `holder` is whose downloads it counts to. Throws `too_many`. */
export function sendDownload(
  request: FastifyRequest,
  reply: FastifyReply,
  download: Download,
  parts: DownloadParts,
  holder: string,
): FastifyReply {
  const { etag, bytes, isComplete } = download;
  reply
    .header("cache-control", "private, no-store")
    .header("referrer-policy", "no-referrer")
    .header("x-content-type-options", "nosniff")
    .header("content-disposition", dispositionOf(download.name));
  if (!isComplete) reply.header("x-incomplete", "true");
  if (etag !== undefined) {
    reply.header("etag", etag);
    if (isMatch(request.headers["if-none-match"], etag)) return reply.code(304).send();
  }
  reply.header("content-type", download.mimeType);
  if (bytes === undefined || etag === undefined) {
    reply.header("accept-ranges", "none");
    return sendBytes(request, reply, download, bytes, undefined, parts, holder);
  }
  reply.header("accept-ranges", "bytes");
  const range = rangeOf(askedRange(request, etag), bytes);
  if (range.kind === "unsatisfiable") return refuseRange(request, reply, bytes);
  if (range.kind === "all") return sendBytes(request, reply, download, bytes, undefined, parts, holder);
  reply.code(206).header("content-range", `bytes ${range.start}-${range.end - 1}/${bytes}`);
  return sendBytes(request, reply, download, range.end - range.start, range, parts, holder);
}

function refuseRange(request: FastifyRequest, reply: FastifyReply, bytes: number): FastifyReply {
  const { error } = plain(416, "range_not_satisfiable", `there are ${bytes} bytes`, "Range");
  return reply
    .code(416)
    .header("content-range", `bytes */${bytes}`)
    .removeHeader("content-disposition")
    .type("application/json; charset=utf-8")
    .send(envelope(error, request.id));
}

/** A name for a header: plain ASCII for old readers, and all of it by RFC 5987. */
export function dispositionOf(name: string): string {
  const plain = name.replace(/[^\x20-\x7e]|["\\%]/g, "_");
  const whole = encodeURIComponent(Buffer.from(name).toString()).replace(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${plain}"; filename*=UTF-8''${whole}`;
}

function sendBytes(
  request: FastifyRequest,
  reply: FastifyReply,
  download: Download,
  length: number | undefined,
  range: { readonly start: number; readonly end: number } | undefined,
  { clock, transfers }: DownloadParts,
  holder: string,
): FastifyReply {
  if (length !== undefined) reply.header("content-length", length);
  if (request.method === "HEAD") return reply.send();
  const over = transfers.downloads.begin(holder);
  reply.raw.once("close", over);
  const bytes = reported(download.read(range), (error) => {
    if (reply.raw.headersSent) transfers.onBroken(error, request.id); // else the answer is an error
  });
  const chunks = watched(bytes, new StallWatch(clock, () => reply.raw.destroy()));
  return reply.send(Readable.from(chunks, { objectMode: false, highWaterMark: AHEAD_BYTES }));
}

/** The same bytes; why they end early is reported first. */
async function* reported(
  chunks: AsyncIterable<Uint8Array>,
  onError: (error: unknown) => void,
): AsyncGenerator<Uint8Array> {
  try {
    yield* chunks;
  } catch (error) {
    onError(error);
    throw error;
  }
}

/** The same bytes in pieces that a slow reader takes within the time. */
async function* watched(chunks: AsyncIterable<Uint8Array>, watch: StallWatch): AsyncGenerator<Uint8Array> {
  try {
    for await (const chunk of chunks) {
      for (let start = 0; start < chunk.length; start += AHEAD_BYTES) {
        watch.waiting();
        yield chunk.subarray(start, start + AHEAD_BYTES);
        watch.moved();
      }
    }
  } finally {
    watch.moved();
  }
}

/**
 * Only of GET (RFC 9110, 14.2). `If-Range` (13.1.5) holds only for the very same tag; for any other the range is as
 * not asked for.
 */
function askedRange({ headers, method }: FastifyRequest, etag: string): string | undefined {
  if (method !== "GET") return undefined;
  const condition = headers["if-range"];
  return condition === undefined || condition === etag ? headers.range : undefined;
}

function isMatch(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false;
  return header.split(",").some((one) => [etag, `W/${etag}`, "*"].includes(one.trim()));
}
