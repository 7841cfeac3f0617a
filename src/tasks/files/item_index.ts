/**
 * Counts the items of a file while its bytes arrive, and records where every 1,000th begins.
 *
 * An item is a line that is not blank; the reader also skips blank lines (`jsonl/read.ts`, `jsonl/record.ts`). A line longer than the
 * reader's bound is always an item, which fails by itself. Hot path: one search for each line end, at memchr's speed.
 */
import { asBuffer, BOM_BYTES, isBlank } from "../../jsonl/lines.ts";

/** Items from one recorded place to the next. */
const INDEX_STEP = 1_000;

const LF = 0x0a;
const CR = 0x0d;

/** Pass the bytes in order, once; its fields are complete after `end`. */
export class ItemIndex {
  /** Line of item n x 1,000, from 1, and the offset of its first byte. */
  readonly lines: number[] = [];
  readonly offsets: number[] = [];
  items = 0;
  /** Lines so far, blank ones included. */
  lineCount = 0;
  readonly #lineBytesMax: number;
  /** Offset of the next byte. */
  #position = 0;
  /** State of the line that has not ended yet. */
  #lineOffset = 0;
  #hasContent = false;
  #lastByte: number | undefined;

  constructor(lineBytesMax: number) {
    this.#lineBytesMax = lineBytesMax;
  }

  /** Adds the next bytes; a byte order mark must be complete in the first call. */
  add(chunk: Uint8Array): void {
    const bytes = asBuffer(chunk);
    let start = this.#position === 0 ? markLength(bytes) : 0;
    this.#lineOffset += start;
    while (start < bytes.length) {
      const newline = bytes.indexOf(LF, start);
      const end = newline < 0 ? bytes.length : newline;
      if (!this.#hasContent) this.#hasContent = !isBlank(bytes, start, end);
      if (newline < 0) break;
      const before = newline > 0 ? bytes[newline - 1] : this.#lastByte;
      this.#endLine(this.#position + newline - (before === CR ? 1 : 0));
      start = newline + 1;
      this.#lineOffset = this.#position + start;
    }
    this.#position += bytes.length;
    this.#lastByte = bytes[bytes.length - 1];
  }

  /** Counts a last line without a line end. */
  end(): void {
    if (this.#position > this.#lineOffset) this.#endLine(this.#position);
  }

  /** `contentEnd` is the offset of its line end. */
  #endLine(contentEnd: number): void {
    this.lineCount += 1;
    if (this.#hasContent || contentEnd - this.#lineOffset > this.#lineBytesMax) {
      if (this.items % INDEX_STEP === 0) {
        this.lines.push(this.lineCount);
        this.offsets.push(this.#lineOffset);
      }
      this.items += 1;
    }
    this.#hasContent = false;
  }
}

function markLength(bytes: Uint8Array): number {
  return BOM_BYTES.every((byte, index) => bytes[index] === byte) ? BOM_BYTES.length : 0;
}
