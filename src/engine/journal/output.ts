/**
 * The output file of one task: appended in whole lines, synced, checked and cut after a crash.
 *
 * `end` is the first byte after perigee's own: what is beyond it (a torn tail) is overwritten or cut. The checksum of all up
 * to there is put together from those of the ranges, so that the end of a run can be compared with what is on the disk.
 */
import assert from "node:assert/strict";
import { crc32 } from "node:zlib";
import type { Disk, DiskFile } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import type { OutputWrite } from "../../store/store.ts";
import { changeOf } from "./changed_file.ts";
import { checksumOf, combineCrc32, lengthOf } from "./checksum.ts";

/** A range of the output that its log has claimed, and the write that fills it. */
export interface ClaimedRange {
  readonly range: WrittenRange;
  /** Absent for an empty range. */
  readonly write: OutputWrite | undefined;
}

/** Bytes and their CRC-32. */
export interface SummedBytes {
  readonly bytes: Uint8Array;
  readonly crc32: number;
}

/** Sums them. */
export function summed(bytes: Uint8Array): SummedBytes {
  return { bytes, crc32: crc32(bytes) };
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
  /** Of the bytes up to `end`. */
  #crc32 = 0;
  /** Before the last claim. */
  #before: { readonly end: number; readonly crc32: number } = { end: 0, crc32: 0 };

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

  /** Of the bytes up to `end`. */
  get crc32(): number {
    return this.#crc32;
  }

  /** Takes the range at the end for these bytes, which somebody else writes; `rewind` to its start if they could not. */
  claim({ bytes, crc32: sum }: SummedBytes): ClaimedRange {
    const outStart = this.#end;
    if (bytes.byteLength === 0)
      return { range: { outStart, outEnd: outStart, outCrc32: 0 }, write: undefined };
    this.#end = outStart + bytes.byteLength;
    const range = { outStart, outEnd: this.#end, outCrc32: sum };
    this.#before = { end: outStart, crc32: this.#crc32 };
    this.#crc32 = combineCrc32(this.#crc32, range.outCrc32, bytes.byteLength);
    return { range, write: { file: this.#file, position: outStart, bytes } };
  }

  /** For callers that read it piece by piece. */
  get file(): Pick<DiskFile, "read"> {
    return this.#file;
  }

  sync(): Promise<void> {
    return this.#file.sync();
  }

  /** The checksum of the file up to there, or up to its end. */
  async checksum(end: number): Promise<string> {
    return String(await checksumOf(this.#file, end));
  }

  /** What another program did to the file; undefined if the file does not show it. */
  change(): Promise<string | undefined> {
    return changeOf(this.#file);
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

  /** Takes the last claim back without touching the file: what follows is written over. */
  rewind(end: number): void {
    assert(end === this.#before.end);
    this.resume(end, this.#before.crc32);
  }

  /** Continues after bytes with this checksum. */
  resume(end: number, crc: number): void {
    this.#end = end;
    this.#crc32 = crc;
    this.#before = { end, crc32: crc };
  }

  /** Makes the file longer; the new bytes are 0. */
  async extend(sizeBytes: number): Promise<void> {
    await this.#file.truncate(sizeBytes);
    this.#end = sizeBytes;
  }

  /** Makes `end` the end of the file. */
  async cut(): Promise<void> {
    if ((await this.#file.sizeBytes()) !== this.#end) await this.#file.truncate(this.#end);
  }

  close(): Promise<void> {
    return this.#file.close();
  }
}

/** How a caller rewrites an output; the command line replaces these words (cli/run/library_words.ts). */
export const CALL_AGAIN = "call run again with the same options";

/** Names an output that is continued although it is damaged, for the operator. */
export function damageNotice(path: string): string {
  return `${path} does not hold what was written to it: its damaged answers are shown as output_damaged; restore it from a backup while the service is stopped`;
}

/** The error `output_changed`. `found`: checksum of the file up to `end`, undefined without a file; `change`: result of `changeOf`. */
export function outputChanged(
  path: string,
  found: string | undefined,
  end: number,
  change = "was moved, cut or changed",
): PerigeeError {
  const sizeBytes = found === undefined ? undefined : lengthOf(found);
  const what =
    sizeBytes === undefined
      ? "does not exist"
      : sizeBytes === end
        ? "does not hold what was written to it"
        : `has ${sizeBytes} bytes instead of ${end}`;
  return new PerigeeError(
    "output_changed",
    `${path} ${what}: it ${change}; put it back, or ${CALL_AGAIN} to rewrite it from the lines that are left and request only the missing answers`,
    { details: { path } },
  );
}
