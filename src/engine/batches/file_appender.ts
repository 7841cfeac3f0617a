/**
 * Appends small pieces to a file in large writes, while more of them are added.
 *
 *   a piece -> the open chunk --full, or all is to be written--> waits, its bytes are seen once --> written
 *
 * Limits: chunks of 16 KiB at first, because most batches are small, and twice as much each time up to 1 MiB; a larger piece has its own. Of
 * those that wait the caller bounds the bytes (`unwrittenBytes`).
 */
import type { Disk, DiskFile } from "../../disk.ts";

const CHUNK_BYTES = 16 * 1024;
const CHUNK_BYTES_MAX = 1024 * 1024;
/** UTF-8 of one unit of a JavaScript text takes so many bytes at most. */
const UNIT_BYTES_MAX = 3;
const NEWLINE = 0x0a;

/** One for a file that nobody else writes. */
export class FileAppender {
  readonly #disk: Disk;
  readonly #path: string;
  readonly #see: (bytes: Uint8Array) => void;
  #file: DiskFile | undefined;
  #chunk: Buffer = Buffer.alloc(0);
  #used = 0;
  readonly #waiting: Buffer[] = [];
  #writing: Promise<void> | undefined;
  #writtenBytes = 0;
  bytes = 0;

  /** `see` is passed all bytes in their order, each once, before they are written. */
  constructor(disk: Disk, path: string, see: (bytes: Uint8Array) => void = () => undefined) {
    this.#disk = disk;
    this.#path = path;
    this.#see = see;
  }

  get unwrittenBytes(): number {
    return this.bytes - this.#writtenBytes;
  }

  /** Adds a copy, and a newline. */
  addLine(line: Uint8Array): void {
    this.#reserve(line.byteLength + 1);
    this.#chunk.set(line, this.#used);
    this.#chunk[this.#used + line.byteLength] = NEWLINE;
    this.#take(line.byteLength + 1);
  }

  /** Adds a text; returns its bytes. */
  addText(text: string): number {
    this.#reserve(text.length * UNIT_BYTES_MAX);
    const bytes = this.#chunk.write(text, this.#used);
    this.#take(bytes);
    return bytes;
  }

  /** Resolves when all that was added is written; rejects as the disk does, and may be called again then. */
  async written(): Promise<void> {
    while (this.unwrittenBytes > 0) {
      this.#close();
      await this.#write();
    }
  }

  /** More after all that was added. */
  async writeAt(bytes: Uint8Array): Promise<void> {
    const file = await this.#opened();
    await file.write(bytes, this.#writtenBytes);
  }

  async close(): Promise<void> {
    const file = await this.#opened();
    await file.sync();
    await file.close();
    this.#file = undefined;
  }

  async abandon(): Promise<void> {
    await this.#writing?.catch(() => undefined);
    await this.#file?.close();
    this.#file = undefined;
  }

  /** Room for so many bytes in the open chunk. */
  #reserve(bytes: number): void {
    if (this.#used + bytes <= this.#chunk.byteLength) return;
    if (this.#used > 0) {
      this.#close();
      void this.#write().catch(() => undefined); // `written` says why
    }
    if (this.#chunk.byteLength >= bytes) return;
    const usual = Math.min(CHUNK_BYTES_MAX, Math.max(CHUNK_BYTES, this.bytes)); // as much as all before
    this.#chunk = Buffer.allocUnsafeSlow(Math.max(usual, bytes));
  }

  #take(bytes: number): void {
    this.#used += bytes;
    this.bytes += bytes;
  }

  /** What the open chunk holds waits to be written. */
  #close(): void {
    if (this.#used === 0) return;
    const bytes = this.#chunk.subarray(0, this.#used);
    this.#chunk = Buffer.alloc(0);
    this.#used = 0;
    this.#see(bytes);
    this.#waiting.push(bytes);
  }

  /** One write at a time. */
  #write(): Promise<void> {
    this.#writing ??= this.#writeWaiting().finally(() => {
      this.#writing = undefined;
    });
    return this.#writing;
  }

  async #writeWaiting(): Promise<void> {
    for (let bytes = this.#waiting[0]; bytes !== undefined; bytes = this.#waiting[0]) {
      const file = await this.#opened();
      await file.write(bytes, this.#writtenBytes);
      this.#writtenBytes += bytes.byteLength;
      this.#waiting.shift();
    }
  }

  async #opened(): Promise<DiskFile> {
    if (this.#file === undefined) {
      this.#file = await this.#disk.open(this.#path, "write");
      if (this.#writtenBytes === 0) await this.#file.truncate(0);
    }
    return this.#file;
  }
}
