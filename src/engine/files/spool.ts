/**
 * Spools: inputs that cannot be read twice (pipes, iterables) are written beside the journal while they are read, so
 * that a shard can be loaded again and a restart can continue.
 *
 *   fresh:   source bytes -> spool -> reader
 *   restart: what the source repeats is compared with the spool, then it continues
 *   sealed:  the run ends without the rest of its source: the input is the whole lines that have arrived
 *
 * A run syncs the spool before a line of it can be sent or settled. So a power cut loses or tears only lines that the
 * journal does not know: where the source repeats something else there, the spool is cut and written on; in a line
 * that is recorded, or before one, it is `input_changed`. While the disk is full nothing is taken from the source.
 */
import { type Disk, type DiskFile, errorCodeOf, isNoSpace } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import { checksumOf } from "../journal/checksum.ts";
import { asFailure } from "../journal/file_errors.ts";
import type { Room } from "../journal/room.ts";
import { type ByteSource, leaveSource } from "./byte_source.ts";

const LF = 0x0a;
const SCAN_BYTES = 1024 * 1024;

/** Where copies of inputs are kept. */
export interface SpoolHome {
  readonly disk: Disk;
  /** What waits for a disk that is full. */
  readonly room: Room;
  /** Ends that waiting. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * A file that fills itself from a stream as it is read from front to back. A read waits for its first byte and returns
 * what is there: it may be short before the end, and only 0 bytes are the end.
 */
export class Spool implements Pick<DiskFile, "read" | "close"> {
  /** Lines of the spool up to the last one that the journal knows; all of them until that is said. */
  recordedLines: number = Number.POSITIVE_INFINITY;
  readonly #file: DiskFile;
  readonly #room: Room;
  readonly #source: ByteSource;
  readonly #bytes: AsyncIterator<Uint8Array>;
  #spooledBytes: number;
  /** Changes of the file so far, and how many of them a sync has covered. The first sync covers what was there. */
  #writes = 0;
  #syncedWrites = -1;
  #syncing: Promise<void> = Promise.resolve();
  /** Bytes that the source has given in this process: what is spooled beyond them is not yet known to be its own. */
  #givenBytes = 0;
  /** Line ends in what was compared. */
  #comparedLines = 0;
  /** Offset after the last line end of the source so far. */
  #linesEnd = 0;
  #isOver = false;
  #isWhole = false;
  #pull: Promise<void> | undefined;
  #endPull: (() => void) | undefined;
  #storing: Promise<void> = Promise.resolve();
  /** Aborted when the source is left: nobody waits for space any more. */
  readonly #leaving = new AbortController();

  private constructor(file: DiskFile, room: Room, spooledBytes: number, source: ByteSource) {
    this.#file = file;
    this.#room = room;
    this.#spooledBytes = spooledBytes;
    this.#source = source;
    this.#bytes = source.bytes[Symbol.asyncIterator]();
  }

  static async open(home: SpoolHome, path: string, source: ByteSource): Promise<Spool> {
    const file = await home.room.waitFor(() => home.disk.open(path, "write"), { signal: home.signal });
    try {
      return new Spool(file, home.room, await file.sizeBytes(), source);
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /** Whether the source has ended by itself. */
  get isWhole(): boolean {
    return this.#isWhole;
  }

  /** What is spooled, also by an earlier process; does not wait for the source. */
  get stored(): Pick<DiskFile, "read"> {
    return this.#file;
  }

  async read(into: Uint8Array, position: number): Promise<number> {
    while (!this.#isOver && position >= this.#givenBytes) await this.#pullOnce();
    const length = Math.min(into.byteLength, Math.max(0, this.#givenBytes - position));
    return length === 0 ? 0 : await this.#file.read(into.subarray(0, length), position);
  }

  /**
   * Spools what the source has left, for as long as that is wanted. Resolves as well when the spool is closed or sealed
   * meanwhile; rejects as `read` does.
   */
  async readToEnd(isWanted: () => boolean): Promise<void> {
    while (!this.#isOver && isWanted()) await this.#pullOnce();
  }

  /**
   * Makes durable what was read so far. Rejects with `disk_full` or `store_failed`, and then at every later call: a
   * second sync that succeeds would prove nothing.
   */
  async sync(): Promise<void> {
    const writes = this.#writes;
    if (this.#syncedWrites >= writes) return;
    this.#syncing = this.#syncing.then(() => this.#syncUpTo(writes));
    await this.#syncing;
  }

  /** The input ends here, with the last whole line that arrived or that was recorded before. Durable when it resolves. */
  async seal(): Promise<void> {
    await this.#leave();
    if (!this.#isWhole) {
      this.#givenBytes = Math.max(this.#linesEnd, await this.#recordedEnd());
      if (this.#givenBytes < this.#spooledBytes) await this.#cut(this.#givenBytes);
    }
    await this.sync();
  }

  /** The input ends where an earlier process has sealed it. */
  async sealAgain(): Promise<void> {
    await this.#leave();
    this.#givenBytes = this.#spooledBytes;
  }

  /** Of what was read, once the source has ended or the spool is sealed. */
  async checksum(): Promise<string> {
    return String(await checksumOf(this.#file, this.#givenBytes));
  }

  async close(): Promise<void> {
    await this.#leave();
    await this.#file.close();
  }

  /** Releases the source; what it yields from now on is not taken. */
  async #leave(): Promise<void> {
    this.#isOver = true;
    this.#leaving.abort();
    this.#endPull?.();
    leaveSource(this.#source, this.#bytes);
    await this.#storing.catch(() => undefined); // the reader gets the error
  }

  #pullOnce(): Promise<void> {
    this.#pull ??= new Promise<void>((resolve, reject) => {
      this.#endPull = resolve;
      this.#pullNext().then(resolve, reject);
    }).finally(() => {
      this.#pull = undefined;
    });
    return this.#pull;
  }

  async #pullNext(): Promise<void> {
    const next = await this.#bytes.next();
    if (this.#isOver) return;
    this.#storing = next.done === true ? this.#end() : this.#store(next.value);
    await this.#storing.catch(rethrowWriteError);
  }

  async #end(): Promise<void> {
    if (this.#givenBytes < this.#spooledBytes) {
      if (this.#comparedLines < this.recordedLines && (await this.#recordedEnd()) > this.#givenBytes)
        throw streamChanged("shorter");
      await this.#cut(this.#givenBytes);
    }
    this.#isOver = true;
    this.#isWhole = true;
  }

  async #store(bytes: Uint8Array): Promise<void> {
    const equal = await this.#equalBytes(bytes);
    const known = this.#knownBytes(bytes.subarray(0, equal));
    if (this.#givenBytes < this.#spooledBytes) this.#comparedLines += lineEnds(bytes.subarray(0, equal));
    if (equal < bytes.byteLength && this.#givenBytes + equal < this.#spooledBytes) {
      if (this.#comparedLines < this.recordedLines) throw streamChanged("other");
      await this.#cut(this.#givenBytes + equal);
    }
    if (known < bytes.byteLength) {
      await this.#write(bytes.subarray(known), this.#givenBytes + known);
      this.#spooledBytes = Math.max(this.#spooledBytes, this.#givenBytes + bytes.byteLength);
    }
    const lineEnd = bytes.lastIndexOf(LF) + 1;
    if (lineEnd > 0) this.#linesEnd = this.#givenBytes + lineEnd;
    this.#givenBytes += bytes.byteLength;
  }

  /**
   * How many of the bytes in the spool belong to recorded lines. The others are written once more: the sync
   * of an earlier process may have failed over them, and such bytes are read back whole and never written
   * (https://lwn.net/Articles/752063/). The journal has no line of them, because it waits for that sync.
   */
  #knownBytes(equal: Uint8Array): number {
    let end = 0;
    for (let lines = this.#comparedLines; lines < this.recordedLines; lines += 1) {
      const lineEnd = equal.indexOf(LF, end);
      if (lineEnd < 0) return equal.byteLength;
      end = lineEnd + 1;
    }
    return end;
  }

  async #write(bytes: Uint8Array, position: number): Promise<void> {
    const { signal } = this.#leaving;
    await this.#room.waitFor(() => this.#file.write(bytes, position), { signal });
    this.#writes += 1;
  }

  async #syncUpTo(writes: number): Promise<void> {
    if (this.#syncedWrites >= writes) return;
    const covered = this.#writes;
    await this.#file.sync().catch(rethrowWriteError);
    this.#syncedWrites = covered;
  }

  /** How many of the bytes are in the spool already, where the source is. */
  async #equalBytes(bytes: Uint8Array): Promise<number> {
    const known = Math.min(bytes.byteLength, this.#spooledBytes - this.#givenBytes);
    if (known <= 0) return 0;
    const spooled = new Uint8Array(known);
    await this.#file.read(spooled, this.#givenBytes);
    if (Buffer.compare(spooled, bytes.subarray(0, known)) === 0) return known;
    return spooled.findIndex((byte, index) => byte !== bytes[index]);
  }

  async #cut(sizeBytes: number): Promise<void> {
    await this.#file.truncate(sizeBytes).catch(rethrowWriteError);
    this.#spooledBytes = sizeBytes;
    this.#writes += 1;
  }

  /** Offset after the last recorded line. */
  async #recordedEnd(): Promise<number> {
    const chunk = new Uint8Array(SCAN_BYTES);
    let lines = 0;
    for (let position = 0; position < this.#spooledBytes; ) {
      if (lines >= this.recordedLines) return position;
      const bytes = chunk.subarray(0, await this.#file.read(chunk, position));
      if (bytes.byteLength === 0) break;
      const lineEnd = bytes.indexOf(LF);
      const all = lineEnds(bytes);
      if (lines + all < this.recordedLines || lineEnd < 0) {
        lines += all;
        position += bytes.byteLength;
        continue;
      }
      let end = 0;
      for (; lines < this.recordedLines; lines += 1) end = bytes.indexOf(LF, end) + 1;
      return position + end;
    }
    return this.recordedLines > 0 ? this.#spooledBytes : 0;
  }
}

export function lineEnds(bytes: Uint8Array): number {
  let count = 0;
  for (let at = bytes.indexOf(LF); at >= 0; at = bytes.indexOf(LF, at + 1)) count += 1;
  return count;
}

function rethrowWriteError(error: unknown): never {
  const code = errorCodeOf(error);
  if (error instanceof PerigeeError || code === undefined || isNoSpace(code)) throw asFailure(error);
  throw new PerigeeError("store_failed", `the copy of the input could not be written or synced (${code})`, {
    cause: error,
  });
}

/** The command line replaces these words (cli/run/library_words.ts). */
export const SAME_STREAM = "return the same lines again, or use another out or id for a new run";

const CHANGES = {
  longer: "the input has more lines than the one that this run has answered",
  shorter: "the input ends before the lines that this run has begun do",
  other: "the input has other lines than the one that this run began with",
} as const;

/** A stream is not the one that its run began with. */
export function streamChanged(change: keyof typeof CHANGES): PerigeeError {
  return new PerigeeError("input_changed", `${CHANGES[change]}; ${SAME_STREAM}`);
}
