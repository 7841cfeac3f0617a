/**
 * Decompresses a response that came compressed although `accept-encoding: identity` was sent.
 *
 * The output is bounded while it grows, so that a few kilobytes that stand for gigabytes cost no more than the bound.
 * Who calls it runs one at a time.
 */
import { brotliDecompress, gunzip, inflate } from "node:zlib";

/** `too_large`: the output would exceed its bound. `damaged`: the bytes are not what the header says, or cut. */
export type Unpacked =
  | { readonly ok: true; readonly body: Uint8Array }
  | { readonly ok: false; readonly reason: "too_large" | "damaged" };

type Decompress = (
  body: Uint8Array,
  options: { readonly maxOutputLength: number; readonly chunkSize: number },
  done: (error: NodeJS.ErrnoException | null, result: Uint8Array) => void,
) => void;

const DECOMPRESS: ReadonlyMap<string, Decompress> = new Map<string, Decompress>([
  ["gzip", gunzip],
  ["x-gzip", gunzip],
  ["deflate", inflate],
  ["br", brotliDecompress],
]);

/** Whether `content-encoding` names one compression that `unpack` knows. */
export function isPacked(contentEncoding: string | undefined): contentEncoding is string {
  return contentEncoding !== undefined && DECOMPRESS.has(contentEncoding.trim().toLowerCase());
}

/** Calls back once, later, on the main thread. `contentEncoding` must have passed `isPacked`. */
export function unpack(
  contentEncoding: string,
  body: Uint8Array,
  bytesMax: number,
  done: (result: Unpacked) => void,
): void {
  const decompress = DECOMPRESS.get(contentEncoding.trim().toLowerCase());
  if (decompress === undefined) throw new TypeError(`no decompression for "${contentEncoding}"`);
  decompress(body, { maxOutputLength: bytesMax, chunkSize: 64 * 1024 }, (error, result) => {
    if (error === null) done({ ok: true, body: result });
    else done({ ok: false, reason: error.code === "ERR_BUFFER_TOO_LARGE" ? "too_large" : "damaged" });
  });
}
