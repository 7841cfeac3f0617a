/**
 * The reader: a file's bytes as blocks of whole lines with their line numbers and byte offsets.
 *
 * Lines are split at byte 0x0A. A line longer than the bound is never kept: its end is sought with the read buffer
 * only and it is reported as refused. A line that is longer than the read buffer but within the bound is read a second
 * time, into a buffer of its own size. So memory stays at one chunk and one line, for any input.
 *
 * Limits: line 10 MiB, chunk 1 MiB (options); a block has at most 256 lines (option) and 256 KiB,
 * unless one line is longer.
 * Hot path: at least 1.5 GB/s from the page cache (`bench/parts/read.ts`).
 */
import type { DiskFile } from "../disk.ts";
import { PerigeeError } from "../errors.ts";
import { allocate } from "../large_bytes.ts";
import type { ReaderEvent } from "./block.ts";
import { BOM_BYTES, contentEnd } from "./lines.ts";

export interface ReadOptions {
  /** Byte offset of the first line to read. Default 0; a byte order mark is skipped only there. */
  readonly fromOffset?: number | undefined;
  /** Number of the line at `fromOffset`. Default 1. */
  readonly fromLine?: number | undefined;
  /** Byte offset at which the input counts as ended. Default: the end of the file. */
  readonly toOffset?: number | undefined;
  /** Bytes of a line without its line end, at most. Default 10 MiB. */
  readonly lineBytesMax?: number | undefined;
  /** Lines of a block, at least 1. Default 256. */
  readonly blockLinesMax?: number | undefined;
  /** Bytes read at once, at least 1. Default 1 MiB. */
  readonly chunkBytes?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

export const LINE_BYTES_MAX: number = 10 * 1024 * 1024;

const LF = 0x0a;
const CR = 0x0d;
const CHUNK_BYTES = 1024 * 1024;
/** Many inputs are smaller: the chunk grows once, when this one was full. */
const FIRST_CHUNK_BYTES = 64 * 1024;
const BLOCK_LINES_MAX = 256;
const BLOCK_BYTES_MAX = 256 * 1024;
/** The first block is small, so that sending begins before a whole chunk was measured. */
const FIRST_BLOCK_LINES_MAX = 64;

/**
 * Reads from `file`, which stays open. Events are in the order of the input, and blocks together with refused lines
 * cover it without a gap. Rejects with `signal.reason` between two reads, and with `input_changed` when a long line
 * is no longer what it was a moment ago.
 */
export async function* readBlocks(
  file: Pick<DiskFile, "read">,
  options: ReadOptions = {},
): AsyncGenerator<ReaderEvent> {
  const reader = new BlockReader(file, options);
  await reader.skipByteOrderMark();
  for (;;) {
    await reader.fill();
    yield* reader.cut();
    const long = await reader.takeLongLine();
    if (long !== undefined) yield long;
    else if (reader.isDone) return;
  }
}

/** Chunk, and the place of its bytes in the input. `chunk[0..#held]` is the start of a line that has not ended yet. */
class BlockReader {
  isDone = false;
  readonly #file: Pick<DiskFile, "read">;
  #chunk: Buffer;
  readonly #chunkBytes: number;
  readonly #lineBytesMax: number;
  readonly #toOffset: number;
  readonly #signal: AbortSignal | undefined;
  /** Offset in the input of the next byte to read. */
  #position: number;
  #line: number;
  #held = 0;
  #filled = 0;
  #isChunkFull = false;
  /** Lines of every block after the first. */
  readonly #fullBlockLines: number;
  #blockLinesMax: number;

  constructor(file: Pick<DiskFile, "read">, options: ReadOptions) {
    this.#file = file;
    this.#chunkBytes = options.chunkBytes ?? CHUNK_BYTES;
    this.#chunk = Buffer.allocUnsafeSlow(Math.min(FIRST_CHUNK_BYTES, this.#chunkBytes));
    this.#lineBytesMax = options.lineBytesMax ?? LINE_BYTES_MAX;
    this.#fullBlockLines = options.blockLinesMax ?? BLOCK_LINES_MAX;
    this.#blockLinesMax = Math.min(FIRST_BLOCK_LINES_MAX, this.#fullBlockLines);
    this.#toOffset = options.toOffset ?? Number.POSITIVE_INFINITY;
    this.#signal = options.signal;
    this.#position = options.fromOffset ?? 0;
    this.#line = options.fromLine ?? 1;
  }

  async skipByteOrderMark(): Promise<void> {
    if (this.#position !== 0) return;
    const start = new Uint8Array(BOM_BYTES.length);
    const got = await this.#file.read(start, 0);
    if (got === start.length && BOM_BYTES.every((byte, index) => start[index] === byte)) this.#position = got;
  }

  /** Reads on after the bytes that are held. */
  async fill(): Promise<void> {
    if (this.#isChunkFull && this.#canGrow) this.#grow();
    this.#filled = this.#held + (await this.#readInto(this.#held));
    this.#isChunkFull = this.#filled === this.#chunk.length;
  }

  /** Cuts all whole lines of the chunk into blocks; at the end of the input the rest counts as a line. */
  *cut(): Generator<ReaderEvent> {
    const bytes = this.#chunk.subarray(0, this.#filled);
    let start = 0;
    let at = 0;
    let lineCount = 0;
    while (at < bytes.length) {
      const newline = bytes.indexOf(LF, at);
      if (newline < 0 && !this.isDone) break;
      const next = newline < 0 ? bytes.length : newline + 1;
      const lengthBytes = contentEnd(bytes, at, newline < 0 ? next : newline, newline >= 0) - at;
      const isRefused = lengthBytes > this.#lineBytesMax;
      if (
        lineCount > 0 &&
        (isRefused || next - start > BLOCK_BYTES_MAX || lineCount >= this.#blockLinesMax)
      ) {
        yield this.#block(bytes, start, at, lineCount);
        start = at;
        lineCount = 0;
      }
      if (isRefused) {
        yield this.#refused(this.#offsetOf(at), lengthBytes);
        start = next;
      } else {
        lineCount++;
      }
      at = next;
    }
    if (lineCount > 0) yield this.#block(bytes, start, at, lineCount);
    this.#hold(at);
  }

  /** When the chunk is full of one line that has not ended: seeks its end, and reads it whole or refuses it. */
  async takeLongLine(): Promise<ReaderEvent | undefined> {
    if (this.#held < this.#chunk.length || this.#canGrow) return undefined;
    const offset = this.#offsetOf(0);
    let newline = -1;
    let before = this.#chunk[this.#held - 1];
    while (newline < 0 && !this.isDone) {
      this.#filled = 0;
      this.#filled = await this.#readInto(0);
      newline = this.#chunk.subarray(0, this.#filled).indexOf(LF);
      const last = newline < 0 ? this.#filled : newline;
      if (last > 0) before = this.#chunk[last - 1];
    }
    const hasNewline = newline >= 0;
    const end = hasNewline ? this.#offsetOf(newline) + 1 : this.#position;
    const lineEndBytes = hasNewline ? (before === CR ? 2 : 1) : 0;
    this.#hold(hasNewline ? newline + 1 : this.#filled);
    const lengthBytes = end - offset - lineEndBytes;
    if (lengthBytes > this.#lineBytesMax) return this.#refused(offset, lengthBytes);
    return this.#wholeLine(offset, end, hasNewline);
  }

  async #wholeLine(offset: number, end: number, hasNewline: boolean): Promise<ReaderEvent> {
    const bytes = allocate(end - offset);
    const got = await this.#file.read(bytes, offset);
    if (got < bytes.length || bytes.indexOf(LF) !== (hasNewline ? bytes.length - 1 : -1))
      throw new PerigeeError(
        "input_changed",
        `line ${this.#line} changed while it was read (offset ${offset})`,
      );
    return {
      kind: "block",
      block: { bytes: new Uint8Array(bytes.buffer), offset, firstLine: this.#line++, lineCount: 1 },
    };
  }

  get #canGrow(): boolean {
    return this.#chunk.length < this.#chunkBytes;
  }

  #grow(): void {
    const larger = Buffer.allocUnsafeSlow(this.#chunkBytes);
    this.#chunk.copy(larger, 0, 0, this.#held);
    this.#chunk = larger;
  }

  async #readInto(start: number): Promise<number> {
    this.#signal?.throwIfAborted();
    const wanted = Math.min(this.#chunk.length - start, this.#toOffset - this.#position);
    const got =
      wanted > 0 ? await this.#file.read(this.#chunk.subarray(start, start + wanted), this.#position) : 0;
    this.#position += got;
    // A short read is not the end: a stream returns what it has, so that its first items do not wait for a whole chunk.
    this.isDone = got === 0 || this.#position >= this.#toOffset;
    return got;
  }

  /** Moves what follows `from` to the start of the chunk. */
  #hold(from: number): void {
    this.#chunk.copyWithin(0, from, this.#filled);
    this.#held = this.#filled - from;
    this.#filled = this.#held;
  }

  /** Offset in the input of a byte of the chunk. */
  #offsetOf(index: number): number {
    return this.#position - this.#filled + index;
  }

  #block(bytes: Buffer, start: number, end: number, lineCount: number): ReaderEvent {
    const own = Buffer.allocUnsafeSlow(end - start); // not zeroed, and not from a pool: it can be transferred
    bytes.copy(own, 0, start, end);
    const firstLine = this.#line;
    this.#line += lineCount;
    this.#blockLinesMax = this.#fullBlockLines;
    return {
      kind: "block",
      block: { bytes: new Uint8Array(own.buffer), offset: this.#offsetOf(start), firstLine, lineCount },
    };
  }

  #refused(offset: number, lengthBytes: number): ReaderEvent {
    return { kind: "refused", refused: { line: this.#line++, offset, lengthBytes } };
  }
}
