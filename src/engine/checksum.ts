/**
 * Checksums of inputs: whether what is read now is what was read before.
 */
import { crc32 } from "node:zlib";
import type { DiskFile } from "../disk.ts";

const CHUNK_BYTES = 1024 * 1024;

/** CRC32 and length of bytes that come one after another. */
export class Checksum {
  #crc32 = 0;
  #lengthBytes = 0;

  get lengthBytes(): number {
    return this.#lengthBytes;
  }

  add(bytes: Uint8Array): void {
    this.#crc32 = crc32(bytes, this.#crc32);
    this.#lengthBytes += bytes.byteLength;
  }

  toString(): string {
    return `${this.#crc32.toString(16)}:${this.#lengthBytes}`;
  }
}

/** The checksum of a file up to an offset, and how many bytes it has up to there. */
export async function checksumOf(file: Pick<DiskFile, "read">, endBytes: number): Promise<Checksum> {
  const sum = new Checksum();
  const chunk = new Uint8Array(CHUNK_BYTES);
  while (sum.lengthBytes < endBytes) {
    const wanted = chunk.subarray(0, endBytes - sum.lengthBytes);
    const length = await file.read(wanted, sum.lengthBytes);
    if (length === 0) break;
    sum.add(wanted.subarray(0, length));
  }
  return sum;
}

/** A file that sums up what is read from it front to back, so that two passes can be compared. */
export class ChecksummedFile implements Pick<DiskFile, "read"> {
  readonly #file: Pick<DiskFile, "read">;
  readonly #sum = new Checksum();

  constructor(file: Pick<DiskFile, "read">) {
    this.#file = file;
  }

  /** CRC32 and length of the bytes from the start that were read so far. */
  get checksum(): string {
    return this.#sum.toString();
  }

  async read(into: Uint8Array, position: number): Promise<number> {
    const length = await this.#file.read(into, position);
    const { lengthBytes } = this.#sum;
    const fresh = position + length - lengthBytes;
    if (position <= lengthBytes && fresh > 0) this.#sum.add(into.subarray(length - fresh, length));
    return length;
  }
}
