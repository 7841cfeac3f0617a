/**
 * Whether an answer that is read is the one that was written: each output line has a checksum in the journal.
 */
import { basename } from "node:path";
import { crc32 } from "node:zlib";
import type { Failure } from "../../work/outcome.ts";

/** The place of an output line. */
export interface CheckedPlace {
  readonly start: number;
  /** Its line end included. */
  readonly lengthBytes: number;
  /** CRC-32; 0 when it is not known, as of steps that an earlier version wrote. */
  readonly lineCrc32: number;
}

const LINE_END = 0x0a;
const OBJECT_START = 0x7b;

/** Whether the bytes are what the place says. Without a checksum: whether they look like a line. */
export function isAnswerWhole(bytes: Uint8Array, { lengthBytes, lineCrc32 }: CheckedPlace): boolean {
  if (bytes.byteLength !== lengthBytes || bytes.at(-1) !== LINE_END) return false;
  return lineCrc32 === 0 ? bytes[0] === OBJECT_START : crc32(bytes) === lineCrc32;
}

/** What is said of an answer whose bytes are not there any more. */
export function brokenAnswer(path: string, { start, lengthBytes }: CheckedPlace): Failure {
  const where = `bytes ${start} to ${start + lengthBytes} of ${basename(path)}`;
  const message = `the answer was recorded, but ${where} do not match its checksum: restore the data folder from a backup, or submit the item again`;
  return { code: "output_damaged", message, retryable: true, attempts: 0, ambiguous_attempts: 0 };
}
