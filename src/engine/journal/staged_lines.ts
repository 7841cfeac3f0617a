/**
 * Output lines of steps, end to end, in memory that is used again.
 *
 *   small (own memory) --beyond 256 KiB--> large (shared with the store's thread, which writes it without a copy)
 *   large -> its step is durable -> spare, for a later step
 *
 * Memory is taken fresh from the system page by page, 4 KiB at 1 us and more, and what is not given back waits for a collection of
 * the whole heap. With 300 MB of lines a second (embeddings) both took more than all else together.
 *
 * Limits: three spares, the largest, of 16 MiB each at most; what is not kept is collected.
 * Hot path: 0.5 us for a line of 3 KB (bench/jobs/embeddings.ts).
 */
import { crc32 } from "node:zlib";
import type { LineText } from "../../jsonl/write.ts";
import { allocateShared, isShared, noteLargeBytes } from "../../large_bytes.ts";
import type { WrittenValue } from "../../work/outcome.ts";
import { CombinedSums } from "./checksum.ts";
import type { SummedBytes } from "./output.ts";

const SMALL_BYTES_MIN = 16 * 1024;
const SMALL_BYTES_MAX = 256 * 1024;
const LARGE_BYTES_MIN = 1024 * 1024;
const SPARE_BYTES_MAX = 16 * 1024 * 1024;
const SPARES_MAX = 3;
/** Of UTF-8, for each UTF-16 unit. */
const UNIT_BYTES_MAX = 3;
/** From here on it takes less time to combine the checksum of a line with that of the lines before than to sum its bytes twice. */
const COMBINED_BYTES_MIN = 1024;

/** The large memory of all logs of a committer. */
export class LineMemory {
  /** The smallest first. */
  readonly #spares: Buffer[] = [];

  /** At least so many bytes: the largest spare, since a step that outgrows its memory is copied into larger. */
  take(bytesMin: number): Buffer {
    if ((this.#spares.at(-1)?.byteLength ?? 0) >= bytesMin) return this.#spares.pop() as Buffer; // it is there
    let bytes = LARGE_BYTES_MIN;
    while (bytes < bytesMin) bytes *= 2;
    return allocateShared(bytes);
  }

  /** What `take` returned, or a part of it: nobody reads or writes it any more. Other memory is left alone. */
  giveBack({ buffer }: Uint8Array): void {
    if (!isShared(buffer)) return;
    if (buffer.byteLength > SPARE_BYTES_MAX) {
      noteLargeBytes(buffer.byteLength);
      return;
    }
    this.#spares.push(Buffer.from(buffer));
    this.#spares.sort((one, other) => one.byteLength - other.byteLength);
    const dropped = this.#spares.length > SPARES_MAX ? this.#spares.shift() : undefined;
    if (dropped !== undefined) noteLargeBytes(dropped.byteLength);
  }
}

/** The lines of one step. */
export class StagedLines {
  readonly #memory: LineMemory;
  #buffer: Buffer = Buffer.alloc(0);
  #end = 0;
  /** CRC-32 of the bytes up to `#summedEnd`. */
  #crc32 = 0;
  #summedEnd = 0;
  readonly #sums = new CombinedSums();

  constructor(memory: LineMemory) {
    this.#memory = memory;
  }

  /** Of the line that was added: its bytes, and their CRC-32. */
  add(line: LineText): { readonly byteLength: number; readonly crc32: number } {
    const start = this.#end;
    if (typeof line === "string") this.#write(line);
    else {
      this.#write(line.before);
      this.#writeAscii(line.value);
      this.#write(line.after);
    }
    const bytes = this.#buffer.subarray(start, this.#end);
    const sum = crc32(bytes);
    if (bytes.byteLength >= COMBINED_BYTES_MIN) {
      this.#sumUpTo(start);
      this.#crc32 = this.#sums.combined(this.#crc32, sum, bytes.byteLength);
      this.#summedEnd = this.#end;
    }
    return { byteLength: bytes.byteLength, crc32: sum };
  }

  /** All of them, and their CRC-32: a view, which more lines must not follow. */
  all(): SummedBytes {
    this.#sumUpTo(this.#end);
    return { bytes: this.#buffer.subarray(0, this.#end), crc32: this.#crc32 };
  }

  #sumUpTo(end: number): void {
    if (end > this.#summedEnd) this.#crc32 = crc32(this.#buffer.subarray(this.#summedEnd, end), this.#crc32);
    this.#summedEnd = end;
  }

  #write(text: string): void {
    if (this.#end + text.length * UNIT_BYTES_MAX > this.#buffer.byteLength)
      this.#makeSpace(Buffer.byteLength(text));
    this.#end += this.#buffer.write(text, this.#end);
  }

  /**
   * Of a text a third of the time of UTF-8, which reads each character. Bytes are filled in: of 3 KB into shared memory `set` takes
   * 0.9 us, `fill` 0.2.
   */
  #writeAscii(value: WrittenValue): void {
    this.#makeSpace(value.length);
    const end = this.#end + value.length;
    if (typeof value === "string") this.#buffer.write(value, this.#end, "latin1");
    else this.#buffer.fill(value, this.#end, end);
    this.#end = end;
  }

  #makeSpace(bytes: number): void {
    const needed = this.#end + bytes;
    if (needed <= this.#buffer.byteLength) return;
    const before = this.#buffer;
    this.#buffer =
      needed <= SMALL_BYTES_MAX
        ? Buffer.allocUnsafeSlow(Math.min(SMALL_BYTES_MAX, Math.max(SMALL_BYTES_MIN, needed * 2)))
        : this.#memory.take(needed);
    this.#buffer.set(before.subarray(0, this.#end));
    this.#memory.giveBack(before);
  }
}
