/**
 * Inputs: a JSONL file, a `.json` file with one array, a stream of bytes, or an iterable of items, all opened as one
 * file of lines that can be read again.
 *
 *   .jsonl file   read where it is
 *   .json file    converted once into a spool of lines (line n is element n), then read like a file
 *   stream, items spooled while they are read; not seekable: duplicates are found as they come
 */
import { Readable } from "node:stream";
import { crc32 } from "node:zlib";
import type { Disk, DiskFile, FileStat } from "../disk.ts";
import { PerigeeError } from "../errors.ts";
import { itemLine } from "../jsonl/items.ts";
import { sniff } from "../jsonl/read.ts";
import type { LineItem } from "../work/item.ts";
import { arrayCopyPath, openArrayCopy } from "./array_copy.ts";
import { type ByteSource, Spool, type SpoolHome } from "./spool.ts";

/** What `engine.run` takes: a path, or bytes of JSONL, or items; iterables are read once and in order. */
export type Source = string | AsyncIterable<LineItem | Uint8Array> | Iterable<LineItem | Uint8Array>;

/** What tells that an input is the one that a run began with. */
export interface InputIdentity {
  /** Absolute path, or the name of a stream. */
  readonly name: string;
  readonly sizeBytes: number;
  readonly modifiedMs: number;
  readonly identity: string;
}

export interface OpenInput {
  readonly file: Pick<DiskFile, "read" | "close">;
  /** Undefined for streams. */
  readonly identity: InputIdentity | undefined;
  /** Where a stream is kept, which then is the file; undefined for files. */
  readonly spool: Spool | undefined;
  /** The file that was made for it; undefined when it is read where it is. */
  readonly copyPath: string | undefined;
}

const CHUNK_BYTES = 1024 * 1024;
const LF = 0x0a;
/** So much of a stream is looked at before its first bytes are taken, unless its first line is shorter. */
const HEAD_BYTES = 64;

/**
 * Throws `input_unreadable`, `unsupported_encoding` or `invalid_array`, and leaves nothing open then. `spoolPath` is
 * where a copy may stand.
 */
export async function openInput(home: SpoolHome, source: Source, spoolPath: string): Promise<OpenInput> {
  if (typeof source !== "string") return openStream(home, byteStream(source), spoolPath);
  const found = await statOf(home.disk, source);
  const file = await openFile(home.disk, source);
  if (!found.isSeekable) return openStream(home, pipe(file), spoolPath);
  const identity = { name: source, ...found };
  let isKept = false;
  try {
    await refuseEncoding(file, source);
    if (!source.endsWith(".json")) {
      isKept = true;
      return { file, identity, spool: undefined, copyPath: undefined };
    }
    const copyPath = arrayCopyPath(spoolPath, identity);
    return { file: await openArrayCopy(home, readAll(file), copyPath), identity, spool: undefined, copyPath };
  } finally {
    if (!isKept) await file.close();
  }
}

/** Closes an input; `copy` says whether what was made for it is needed again. */
export async function closeInput(disk: Disk, input: OpenInput, copy: "keep" | "remove"): Promise<void> {
  await input.file.close();
  if (copy === "remove" && input.copyPath !== undefined) await disk.remove(input.copyPath);
}

/** Whether two looks at a file saw the same state of the same file. */
export function isSameState(a: InputIdentity, b: InputIdentity): boolean {
  return a.sizeBytes === b.sizeBytes && a.modifiedMs === b.modifiedMs && a.identity === b.identity;
}

/** A file that sums up what is read from it front to back, so that two passes can be compared. */
export class ChecksummedFile implements Pick<DiskFile, "read"> {
  readonly #file: Pick<DiskFile, "read">;
  #readBytes = 0;
  #crc32 = 0;

  constructor(file: Pick<DiskFile, "read">) {
    this.#file = file;
  }

  /** CRC32 and length of the bytes from the start that were read so far. */
  get checksum(): string {
    return `${this.#crc32.toString(16)}:${this.#readBytes}`;
  }

  async read(into: Uint8Array, position: number): Promise<number> {
    const length = await this.#file.read(into, position);
    const fresh = position + length - this.#readBytes;
    if (position <= this.#readBytes && fresh > 0) {
      this.#crc32 = crc32(into.subarray(length - fresh, length), this.#crc32);
      this.#readBytes += fresh;
    }
    return length;
  }
}

async function statOf(disk: Disk, path: string): Promise<FileStat> {
  const found = await disk.stat(path);
  if (found === undefined) throw new PerigeeError("input_unreadable", `${path}: no such file`);
  return found;
}

async function openFile(disk: Disk, path: string): Promise<DiskFile> {
  try {
    return await disk.open(path, "read");
  } catch (cause) {
    throw new PerigeeError("input_unreadable", `${path} cannot be opened`, { cause });
  }
}

async function refuseEncoding(file: DiskFile, path: string): Promise<void> {
  const head = new Uint8Array(4_096);
  const length = await file.read(head, 0);
  if (sniff(head.subarray(0, length)) !== "jsonl") throw unsupported(path);
}

function unsupported(name: string): PerigeeError {
  return new PerigeeError(
    "unsupported_encoding",
    `${name} is compressed or not UTF-8 text; unpack or convert it to UTF-8 JSONL first`,
  );
}

async function openStream(home: SpoolHome, source: ByteSource, spoolPath: string): Promise<OpenInput> {
  try {
    const spool = await Spool.open(home, spoolPath, { ...source, bytes: sniffed(source.bytes) });
    return { file: spool, identity: undefined, spool, copyPath: spoolPath };
  } catch (error) {
    source.leave?.();
    throw error;
  }
}

function byteStream(source: Exclude<Source, string>): ByteSource {
  const bytes = async function* (): AsyncGenerator<Uint8Array> {
    for await (const one of source) {
      yield one instanceof Uint8Array ? one : Buffer.from(`${itemLine(one)}\n`);
    }
  };
  return source instanceof Readable
    ? { bytes: bytes(), leave: () => void source.destroy() }
    : { bytes: bytes() };
}

/** A read may wait for ever, and closing waits for it: nobody waits for either. */
function pipe(file: DiskFile): ByteSource {
  let isClosed = false;
  const leave = (): void => {
    if (!isClosed) file.close().catch(() => undefined); // of no concern any more
    isClosed = true;
  };
  return { bytes: readAll(file), leave };
}

/** The same bytes, unless the first line or the first bytes tell that they are no text. */
async function* sniffed(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let head: Uint8Array | undefined = new Uint8Array(0);
  for await (const chunk of bytes) {
    if (head === undefined) {
      yield chunk;
      continue;
    }
    head = Buffer.concat([head, chunk]);
    if (head.byteLength < HEAD_BYTES && !head.includes(LF)) continue;
    if (sniff(head) !== "jsonl") throw unsupported("the input");
    yield head;
    head = undefined;
  }
  if (head === undefined || head.byteLength === 0) return;
  if (sniff(head) !== "jsonl") throw unsupported("the input");
  yield head;
}

async function* readAll(file: DiskFile): AsyncGenerator<Uint8Array> {
  for (let position = 0; ; ) {
    const chunk = new Uint8Array(CHUNK_BYTES);
    const length = await file.read(chunk, position);
    if (length === 0) return;
    position += length;
    yield chunk.subarray(0, length);
  }
}
