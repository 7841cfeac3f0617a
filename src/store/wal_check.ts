/**
 * Distinguishes a torn tail of SQLite's write-ahead log from damage before the tail.
 *
 * SQLite reads the log up to the first frame that fails its checksum and drops the rest without a word. After a power
 * cut that is right: each commit is synced before the next one begins, so only the last one can be torn. A flipped bit
 * further up would drop commits that were acknowledged. So before SQLite opens the log, its frames are checked
 * here: when a commit follows a bad frame, and another frame of the same generation follows that commit, the
 * log is damaged.
 *
 * Format: https://sqlite.org/fileformat2.html#the_write_ahead_log. A header of 32 bytes (magic, version, page size,
 * checkpoint count, two salts, two checksum words), then frames of 24 bytes (page number, size of the database in
 * pages on commit frames else 0, the salts, the running checksum) and one page.
 *
 * Limit: damage in the last commit of all cannot be distinguished from a torn one, and is cut.
 */
import { closeSync, existsSync, fstatSync, openSync, readSync } from "node:fs";
import { damaged } from "./checked_rows.ts";

const HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
/** The lowest bit is the byte order of the checksum's words: 1 is big-endian. */
const MAGIC = 0x377f0682;

/** Throws `store_damaged`, with the offset, when the log of a closed database is damaged before its tail. */
export function checkWal(path: string): void {
  if (!existsSync(path)) return;
  const file = openSync(path, "r");
  try {
    const bad = findDamage((into, position) => readSync(file, into, 0, into.length, position), {
      sizeBytes: fstatSync(file).size,
    });
    if (bad !== undefined) {
      throw damaged(`the write-ahead log ${path} is damaged at byte ${bad}, before its tail`, {
        offset: bad,
      });
    }
  } finally {
    closeSync(file);
  }
}

type ReadAt = (into: Uint8Array, position: number) => number;

/** The offset of the first bad frame when it is not a torn tail, else undefined. */
function findDamage(readAt: ReadAt, log: { readonly sizeBytes: number }): number | undefined {
  if (log.sizeBytes < HEADER_BYTES + FRAME_HEADER_BYTES) return undefined;
  const header = viewOf(readAt, 0, HEADER_BYTES);
  const isLittle = (header.getUint32(0) & 1) === 0;
  const headerSum = addChecksum([0, 0], header, 0, HEADER_BYTES - 8, isLittle);
  const isHeaderGood =
    (header.getUint32(0) | 1) === (MAGIC | 1) &&
    headerSum[0] === header.getUint32(24) &&
    headerSum[1] === header.getUint32(28);
  // The header is synced before any frame: frames after a bad one were good once. A log of zeros never got that far.
  if (!isHeaderGood) return isZero(viewOf(readAt, HEADER_BYTES, FRAME_HEADER_BYTES)) ? undefined : 0;

  const frameBytes = FRAME_HEADER_BYTES + pageBytesOf(header);
  const isOfGeneration = (frame: DataView): boolean =>
    frame.getUint32(8) === header.getUint32(16) && frame.getUint32(12) === header.getUint32(20);
  let sum = headerSum;
  let position = HEADER_BYTES;
  for (; position + frameBytes <= log.sizeBytes; position += frameBytes) {
    const frame = viewOf(readAt, position, frameBytes);
    sum = addChecksum(sum, frame, 0, 8, isLittle);
    sum = addChecksum(sum, frame, FRAME_HEADER_BYTES, frameBytes, isLittle);
    if (!isOfGeneration(frame) || sum[0] !== frame.getUint32(16) || sum[1] !== frame.getUint32(20)) break;
  }
  const badAt = position;
  let hasCommitBehind = false;
  for (; position + frameBytes <= log.sizeBytes; position += frameBytes) {
    const frame = viewOf(readAt, position, FRAME_HEADER_BYTES);
    if (!isOfGeneration(frame)) continue;
    if (hasCommitBehind) return badAt;
    hasCommitBehind = frame.getUint32(4) !== 0;
  }
  return undefined;
}

type Checksum = readonly [number, number];

/** SQLite's running checksum over 32-bit words, taken in pairs. */
function addChecksum(start: Checksum, view: DataView, from: number, to: number, isLittle: boolean): Checksum {
  let [first, second] = start;
  for (let at = from; at < to; at += 8) {
    first = (first + view.getUint32(at, isLittle) + second) >>> 0;
    second = (second + view.getUint32(at + 4, isLittle) + first) >>> 0;
  }
  return [first, second];
}

/** A page of 65,536 bytes is written as 1. */
function pageBytesOf(header: DataView): number {
  const stored = header.getUint32(8);
  return stored === 1 ? 65_536 : stored;
}

function viewOf(readAt: ReadAt, position: number, lengthBytes: number): DataView {
  const bytes = new Uint8Array(lengthBytes);
  readAt(bytes, position);
  return new DataView(bytes.buffer);
}

function isZero(view: DataView): boolean {
  for (let at = 0; at < view.byteLength; at += 1) if (view.getUint8(at) !== 0) return false;
  return true;
}
