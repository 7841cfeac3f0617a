/**
 * Large objects of S3, in parts: what is completed exists as a whole, what fails is aborted.
 *
 * Memory: one part. A process that is killed leaves parts that only a lifecycle rule of the bucket removes.
 */
import { SatelliteError } from "../../sdk/satellite_error.ts";

/** The four requests of an upload in parts. */
export interface PartedUpload {
  /** The id of the upload. */
  begin(): Promise<string | undefined>;
  /** `number` counts from 1. */
  put(id: string, number: number, bytes: Uint8Array): Promise<UploadedPart>;
  complete(id: string, parts: readonly UploadedPart[]): Promise<void>;
  abort(id: string): Promise<void>;
}

export interface UploadedPart {
  readonly PartNumber: number;
  readonly ETag: string | undefined;
}

const PART_BYTES = 16 * 1024 * 1024;
const PARTS_MAX = 10_000;

/** `bytes` in all, which set the size of a part: S3 takes 10,000 of them. Throws what a call of the upload throws, after it was aborted. */
export async function uploadParts(
  upload: PartedUpload,
  chunks: AsyncIterable<Uint8Array>,
  bytes: number,
): Promise<void> {
  const id = await upload.begin();
  if (id === undefined) throw new SatelliteError("ambiguous", "store_failed", "the store began no upload");
  const partBytes = Math.max(PART_BYTES, Math.ceil(bytes / PARTS_MAX));
  const parts: UploadedPart[] = [];
  try {
    for await (const part of inParts(chunks, partBytes))
      parts.push(await upload.put(id, parts.length + 1, part));
    await upload.complete(id, parts);
  } catch (error) {
    await upload.abort(id).catch(() => undefined); // a lifecycle rule does it later
    throw error;
  }
}

/** The same bytes in pieces of one size; the last may be shorter. */
export async function* inParts(chunks: AsyncIterable<Uint8Array>, bytes: number): AsyncGenerator<Uint8Array> {
  let held: Uint8Array[] = [];
  let heldBytes = 0;
  for await (const chunk of chunks) {
    for (let start = 0; start < chunk.byteLength; ) {
      const piece = chunk.subarray(start, start + bytes - heldBytes);
      held.push(piece);
      heldBytes += piece.byteLength;
      start += piece.byteLength;
      if (heldBytes < bytes) continue;
      yield Buffer.concat(held);
      held = [];
      heldBytes = 0;
    }
  }
  if (heldBytes > 0) yield Buffer.concat(held);
}
