/**
 * The file of a spool (spool.ts): what is written in it, and what a sync has covered.
 *
 *   written or cut -> synced;  a sync that failed -> every later sync fails
 *
 * While the disk is full, a write waits for space until the file is left.
 */
import { type DiskFile, errorCodeOf, isNoSpace } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import { lineEnds } from "../../jsonl/lines.ts";
import type { DiskSpace } from "../journal/disk_space.ts";
import { asFailure } from "../journal/file_errors.ts";

const LF = 0x0a;
const SCAN_BYTES = 1024 * 1024;

/** One for each spool. */
export class SpoolFile {
  readonly #file: DiskFile;
  readonly #room: DiskSpace;
  #sizeBytes: number;
  /** Changes of the file so far, and how many of them a sync has covered. The first sync covers what was there. */
  #writes = 0;
  #syncedWrites = -1;
  #syncing: Promise<void> = Promise.resolve();
  /** Aborted when the source is left: nobody waits for space any more. */
  readonly #leaving = new AbortController();

  constructor(file: DiskFile, room: DiskSpace, sizeBytes: number) {
    this.#file = file;
    this.#room = room;
    this.#sizeBytes = sizeBytes;
  }

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /** Its bytes, of earlier processes too. */
  get stored(): Pick<DiskFile, "read"> {
    return this.#file;
  }

  async write(bytes: Uint8Array, position: number): Promise<void> {
    const { signal } = this.#leaving;
    await this.#room.waitFor(() => this.#file.write(bytes, position), { signal });
    this.#writes += 1;
    this.#sizeBytes = Math.max(this.#sizeBytes, position + bytes.byteLength);
  }

  async cut(sizeBytes: number): Promise<void> {
    await this.#file.truncate(sizeBytes).catch(rethrowWriteError);
    this.#sizeBytes = sizeBytes;
    this.#writes += 1;
  }

  /** Makes durable what was written so far. Rejects at every later call when one has failed: a second sync would prove nothing. */
  async sync(): Promise<void> {
    const writes = this.#writes;
    if (this.#syncedWrites >= writes) return;
    this.#syncing = this.#syncing.then(() => this.#syncUpTo(writes));
    await this.#syncing;
  }

  /** How many of the bytes it has from `position` on. */
  async equalBytes(bytes: Uint8Array, position: number): Promise<number> {
    const known = Math.min(bytes.byteLength, this.#sizeBytes - position);
    if (known <= 0) return 0;
    const stored = new Uint8Array(known);
    await this.#file.read(stored, position);
    if (Buffer.compare(stored, bytes.subarray(0, known)) === 0) return known;
    return stored.findIndex((byte, index) => byte !== bytes[index]);
  }

  /** Offset after so many lines; its size if it has fewer. */
  async endOf(linesMax: number): Promise<number> {
    const chunk = new Uint8Array(SCAN_BYTES);
    let lines = 0;
    for (let position = 0; position < this.#sizeBytes; ) {
      if (lines >= linesMax) return position;
      const bytes = chunk.subarray(0, await this.#file.read(chunk, position));
      if (bytes.byteLength === 0) break;
      const lineEnd = bytes.indexOf(LF);
      const all = lineEnds(bytes);
      if (lines + all < linesMax || lineEnd < 0) {
        lines += all;
        position += bytes.byteLength;
        continue;
      }
      let end = 0;
      for (; lines < linesMax; lines += 1) end = bytes.indexOf(LF, end) + 1;
      return position + end;
    }
    return linesMax > 0 ? this.#sizeBytes : 0;
  }

  /** Ends waits for space. */
  leave(): void {
    this.#leaving.abort();
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  async #syncUpTo(writes: number): Promise<void> {
    if (this.#syncedWrites >= writes) return;
    const covered = this.#writes;
    await this.#file.sync().catch(rethrowWriteError);
    this.#syncedWrites = covered;
  }
}

/** Throws what a failed write says to the caller of the run. */
export function rethrowWriteError(error: unknown): never {
  const code = errorCodeOf(error);
  if (error instanceof PerigeeError || code === undefined || isNoSpace(code)) throw asFailure(error);
  throw new PerigeeError("store_failed", `the copy of the input could not be written or synced (${code})`, {
    cause: error,
  });
}
