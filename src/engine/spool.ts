/**
 * Spools: inputs that cannot be read twice (pipes, iterables) are written beside the journal while they are read, so
 * that a shard can be loaded again and a restart can continue.
 *
 *   fresh:   source bytes -> spool -> reader
 *   restart: what the source repeats is compared with the spool and must be equal, then it goes on
 */
import type { Disk, DiskFile } from "../disk.ts";
import { PerigeeError } from "../errors.ts";

/**
 * A file that fills itself from a stream as it is read from front to back. A read waits for its first byte and gives
 * what is there: it may be short before the end, and only 0 bytes are the end.
 */
export class Spool implements DiskFile {
  readonly #file: DiskFile;
  readonly #source: AsyncIterator<Uint8Array>;
  #pending: Uint8Array = new Uint8Array(0);
  #comparedBytes = 0;
  #spooledBytes: number;
  #isEnded = false;
  #pull: Promise<void> | undefined;

  private constructor(file: DiskFile, spooledBytes: number, source: AsyncIterator<Uint8Array>) {
    this.#file = file;
    this.#spooledBytes = spooledBytes;
    this.#source = source;
  }

  static async open(disk: Disk, path: string, source: AsyncIterable<Uint8Array>): Promise<Spool> {
    const file = await disk.open(path, "write");
    return new Spool(file, await file.sizeBytes(), source[Symbol.asyncIterator]());
  }

  async read(into: Uint8Array, position: number): Promise<number> {
    while (!this.#isEnded && position >= this.#availableBytes) await this.#pullOnce();
    const length = Math.min(into.byteLength, Math.max(0, this.#availableBytes - position));
    return length === 0 ? 0 : await this.#file.read(into.subarray(0, length), position);
  }

  write(): Promise<void> {
    return Promise.reject(new Error("a spool is written by its source alone"));
  }

  truncate(): Promise<void> {
    return Promise.reject(new Error("a spool is written by its source alone"));
  }

  sync(): Promise<void> {
    return this.#file.sync();
  }

  sizeBytes(): Promise<number> {
    return Promise.resolve(this.#spooledBytes);
  }

  async close(): Promise<void> {
    await this.#source.return?.();
    await this.#file.close();
  }

  /** Bytes that the source has given in this process: what is spooled beyond them is not yet known to be its own. */
  get #availableBytes(): number {
    return Math.min(this.#comparedBytes, this.#spooledBytes);
  }

  #pullOnce(): Promise<void> {
    this.#pull ??= this.#pullNext().finally(() => {
      this.#pull = undefined;
    });
    return this.#pull;
  }

  async #pullNext(): Promise<void> {
    const next = await this.#source.next();
    if (next.done === true) {
      this.#isEnded = true;
      if (this.#comparedBytes < this.#spooledBytes) throw changed("ended earlier");
      return;
    }
    this.#pending = next.value;
    const known = Math.min(this.#pending.byteLength, this.#spooledBytes - this.#comparedBytes);
    if (known > 0) await this.#compare(this.#pending.subarray(0, known));
    const fresh = this.#pending.subarray(Math.max(0, known));
    if (fresh.byteLength > 0) {
      await this.#file.write(fresh, this.#spooledBytes);
      this.#spooledBytes += fresh.byteLength;
      this.#comparedBytes += fresh.byteLength;
    }
  }

  async #compare(bytes: Uint8Array): Promise<void> {
    const spooled = new Uint8Array(bytes.byteLength);
    await this.#file.read(spooled, this.#comparedBytes);
    if (Buffer.compare(spooled, bytes) !== 0) throw changed("differs");
    this.#comparedBytes += bytes.byteLength;
  }
}

function changed(how: string): PerigeeError {
  return new PerigeeError(
    "input_changed",
    `the input ${how} from what this run began with; use another --data for new input`,
  );
}
