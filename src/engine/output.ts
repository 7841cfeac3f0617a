/**
 * The output file of one task: appended in whole lines, synced, checked and cut after a crash.
 *
 * `end` is the first byte that is not ours: what stands beyond it (a torn tail) is overwritten or cut.
 */
import { crc32 } from "node:zlib";
import type { Disk, DiskFile } from "../disk.ts";
import type { OutputWrite } from "../store/store.ts";

/** A range of the output that its log has claimed, and the write that fills it. */
export interface ClaimedRange {
  readonly range: WrittenRange;
  /** None for an empty range. */
  readonly write: OutputWrite | undefined;
}

/** A range of the output and the checksum of its bytes. */
export interface WrittenRange {
  readonly outStart: number;
  readonly outEnd: number;
  readonly outCrc32: number;
}

/** One appender at a time; readers may read what is before `end`. */
export class OutputFile {
  readonly path: string;
  readonly #file: DiskFile;
  #end: number;

  private constructor(path: string, file: DiskFile, end: number) {
    this.path = path;
    this.#file = file;
    this.#end = end;
  }

  /** Opens or makes the file; `end` starts at its size. */
  static async open(disk: Disk, path: string): Promise<OutputFile> {
    const file = await disk.open(path, "write");
    return new OutputFile(path, file, await file.sizeBytes());
  }

  get end(): number {
    return this.#end;
  }

  /** Takes the range at the end for these bytes, which somebody else writes; `rewind` to its start if they could not. */
  claim(bytes: Uint8Array): ClaimedRange {
    const outStart = this.#end;
    if (bytes.byteLength === 0)
      return { range: { outStart, outEnd: outStart, outCrc32: 0 }, write: undefined };
    this.#end = outStart + bytes.byteLength;
    const range = { outStart, outEnd: this.#end, outCrc32: crc32(bytes) };
    return { range, write: { file: this.#file, position: outStart, bytes } };
  }

  sync(): Promise<void> {
    return this.#file.sync();
  }

  /** Bytes `start` to `end`, fewer when the file is shorter. */
  async read(start: number, end: number): Promise<Uint8Array> {
    const bytes = new Uint8Array(Math.max(0, end - start));
    return bytes.subarray(0, await this.#file.read(bytes, start));
  }

  /**
   * Whether the range holds the bytes that were written there; they are then written and synced once more. The sync of
   * the process before may have failed: Linux forgets such pages, reads them back whole, and never writes them
   * (https://lwn.net/Articles/752063/).
   */
  async renew(range: WrittenRange): Promise<boolean> {
    const bytes = await this.read(range.outStart, range.outEnd);
    if (bytes.byteLength !== range.outEnd - range.outStart || crc32(bytes) !== range.outCrc32) return false;
    await this.#file.write(bytes, range.outStart);
    await this.#file.sync();
    return true;
  }

  /** Moves `end` back without touching the file: what follows is written over. */
  rewind(end: number): void {
    this.#end = end;
  }

  /** Makes `end` the end of the file. */
  async cut(end: number): Promise<void> {
    await this.#file.truncate(end);
    this.#end = end;
  }

  close(): Promise<void> {
    return this.#file.close();
  }
}
