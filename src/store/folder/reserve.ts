/**
 * Space kept aside: a file that is cut or closed when the disk is full, so that answers already paid for can still be
 * recorded.
 *
 *   held -> its last 1 MiB (the disk is full) -> 32 KiB less each time that a commit finds no space -> empty
 *   any of them -> held (space is back: as much of it as fits)
 *
 * The last of it in slices, because other programs may take what is free at once: a slice is used within the same turn.
 *
 * The file has no name once it is filled, so that its blocks are free again when the process ends, in any way. It is
 * filled with random bytes, because file systems that compress or leave out zeros would keep no space for zeros.
 * It is not synced: the blocks are taken when they are written, and their content does not matter.
 *
 * On a small disk it is a quarter of the free space; below 1 MiB of free space there is no reserve.
 */
import { randomFillSync } from "node:crypto";
import { closeSync, ftruncateSync, openSync, rmSync, statfsSync, writeSync } from "node:fs";
import { dirname } from "node:path";

const CHUNK_BYTES = 1 << 20;
/** All of it is taken only where this many times its size is free, so that it does not fill the disk that was just freed. */
const FREE_FACTOR = 2;
/** Of less than that, this part. */
const SMALL_DISK_SHARE = 4;
const RESERVE_BYTES_MIN = 256 << 10;
/** What is released in slices: a disk with less free space has no reserve. */
const LAST_BYTES = RESERVE_BYTES_MIN * SMALL_DISK_SHARE;
const SLICE_BYTES = 32 << 10;

/** One reserve file. A size of 0: no file. */
export class Reserve {
  readonly #path: string;
  readonly #sizeBytes: number;
  #isHeld = false;
  /** Of the file; also while slices are released. */
  #bytes = 0;
  /** The file that has no name any more. */
  #descriptor: number | undefined;

  constructor(path: string, sizeBytes: number) {
    this.#path = path;
    this.#sizeBytes = sizeBytes;
    rmSync(path, { force: true }); // of an earlier version, or of a process that died while it was being filled
  }

  /** Whether the space is set aside now. A reserve of size 0 counts as held until it is released. */
  get isHeld(): boolean {
    return this.#isHeld;
  }

  /** Takes the space if there is plenty; returns whether it is held. After any failure of it, the store works on. */
  take(): boolean {
    if (this.#isHeld) return true;
    try {
      if (this.#sizeBytes > 0 && this.#bytesNow() === 0) return false; // what is left of the last one stays set aside
      this.close();
      this.#bytes = this.#bytesNow();
      if (this.#bytes > 0) this.#descriptor = fill(this.#path, this.#bytes);
      this.#isHeld = this.#bytes > 0 || this.#sizeBytes === 0;
    } catch {
      // After any failure it is tried again.
    }
    return this.#isHeld;
  }

  /** Frees all but the last 1 MiB, then a slice of that with each call; false when it is empty. Call it again while a commit finds no space. */
  release(): boolean {
    this.#isHeld = false;
    if (this.#descriptor === undefined) return false;
    this.#bytes = this.#bytes > LAST_BYTES ? LAST_BYTES : this.#bytes - SLICE_BYTES;
    if (this.#bytes <= 0) this.close();
    else ftruncateSync(this.#descriptor, this.#bytes);
    return true;
  }

  /** Frees all of it. */
  close(): void {
    this.#isHeld = false;
    if (this.#descriptor !== undefined) closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }

  /** 0 when there is not enough to take any. */
  #bytesNow(): number {
    const { bavail, bsize } = statfsSync(dirname(this.#path));
    const freeBytes = bavail * bsize;
    if (freeBytes >= this.#sizeBytes * FREE_FACTOR) return this.#sizeBytes;
    const bytes = Math.floor(freeBytes / SMALL_DISK_SHARE);
    return bytes >= Math.min(this.#sizeBytes, RESERVE_BYTES_MIN) ? bytes : 0;
  }
}

/** The open file, which has lost its name. */
function fill(path: string, sizeBytes: number): number {
  const file = openSync(path, "w", 0o600);
  try {
    rmSync(path, { force: true });
    const chunk = randomFillSync(Buffer.allocUnsafe(CHUNK_BYTES));
    for (let written = 0; written < sizeBytes; ) {
      written += writeSync(file, chunk, 0, Math.min(CHUNK_BYTES, sizeBytes - written));
    }
    return file;
  } catch (error) {
    closeSync(file);
    throw error;
  }
}
