/**
 * The input of a run while it is read: notes whether the file is still what it was when the run was opened.
 *
 *   as it was --size, time or file differ after a read--> other          and never back: bytes that were read meanwhile may be torn
 *                                                          \-> altered   the file that is open, not another one of its name
 *
 * The state is read after each read of the input, which is a mebibyte. A copy and a stream's spool are the engine's own, and are not watched.
 */
import type { Disk, DiskFile } from "../../disk.ts";
import type { OpenInput } from "../files/input.ts";

export class WatchedInput implements Pick<DiskFile, "read"> {
  readonly #disk: Pick<Disk, "stat">;
  readonly #input: Pick<OpenInput, "file" | "identity" | "copyPath">;
  /** Whether a line that cannot be read may be a torn one. */
  isOther = false;
  /** Whether the open file holds other bytes, perhaps. */
  isAltered = false;

  constructor(disk: Pick<Disk, "stat">, input: Pick<OpenInput, "file" | "identity" | "copyPath">) {
    this.#disk = disk;
    this.#input = input;
  }

  async read(into: Uint8Array, position: number): Promise<number> {
    const length = await this.#input.file.read(into, position);
    await this.#look();
    return length;
  }

  async #look(): Promise<void> {
    const { identity: before, copyPath } = this.#input;
    if (before === undefined || copyPath !== undefined || this.isAltered) return;
    const now = await this.#disk.stat(before.name);
    const isSameFile = now?.identity === before.identity;
    if (isSameFile && now.sizeBytes === before.sizeBytes && now.modifiedMs === before.modifiedMs) return;
    this.isOther = true;
    this.isAltered = isSameFile;
  }
}
