/**
 * Checksums of inputs: whether what is read now is what was read before.
 */
import { crc32 } from "node:zlib";
import type { Disk, DiskFile } from "../../disk.ts";

const CHUNK_BYTES = 1024 * 1024;

/** CRC32 and length of bytes that are added one after another. */
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
    return checksumText(this.#crc32, this.#lengthBytes);
  }
}

/** `crc` of a sum written as text, for bytes of that length. */
export function checksumText(crc: number, lengthBytes: number): string {
  return `${(crc >>> 0).toString(16)}:${lengthBytes}`;
}

/** The CRC-32 of a sum written as text. */
export function crc32Of(checksum: string): number {
  return Number.parseInt(checksum, 16);
}

/** Bytes that a sum written as text is of. */
export function lengthOf(checksum: string): number {
  return Number(checksum.split(":")[1] ?? 0);
}

const POLYNOMIAL = 0xedb88320;
/** x^0. */
const X_0 = 0x80000000;

/** The CRC-32 of bytes and of those that follow them, from both and the length of the second: zlib's `crc32_combine`. */
export function combineCrc32(first: number, second: number, secondBytes: number): number {
  return (multiplied(shiftOf(secondBytes), first) ^ second) >>> 0;
}

/** The same many times, for lengths that repeat. */
export class CombinedSums {
  #bytes = 0;
  #shift = X_0;

  combined(first: number, second: number, secondBytes: number): number {
    if (secondBytes !== this.#bytes) {
      this.#shift = shiftOf(secondBytes);
      this.#bytes = secondBytes;
    }
    return (multiplied(this.#shift, first) ^ second) >>> 0;
  }
}

/** What so many zero bytes multiply a checksum with: x^(8n). */
function shiftOf(bytes: number): number {
  let shift = X_0;
  let rest = bytes;
  for (let power = 3; rest > 0; power += 1) {
    if (rest % 2 === 1) shift = multiplied(POWERS[power & 31] as number, shift);
    rest = Math.floor(rest / 2);
  }
  return shift;
}

/** Of polynomials over GF(2), modulo that of CRC-32, the lowest power in the highest bit. */
function multiplied(a: number, b: number): number {
  let product = 0;
  let factor = b;
  for (let bit = 0x80000000; bit !== 0; bit >>>= 1) {
    if ((a & bit) !== 0) product ^= factor;
    factor = (factor & 1) === 1 ? (factor >>> 1) ^ POLYNOMIAL : factor >>> 1;
  }
  return product >>> 0;
}

/** x^(2^n). */
const POWERS: readonly number[] = (() => {
  const powers = [0x40000000];
  while (powers.length < 32) powers.push(multiplied(powers.at(-1) as number, powers.at(-1) as number));
  return powers;
})();

/** The checksum of a file up to an offset, and how many bytes it has up to there. */
export async function checksumOf(file: Pick<DiskFile, "read">, endBytes: number): Promise<Checksum> {
  const sum = new Checksum();
  const chunk = Buffer.allocUnsafeSlow(Math.min(CHUNK_BYTES, endBytes));
  while (sum.lengthBytes < endBytes) {
    const wanted = chunk.subarray(0, endBytes - sum.lengthBytes);
    const length = await file.read(wanted, sum.lengthBytes);
    if (length === 0) break;
    sum.add(wanted.subarray(0, length));
  }
  return sum;
}

/** Whether the bytes of a file up to an offset are there and have this CRC-32. The file exists. */
export async function hasCrc32(
  disk: Pick<Disk, "open">,
  path: string,
  endBytes: number,
  crc: number,
): Promise<boolean> {
  const file = await disk.open(path, "read");
  try {
    return String(await checksumOf(file, endBytes)) === checksumText(crc, endBytes);
  } finally {
    await file.close();
  }
}

/** A file that sums up what is read from it front to back, so that two passes can be compared. */
export class ChecksummedFile implements Pick<DiskFile, "read"> {
  readonly #file: Pick<DiskFile, "read">;
  readonly #endBytes: number;
  readonly #sum = new Checksum();

  /** Ends at `endBytes`: what was appended since then is not of the input. */
  constructor(file: Pick<DiskFile, "read">, endBytes: number = Number.POSITIVE_INFINITY) {
    this.#file = file;
    this.#endBytes = endBytes;
  }

  /** CRC32 and length of the bytes from the start that were read so far. */
  get checksum(): string {
    return this.#sum.toString();
  }

  async read(into: Uint8Array, position: number): Promise<number> {
    const wanted = into.subarray(0, Math.max(0, Math.min(into.byteLength, this.#endBytes - position)));
    const length = await this.#file.read(wanted, position);
    const { lengthBytes } = this.#sum;
    const fresh = position + length - lengthBytes;
    if (position <= lengthBytes && fresh > 0) this.#sum.add(into.subarray(length - fresh, length));
    return length;
  }
}
