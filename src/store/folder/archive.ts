/**
 * One file of many: a tar archive (ustar) whose last entry, `manifest.json`, has the size and CRC-32 of all others.
 *
 * `tar tf` lists it and `tar xf` unpacks it; only with the manifest is it known to be whole. Entries are regular files with
 * names of at most 100 bytes; sizes of 8 GiB and more are written as GNU tar does.
 */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { type FileHandle, mkdir, open } from "node:fs/promises";
import { dirname, join, normalize } from "node:path";
import { crc32 } from "node:zlib";
import { PerigeeError } from "../../errors.ts";
import { checkVersion } from "./known_version.ts";

const BLOCK_BYTES = 512;
const CHUNK_BYTES = 1024 * 1024;
const NAME_BYTES_MAX = 100;
const MANIFEST = "manifest.json";
const VERSION = 1;

/** What the manifest says of an entry. */
export interface ArchivedFile {
  readonly name: string;
  readonly bytes: number;
  readonly crc32: number;
}

/** Writes an archive to an open file; `finish` once, at the end. */
export class ArchiveWriter {
  readonly #file: FileHandle;
  readonly #entries: ArchivedFile[] = [];

  constructor(file: FileHandle) {
    this.#file = file;
  }

  /** The file at a path in its size of now. */
  async add(name: string, path: string): Promise<void> {
    const descriptor = openSync(path, "r");
    try {
      const bytes = fstatSync(descriptor).size;
      await this.#write(headerOf(name, bytes));
      let sum = 0;
      for (let position = 0; position < bytes; ) {
        const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, bytes - position));
        const length = readSync(descriptor, chunk, 0, chunk.length, position);
        if (length === 0)
          throw new PerigeeError("conflict", `${path} was cut while it was copied; back up again`);
        sum = crc32(chunk.subarray(0, length), sum);
        await this.#write(chunk.subarray(0, length));
        position += length;
      }
      await this.#write(padding(bytes));
      this.#entries.push({ name, bytes, crc32: sum });
    } finally {
      closeSync(descriptor);
    }
  }

  /** Writes the manifest and syncs; returns what is in the archive. */
  async finish(): Promise<readonly ArchivedFile[]> {
    const text = Buffer.from(`${JSON.stringify({ version: VERSION, files: this.#entries })}\n`);
    for (const bytes of [headerOf(MANIFEST, text.length), text, padding(text.length)])
      await this.#write(bytes);
    await this.#write(Buffer.alloc(2 * BLOCK_BYTES));
    await this.#file.sync();
    return this.#entries;
  }

  #write(bytes: Uint8Array): Promise<void> {
    return writeAll(this.#file, bytes);
  }
}

/** Unpacks an archive into an empty folder and checks it; each file is synced. Throws `store_damaged` for one that is not whole, `data_dir_newer`, `data_dir_older`. */
export async function unpackArchive(path: string, folder: string): Promise<readonly ArchivedFile[]> {
  const archive = await open(path, "r");
  try {
    const found: ArchivedFile[] = [];
    for (let position = 0; ; ) {
      const header = await blockAt(archive, position, path);
      const name = textIn(header, 0, NAME_BYTES_MAX);
      if (name === "") throw damagedArchive(path, "it has no manifest");
      const bytes = sizeIn(header);
      position += BLOCK_BYTES;
      if (name === MANIFEST) {
        await checkManifest(archive, path, { position, bytes }, found);
        return found;
      }
      found.push({
        name,
        bytes,
        crc32: await unpackOne(archive, path, { position, bytes }, placeOf(folder, name, path)),
      });
      position += Math.ceil(bytes / BLOCK_BYTES) * BLOCK_BYTES;
    }
  } finally {
    await archive.close();
  }
}

interface Place {
  readonly position: number;
  readonly bytes: number;
}

async function unpackOne(
  archive: FileHandle,
  path: string,
  { position, bytes }: Place,
  to: string,
): Promise<number> {
  await mkdir(dirname(to), { recursive: true, mode: 0o700 });
  const file = await open(to, "wx", 0o600);
  try {
    let sum = 0;
    for (let done = 0; done < bytes; ) {
      const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, bytes - done));
      const { bytesRead } = await archive.read(chunk, 0, chunk.length, position + done);
      if (bytesRead === 0) throw damagedArchive(path, "it ends early");
      sum = crc32(chunk.subarray(0, bytesRead), sum);
      await writeAll(file, chunk.subarray(0, bytesRead));
      done += bytesRead;
    }
    await file.sync();
    return sum;
  } finally {
    await file.close();
  }
}

async function checkManifest(
  archive: FileHandle,
  path: string,
  { position, bytes }: Place,
  found: readonly ArchivedFile[],
): Promise<void> {
  const text = Buffer.alloc(bytes);
  await archive.read(text, 0, bytes, position);
  const { version, files } = manifestIn(text.toString());
  if (version !== undefined)
    checkVersion(`${path} has version`, version, { oldest: VERSION, newest: VERSION });
  if (files === undefined || files.length !== found.length)
    throw damagedArchive(path, "its manifest does not match its contents");
  for (const [index, file] of files.entries()) {
    const one = found[index];
    if (one?.name !== file.name || one.bytes !== file.bytes || one.crc32 !== file.crc32)
      throw damagedArchive(path, `${file.name} in it does not match its checksum`);
  }
}

/** The system may write less than requested. */
async function writeAll(file: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let from = 0; from < bytes.byteLength; )
    from += (await file.write(bytes, from, bytes.byteLength - from)).bytesWritten;
}

interface Manifest {
  readonly version?: number;
  /** Checked entry by entry. */
  readonly files?: readonly ArchivedFile[];
}

function manifestIn(text: string): Manifest {
  try {
    const { version, files } = JSON.parse(text) as { readonly version?: unknown; readonly files?: unknown };
    if (!Number.isInteger(version) || !Array.isArray(files)) return {};
    return { version: version as number, files };
  } catch {
    return {};
  }
}

async function blockAt(archive: FileHandle, position: number, path: string): Promise<Buffer> {
  const block = Buffer.alloc(BLOCK_BYTES);
  const { bytesRead } = await archive.read(block, 0, BLOCK_BYTES, position);
  if (bytesRead < BLOCK_BYTES) throw damagedArchive(path, "it ends early");
  const sum = Number.parseInt(textIn(block, 148, 8), 8);
  if (textIn(block, 0, NAME_BYTES_MAX) !== "" && sum !== checksumOf(block))
    throw damagedArchive(path, "it is not a tar archive");
  return block;
}

/** Within the folder, for any path in the archive. */
function placeOf(folder: string, name: string, path: string): string {
  if (normalize(name) !== name || name.startsWith("/") || name.startsWith(".."))
    throw damagedArchive(path, `it has a file named ${JSON.stringify(name)}`);
  return join(folder, name);
}

function damagedArchive(path: string, why: string): PerigeeError {
  return new PerigeeError("store_damaged", `${path} is not a complete backup: ${why}; use another one`);
}

function headerOf(name: string, bytes: number): Buffer {
  const header = Buffer.alloc(BLOCK_BYTES);
  if (Buffer.byteLength(name) > NAME_BYTES_MAX)
    throw new PerigeeError("usage", `${name}: names in a backup have at most ${NAME_BYTES_MAX} bytes`);
  header.write(name, 0);
  header.write("0000600\0", 100);
  header.write("0000000\0", 108);
  header.write("0000000\0", 116);
  if (bytes < 8 ** 11) header.write(`${bytes.toString(8).padStart(11, "0")} `, 124);
  else {
    header[124] = 0x80;
    header.writeBigUInt64BE(BigInt(bytes), 128);
  }
  header.write("00000000000 ", 136);
  header.write("        ", 148);
  header.write("0", 156);
  header.write("ustar\u000000", 257);
  header.write(`${checksumOf(header).toString(8).padStart(6, "0")}\0 `, 148);
  return header;
}

/** The sum of all bytes, its own place counted as spaces. */
function checksumOf(header: Buffer): number {
  let sum = 0;
  for (let at = 0; at < BLOCK_BYTES; at += 1) sum += at >= 148 && at < 156 ? 0x20 : (header[at] as number);
  return sum;
}

function sizeIn(header: Buffer): number {
  if (header[124] === 0x80) return Number(header.readBigUInt64BE(128));
  return Number.parseInt(textIn(header, 124, 12), 8);
}

function textIn(block: Buffer, from: number, bytes: number): string {
  return block.toString("utf8", from, from + bytes).split("\0", 1)[0] ?? "";
}

function padding(bytes: number): Buffer {
  return Buffer.alloc((BLOCK_BYTES - (bytes % BLOCK_BYTES)) % BLOCK_BYTES);
}
