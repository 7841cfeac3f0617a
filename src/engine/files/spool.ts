/**
 * Spools: inputs that cannot be read twice (pipes, iterables) are written beside the journal while they are read, so
 * that a shard can be loaded again and a restart can continue.
 *
 *   fresh:   source bytes -> spool -> reader
 *   restart: what the source repeats is compared with the spool, then it continues
 *   sealed:  the run ends without the rest of its source: the input is the whole lines that have arrived, or all of an array
 *
 * A run syncs the spool before a line of it can be sent or settled. So a power cut loses or tears only lines that the
 * journal does not know: where the source repeats something else there, the spool is cut and written on; in a line
 * that is recorded, or before one, it is `input_changed`. While the disk is full nothing is taken from the source.
 */
import type { Disk, DiskFile } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import { lineEnds } from "../../jsonl/lines.ts";
import { checksumOf } from "../journal/checksum.ts";
import type { DiskSpace } from "../journal/disk_space.ts";
import { type ByteSource, leaveSource } from "./byte_source.ts";
import { rethrowWriteError, SpoolFile } from "./spool_file.ts";

const LF = 0x0a;

/** Where copies of inputs are kept. */
export interface SpoolHome {
  readonly disk: Disk;
  /** What waits for a disk that is full. */
  readonly room: DiskSpace;
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
  readonly #file: SpoolFile;
  readonly #source: ByteSource;
  readonly #bytes: AsyncIterator<Uint8Array>;
  /** Bytes that the source has given in this process: what is spooled beyond them is not yet known to be its own. */
  #givenBytes = 0;
  /** Line ends in what was compared. */
  #comparedLines = 0;
  /** Offset after the last line end of the source so far. */
  #linesEnd = 0;
  /** Whether more is taken from the source; it was left, or has ended by itself. */
  #state: "open" | "left" | "whole" = "open";
  /** What is awaited of the source, and how to stop waiting. */
  #pull: { readonly ended: Promise<void>; readonly end: () => void } | undefined;
  #storing: Promise<void> = Promise.resolve();

  private constructor(file: SpoolFile, source: ByteSource) {
    this.#file = file;
    this.#source = source;
    this.#bytes = source.bytes[Symbol.asyncIterator]();
  }

  static async open(home: SpoolHome, path: string, source: ByteSource): Promise<Spool> {
    const file = await home.room.waitFor(() => home.disk.open(path, "write"), { signal: home.signal });
    try {
      return new Spool(new SpoolFile(file, home.room, await file.sizeBytes()), source);
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /** Whether the source has ended by itself. */
  get isWhole(): boolean {
    return this.#state === "whole";
  }

  /** What is spooled, also by an earlier process; does not wait for the source. */
  get stored(): Pick<DiskFile, "read"> {
    return this.#file.stored;
  }

  async read(into: Uint8Array, position: number): Promise<number> {
    while (this.#state === "open" && position >= this.#givenBytes) await this.#pullOnce();
    const length = Math.min(into.byteLength, Math.max(0, this.#givenBytes - position));
    return length === 0 ? 0 : await this.#file.stored.read(into.subarray(0, length), position);
  }

  /**
   * Spools what the source has left, for as long as that is wanted. Resolves as well when the spool is closed or sealed
   * meanwhile; rejects as `read` does.
   */
  async readToEnd(isWanted: () => boolean): Promise<void> {
    while (this.#state === "open" && isWanted()) await this.#pullOnce();
  }

  /**
   * Makes durable what was read so far. Rejects with `disk_full` or `store_failed`, and then at every later call: a
   * second sync that succeeds would prove nothing.
   */
  async sync(): Promise<void> {
    await this.#file.sync();
  }

  /**
   * The input ends here, with the last whole line that arrived or that was recorded before; with its own end where all of it is
   * there. Durable when it resolves.
   */
  async seal(): Promise<void> {
    if (this.#source.isThere === true) await this.readToEnd(() => true);
    await this.#leave();
    if (!this.isWhole) {
      this.#givenBytes = Math.max(this.#linesEnd, await this.#file.endOf(this.recordedLines));
      if (this.#givenBytes < this.#file.sizeBytes) await this.#file.cut(this.#givenBytes);
    }
    await this.sync();
  }

  /** The input ends where an earlier process has sealed it. */
  async sealAgain(): Promise<void> {
    await this.#leave();
    this.#givenBytes = this.#file.sizeBytes;
  }

  /** Of what was read, once the source has ended or the spool is sealed. */
  async checksum(): Promise<string> {
    return String(await checksumOf(this.#file.stored, this.#givenBytes));
  }

  async close(): Promise<void> {
    await this.#leave();
    await this.#file.close();
  }

  /** Releases the source; what it yields from now on is not taken. */
  async #leave(): Promise<void> {
    if (this.#state === "open") this.#state = "left";
    this.#file.leave();
    this.#pull?.end();
    leaveSource(this.#source, this.#bytes);
    await this.#storing.catch(() => undefined); // the reader gets the error
  }

  #pullOnce(): Promise<void> {
    if (this.#pull !== undefined) return this.#pull.ended;
    let settle: { resolve: () => void; reject: (error: unknown) => void } | undefined;
    const ended = new Promise<void>((resolve, reject) => {
      settle = { resolve, reject };
    }).finally(() => {
      this.#pull = undefined;
    });
    this.#pull = { ended, end: () => settle?.resolve() };
    this.#pullNext().then(settle?.resolve, settle?.reject);
    return ended;
  }

  async #pullNext(): Promise<void> {
    const next = await this.#bytes.next();
    if (this.#state !== "open") return;
    this.#storing = next.done === true ? this.#end() : this.#store(next.value);
    await this.#storing.catch(rethrowWriteError);
  }

  async #end(): Promise<void> {
    if (this.#givenBytes < this.#file.sizeBytes) {
      if (
        this.#comparedLines < this.recordedLines &&
        (await this.#file.endOf(this.recordedLines)) > this.#givenBytes
      )
        throw streamChanged("shorter");
      await this.#file.cut(this.#givenBytes);
    }
    this.#state = "whole";
  }

  async #store(bytes: Uint8Array): Promise<void> {
    const equal = await this.#file.equalBytes(bytes, this.#givenBytes);
    const known = this.#knownBytes(bytes.subarray(0, equal));
    if (this.#givenBytes < this.#file.sizeBytes) this.#comparedLines += lineEnds(bytes.subarray(0, equal));
    if (equal < bytes.byteLength && this.#givenBytes + equal < this.#file.sizeBytes) {
      if (this.#comparedLines < this.recordedLines) throw streamChanged("other");
      await this.#file.cut(this.#givenBytes + equal);
    }
    if (known < bytes.byteLength) {
      await this.#file.write(bytes.subarray(known), this.#givenBytes + known);
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
