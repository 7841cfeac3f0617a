/**
 * Decompresses a response that arrived compressed although `accept-encoding: identity` was sent.
 *
 * The output is bounded while it grows, so that a few kilobytes that expand to gigabytes cost no more than the bound.
 * Who calls `unpack` runs one at a time.
 */
import { createBrotliDecompress, createGunzip, createInflate } from "node:zlib";
import { BodyCollector } from "./body.ts";

/** `too_large`: the output would exceed its bound. `damaged`: the bytes are not what the header says, or cut. */
export type Unpacked =
  | { readonly ok: true; readonly body: Uint8Array }
  | { readonly ok: false; readonly reason: "too_large" | "damaged" };

/** What Node's decompressing streams have in common. */
export type Decompressor = ReturnType<typeof createGunzip> | ReturnType<typeof createBrotliDecompress>;

const CHUNK_BYTES = 64 * 1024;

const DECOMPRESSORS: ReadonlyMap<string, () => Decompressor> = new Map([
  ["gzip", () => createGunzip({ chunkSize: CHUNK_BYTES })],
  ["x-gzip", () => createGunzip({ chunkSize: CHUNK_BYTES })],
  ["deflate", () => createInflate({ chunkSize: CHUNK_BYTES })],
  ["br", () => createBrotliDecompress({ chunkSize: CHUNK_BYTES })],
]);

/** Whether `content-encoding` names one compression that `unpack` knows. */
export function isPacked(contentEncoding: string | undefined): contentEncoding is string {
  return contentEncoding !== undefined && DECOMPRESSORS.has(contentEncoding.trim().toLowerCase());
}

/** `contentEncoding` must have passed `isPacked`. It holds a block of the packed and one of the unpacked bytes at a time. */
export function createDecompressor(contentEncoding: string): Decompressor {
  const create = DECOMPRESSORS.get(contentEncoding.trim().toLowerCase());
  if (create === undefined) throw new TypeError(`no decompression for "${contentEncoding}"`);
  return create();
}

/** Calls back once, later, on the main thread. `contentEncoding` must have passed `isPacked`. */
export function unpack(
  contentEncoding: string,
  body: Uint8Array,
  bytesMax: number,
  done: (result: Unpacked) => void,
): void {
  const stream = createDecompressor(contentEncoding);
  const unpacked = new BodyCollector(bytesMax);
  const fail = (reason: "too_large" | "damaged"): void => {
    stream.removeAllListeners().on("error", () => undefined); // of a stream that is given up
    stream.destroy();
    unpacked.reset(undefined);
    done({ ok: false, reason });
  };
  stream
    .on("data", (chunk: Buffer) => {
      if (!unpacked.add(chunk)) fail("too_large");
    })
    .on("end", () => done({ ok: true, body: unpacked.take() }))
    .on("error", () => fail("damaged"))
    .end(body);
}
