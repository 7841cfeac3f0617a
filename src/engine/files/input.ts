/**
 * Inputs: a JSONL file, a `.json` file with one array, a stream of bytes, or an iterable of items, all opened as one
 * file of lines that can be read again.
 *
 *   .jsonl file   read where it is; so is a .json file whose first line is an object
 *   .json file    converted once into a spool of lines (line n is element n), then read like a file
 *   stream, items spooled while they are read; not seekable: duplicates are found as they arrive
 */
import type { Disk, DiskFile, FileStat } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import { HEAD_BYTES_MAX, headOf } from "../../jsonl/sniff.ts";
import { arrayCopyPath, isArrayPath, openArrayCopy } from "./array_copy.ts";
import {
  type ByteSource,
  iterableBytes,
  type OnceSource,
  pipeBytes,
  readAll,
  refuseEncoding,
} from "./byte_source.ts";
import { Spool, type SpoolHome } from "./spool.ts";

/** What `engine.run` takes: a path, or bytes of JSONL, or items; iterables are read once and in order. */
export type Source = string | OnceSource;

/** What identifies the input that a run began with. */
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

/**
 * Throws `input_unreadable`, `unsupported_encoding` or `invalid_array`, and leaves nothing open then. `spoolPath` is
 * where a copy may be.
 */
export async function openInput(home: SpoolHome, source: Source, spoolPath: string): Promise<OpenInput> {
  if (typeof source !== "string") return openStream(home, iterableBytes(source), spoolPath);
  const found = await statOf(home.disk, source);
  const file = await openFile(home.disk, source);
  if (!found.isSeekable) return openStream(home, pipeBytes(file), spoolPath);
  const identity = { name: source, ...found };
  let isKept = false;
  try {
    const head = await headOf(file);
    refuseEncoding(head, source);
    if (!isArrayPath(source) || holdsLines(head, source)) {
      isKept = true;
      return { file, identity, spool: undefined, copyPath: undefined };
    }
    const copyPath = arrayCopyPath(spoolPath, identity);
    return { file: await openArrayCopy(home, readAll(file), copyPath), identity, spool: undefined, copyPath };
  } finally {
    if (!isKept) await file.close();
  }
}

/** Whether it can be read only once: an iterable, or the path of a pipe. */
export async function isStream(disk: Disk, source: Source): Promise<boolean> {
  return typeof source !== "string" || (await disk.stat(source))?.isSeekable === false;
}

/** A source that can be read once: an iterable, or the path of a pipe. Throws `input_unreadable`; leave it when it was read. */
export async function openOnce(disk: Disk, source: Source): Promise<ByteSource> {
  return typeof source === "string" ? pipeBytes(await openFile(disk, source)) : iterableBytes(source);
}

/** Closes an input; `copy` says whether what was made for it is needed again. */
export async function closeInput(disk: Disk, input: OpenInput, copy: "keep" | "remove"): Promise<void> {
  await input.file.close();
  if (copy === "remove" && input.copyPath !== undefined) await disk.remove(input.copyPath);
}

/** Whether two reads of a file's state saw the same state of the same file. */
export function isSameState(a: InputIdentity, b: InputIdentity): boolean {
  return a.sizeBytes === b.sizeBytes && a.modifiedMs === b.modifiedMs && a.identity === b.identity;
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

/** Whether a `.json` file has a request on each line instead of an array. Throws `invalid_array` for one object on several lines. */
function holdsLines(head: Buffer, path: string): boolean {
  const text = head
    .toString()
    .replace(/^\ufeff/, "")
    .trimStart();
  if (!text.startsWith("{")) return false;
  const [first = "", ...others] = text.split("\n");
  if ((others.length === 0 && head.length === HEAD_BYTES_MAX) || isJson(first)) return true; // a long line, or a whole one
  throw new PerigeeError(
    "invalid_array",
    `${path} begins with an object that is not on one line: expected an array of requests in [ ], or one request on each line`,
  );
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

async function openStream(home: SpoolHome, source: ByteSource, spoolPath: string): Promise<OpenInput> {
  try {
    const spool = await Spool.open(home, spoolPath, source);
    return { file: spool, identity: undefined, spool, copyPath: spoolPath };
  } catch (error) {
    source.leave?.();
    throw error;
  }
}
