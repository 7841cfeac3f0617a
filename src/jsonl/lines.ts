/**
 * Lines inside bytes that are in memory. A line ends only at byte 0x0A; a CR before it belongs to the line end.
 */

const LF = 0x0a;
const CR = 0x0d;

/** A byte order mark in UTF-8; skipped at the very start of an input and nowhere else. */
export const BOM_BYTES: readonly number[] = [0xef, 0xbb, 0xbf];

/** Calls back for each line with where its content starts and ends, its line end left out. */
export function eachLine(bytes: Uint8Array, onLine: (start: number, end: number) => void): void {
  const buffer = asBuffer(bytes);
  let start = 0;
  while (start < buffer.length) {
    const newline = buffer.indexOf(LF, start);
    const end = newline < 0 ? buffer.length : newline;
    onLine(start, contentEnd(buffer, start, end, newline >= 0));
    start = end + 1;
  }
}

/** How many lines end there. */
export function lineEnds(bytes: Uint8Array): number {
  let count = 0;
  for (let at = bytes.indexOf(LF); at >= 0; at = bytes.indexOf(LF, at + 1)) count += 1;
  return count;
}

/** Where a line's content ends, when `end` is its LF or the end of the input. A CR counts only before an LF. */
export function contentEnd(bytes: Uint8Array, start: number, end: number, hasNewline: boolean): number {
  return hasNewline && end > start && bytes[end - 1] === CR ? end - 1 : end;
}

/** Whether a line, `bytes[start..end]`, is blank. */
export function isBlank(bytes: Uint8Array, start = 0, end: number = bytes.length): boolean {
  for (let index = start; index < end; index++) {
    const byte = bytes[index];
    if (byte !== 0x20 && byte !== 0x09 && byte !== 0x0d && byte !== LF) return false;
  }
  return true;
}

/** Bytes up to and with the last line end; 0 without one. What follows is a torn line. */
export function wholeLinesEnd(bytes: Uint8Array): number {
  return asBuffer(bytes).lastIndexOf(LF) + 1;
}

/** The same bytes as a Buffer, whose `indexOf` is memchr. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
