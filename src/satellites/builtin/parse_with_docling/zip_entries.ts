/**
 * A ZIP written again: the entries that are needed, unpacked within bounds and stored without compression.
 *
 * Sizes in a ZIP are claims of its author, and two readers may find different entries in one. The new ZIP holds only what was
 * unpacked here, so that the next reader has nothing to inflate and nothing else to find.
 * Format: PKWARE APPNOTE 6.3.10; no ZIP64, no encryption, methods 0 (stored) and 8 (deflated).
 *
 * Limits: 4,096 entries, 64 MiB unpacked in all.
 */
import { crc32, inflateRawSync } from "node:zlib";
import { ParseError } from "./parsed_document.ts";

const ENTRIES_MAX = 4_096;
const UNPACKED_BYTES_MAX = 64 * 1024 * 1024;
const END_MARK = 0x06054b50;
const CENTRAL_MARK = 0x02014b50;
const LOCAL_MARK = 0x04034b50;
const END_BYTES = 22;
const COMMENT_BYTES_MAX = 65_535;

export interface ZipEntry {
  readonly name: string;
  readonly bytes: Buffer;
}

/** Throws `ParseError`: `invalid_document`, `encrypted`, `too_complex`. */
export function unpackZip(given: Uint8Array, isWanted: (name: string) => boolean): ZipEntry[] {
  const zip = Buffer.from(given.buffer, given.byteOffset, given.byteLength);
  try {
    return unpack(zip, isWanted);
  } catch (cause) {
    if (cause instanceof ParseError) throw cause;
    throw new ParseError("invalid_document", "the document is a damaged ZIP", { cause }); // a read beyond its end
  }
}

function unpack(zip: Buffer, isWanted: (name: string) => boolean): ZipEntry[] {
  const end = findEnd(zip);
  const count = zip.readUInt16LE(end + 10);
  if (count > ENTRIES_MAX) throw tooMuch(`more than ${ENTRIES_MAX} files`);
  const entries = new Map<string, ZipEntry>();
  let left = UNPACKED_BYTES_MAX;
  let at = zip.readUInt32LE(end + 16);
  for (let index = 0; index < count; index += 1) {
    if (zip.readUInt32LE(at) !== CENTRAL_MARK)
      throw new ParseError("invalid_document", "the document is a damaged ZIP");
    const [nameLength, extraLength, commentLength] = [28, 30, 32].map((offset) =>
      zip.readUInt16LE(at + offset),
    );
    const name = zip.toString("utf8", at + 46, at + 46 + (nameLength ?? 0));
    if (isWanted(name) && !entries.has(name)) {
      const bytes = unpackOne(zip, at, left);
      left -= bytes.byteLength;
      entries.set(name, { name, bytes });
    }
    at += 46 + (nameLength ?? 0) + (extraLength ?? 0) + (commentLength ?? 0);
  }
  return [...entries.values()];
}

function unpackOne(zip: Buffer, central: number, left: number): Buffer {
  const method = zip.readUInt16LE(central + 10);
  const packedBytes = zip.readUInt32LE(central + 20);
  const local = zip.readUInt32LE(central + 42);
  if ((zip.readUInt16LE(central + 8) & 1) === 1)
    throw new ParseError("encrypted", "the document is encrypted");
  if (zip.readUInt32LE(local) !== LOCAL_MARK)
    throw new ParseError("invalid_document", "the document is a damaged ZIP");
  const start = local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28);
  const packed = zip.subarray(start, start + packedBytes);
  if (method === 0) {
    if (packed.byteLength > left) throw tooLarge();
    return packed;
  }
  if (method !== 8)
    throw new ParseError("invalid_document", "the document is packed in a way that is not known");
  try {
    return inflateRawSync(packed, { maxOutputLength: Math.max(1, left) });
  } catch (cause) {
    if (cause instanceof RangeError) throw tooLarge(); // ERR_BUFFER_TOO_LARGE
    throw cause;
  }
}

function findEnd(zip: Buffer): number {
  const first = Math.max(0, zip.byteLength - END_BYTES - COMMENT_BYTES_MAX);
  for (let at = zip.byteLength - END_BYTES; at >= first; at -= 1)
    if (zip.readUInt32LE(at) === END_MARK) return at;
  throw new ParseError("invalid_document", "the document is a damaged ZIP");
}

/** A ZIP of entries that are only stored. */
export function storedZip(entries: readonly ZipEntry[]): Buffer {
  const parts: Buffer[] = [];
  const central: Buffer[] = [];
  let offset = 0;
  for (const { name, bytes } of entries) {
    const nameBytes = Buffer.from(name);
    const shared = Buffer.alloc(26);
    shared.writeUInt16LE(20, 0); // version needed
    shared.writeUInt16LE(0x0800, 2); // names are UTF-8
    shared.writeUInt32LE(crc32(bytes), 10);
    shared.writeUInt32LE(bytes.byteLength, 14);
    shared.writeUInt32LE(bytes.byteLength, 18);
    shared.writeUInt16LE(nameBytes.byteLength, 22);
    const rest = Buffer.alloc(14);
    rest.writeUInt32LE(offset, 10);
    parts.push(mark(LOCAL_MARK), shared, nameBytes, bytes);
    central.push(mark(CENTRAL_MARK), Buffer.from([20, 0]), shared, rest, nameBytes);
    offset += 30 + nameBytes.byteLength + bytes.byteLength;
  }
  const directory = Buffer.concat(central);
  const end = Buffer.alloc(END_BYTES - 4);
  end.writeUInt16LE(entries.length, 4);
  end.writeUInt16LE(entries.length, 6);
  end.writeUInt32LE(directory.byteLength, 8);
  end.writeUInt32LE(offset, 12);
  return Buffer.concat([...parts, directory, mark(END_MARK), end]);
}

function mark(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function tooLarge(): ParseError {
  return tooMuch(`more than ${UNPACKED_BYTES_MAX / 1024 / 1024} MiB unpacked`);
}

function tooMuch(what: string): ParseError {
  return new ParseError("too_complex", `the document has ${what}`);
}
