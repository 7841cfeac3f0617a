/**
 * Space kept aside: a file that is given back when the disk is full, so that answers already paid for can still be
 * recorded.
 *
 *   held -> released (the disk is full) -> held (space is back)
 *
 * It is filled with random bytes, because file systems that compress or leave out zeros would keep no space for zeros.
 * It is not synced: the blocks are taken when they are written, and their content does not matter.
 */
import { randomFillSync } from "node:crypto";
import { closeSync, openSync, rmSync, statfsSync, statSync, writeSync } from "node:fs";
import { dirname } from "node:path";

const CHUNK_BYTES = 1 << 20;
/** Remade only when this many times its size is free, so that it does not fill the disk that was just freed. */
const FREE_FACTOR = 2;

/** One reserve file. A size of 0 keeps none. */
export class Reserve {
  readonly #path: string;
  readonly #sizeBytes: number;
  #isHeld = false;

  constructor(path: string, sizeBytes: number) {
    this.#path = path;
    this.#sizeBytes = sizeBytes;
  }

  /** Whether the space is set aside now. A reserve of size 0 counts as held until it is released. */
  get isHeld(): boolean {
    return this.#isHeld;
  }

  /** Takes the space if there is plenty; returns whether it is held. Whatever keeps it from that, the store works on. */
  take(): boolean {
    if (this.#isHeld) return true;
    try {
      this.#isHeld =
        sizeOf(this.#path) >= this.#sizeBytes || (this.#hasPlenty() && fill(this.#path, this.#sizeBytes));
    } catch {
      rmSync(this.#path, { force: true });
    }
    return this.#isHeld;
  }

  /** Gives the space back; returns whether there was any to give. */
  release(): boolean {
    const wasHeld = this.#isHeld;
    this.#isHeld = false;
    if (wasHeld) rmSync(this.#path, { force: true });
    return wasHeld && this.#sizeBytes > 0;
  }

  #hasPlenty(): boolean {
    const { bavail, bsize } = statfsSync(dirname(this.#path));
    return bavail * bsize >= this.#sizeBytes * FREE_FACTOR;
  }
}

function fill(path: string, sizeBytes: number): boolean {
  const file = openSync(path, "w", 0o600);
  try {
    const chunk = randomFillSync(Buffer.allocUnsafe(CHUNK_BYTES));
    for (let written = 0; written < sizeBytes; ) {
      written += writeSync(file, chunk, 0, Math.min(CHUNK_BYTES, sizeBytes - written));
    }
    return true;
  } finally {
    closeSync(file);
  }
}

function sizeOf(path: string): number {
  const found = statSync(path, { throwIfNoEntry: false });
  return found === undefined ? 0 : Math.min(found.size, found.blocks * 512 || found.size);
}
