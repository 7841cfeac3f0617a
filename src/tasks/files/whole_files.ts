/**
 * Checks whether the bytes of a stored file are those that were uploaded: before their first read in a process, and again if the file
 * was replaced or written to.
 *
 * Reading takes a second for a gigabyte.
 */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { type Disk, errorCodeOf } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import type { FileView } from "./files.ts";
import { onDisk } from "./upload.ts";

const READ_BYTES = 256 * 1024;
/** The most files whose state is remembered. */
const KNOWN_MAX = 10_000;

/** One for a folder of files. */
export class WholeFiles {
  readonly #disk: Disk;
  readonly #folder: string;
  /** The state in which each file was found whole. */
  readonly #known = new Map<string, string>();

  constructor(disk: Disk, folder: string) {
    this.#disk = disk;
    this.#folder = folder;
  }

  /** Throws `file_damaged`. `isStored` rejects if the file was removed meanwhile, and that error is thrown instead. */
  async check({ id, bytes, sha256 }: FileView, isStored: () => Promise<unknown>): Promise<void> {
    const now = await onDisk(this.#disk.stat(join(this.#folder, id)));
    const state = now === undefined ? "" : `${now.identity}:${now.modifiedMs}:${now.sizeBytes}`;
    if (now !== undefined && this.#known.get(id) === state) return;
    const what =
      now === undefined
        ? "it is missing"
        : now.sizeBytes !== bytes
          ? `it has ${now.sizeBytes} bytes instead of ${bytes}`
          : (await this.#hashOf(id)) === sha256
            ? undefined
            : "it does not match its checksum";
    if (what !== undefined) {
      await isStored();
      throw damagedFile(id, what);
    }
    if (this.#known.size >= KNOWN_MAX) this.#known.clear();
    this.#known.set(id, state);
  }

  /** Empty if it does not exist any more. */
  async #hashOf(id: string): Promise<string> {
    try {
      const file = await this.#disk.open(join(this.#folder, id), "read");
      try {
        const hash = createHash("sha256");
        const chunk = new Uint8Array(READ_BYTES);
        for (let position = 0; ; ) {
          const length = await onDisk(file.read(chunk, position));
          if (length === 0) return hash.digest("hex");
          hash.update(chunk.subarray(0, length));
          position += length;
        }
      } finally {
        await file.close();
      }
    } catch (error) {
      if (errorCodeOf(error) === "ENOENT") return "";
      throw error;
    }
  }
}

/** The error for a file whose bytes are not what was stored. */
export function damagedFile(id: string, what: string): PerigeeError {
  const message = `file ${id} is not what was stored: ${what}; store it again, or restore the data folder from a backup`;
  return new PerigeeError("file_damaged", message, { details: { fileId: id } });
}
