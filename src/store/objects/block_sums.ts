/** Checksums of stored bytes: a CRC-32 for each block of 64 KiB, so that a range is checked without the rest. */
import { crc32 } from "node:zlib";

export const BLOCK_BYTES: number = 64 << 10;

/** The CRC-32 of each block as four bytes, little-endian. The last block may be shorter. */
export function blockSums(bytes: Uint8Array): Uint8Array {
  const sums = new DataView(new ArrayBuffer(4 * Math.ceil(bytes.byteLength / BLOCK_BYTES)));
  for (let start = 0; start < bytes.byteLength; start += BLOCK_BYTES)
    sums.setUint32((4 * start) / BLOCK_BYTES, crc32(bytes.subarray(start, start + BLOCK_BYTES)), true);
  return new Uint8Array(sums.buffer);
}

/** Whether `bytes` match the sums; they begin with the block of index `first`. */
export function matchesSums(bytes: Uint8Array, first: number, sums: Uint8Array): boolean {
  const view = new DataView(sums.buffer, sums.byteOffset, sums.byteLength);
  for (let start = 0; start < bytes.byteLength; start += BLOCK_BYTES) {
    const place = 4 * (first + start / BLOCK_BYTES);
    if (place + 4 > sums.byteLength) return false;
    if (view.getUint32(place, true) !== crc32(bytes.subarray(start, start + BLOCK_BYTES))) return false;
  }
  return true;
}
