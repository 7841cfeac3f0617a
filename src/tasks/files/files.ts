/**
 * The files of projects: immutable, found by id; the name is only for display.
 */
import type { Page, PageQuery } from "../shapes/task_view.ts";

/** The most bytes of a file for requests: 2 GiB. */
export const FILE_BYTES_MAX: number = 2 * 1024 * 1024 * 1024;

/** `batch` for requests, `batch_output` for answers, `user_data` for any bytes: what satellites read and write. */
export type FilePurpose = "batch" | "batch_output" | "user_data";

/** A download header: excludes characters that could end it. */
const MIME_TYPE = /^[\w!#$&^.+-]{1,127}\/[\w!#$&^.+-]{1,127}(;[\t\x20-\x7e]{1,127})?$/;

/** Whether a text is a valid MIME type of a file. */
export function isMimeType(text: string | undefined): text is string {
  return text !== undefined && MIME_TYPE.test(text);
}

/** A file as shown; it never changes. */
export interface FileView {
  /** UUID. */
  readonly id: string;
  readonly project: string;
  /** 1 to 255 bytes; never a path. */
  readonly name: string;
  readonly bytes: number;
  readonly mimeType: string;
  readonly createdWallMs: number;
  readonly purpose: FilePurpose;
  /** SHA-256 of the bytes, hexadecimal. */
  readonly sha256: string;
  /** Lines that are not blank: the objects of a task on this file. 0 for `user_data`, whose lines are not read. */
  readonly items: number;
}

/** A file to store while its bytes arrive. */
export interface NewFile {
  /**
   * UUID chosen by the caller; default: a new one. A repeat with the same bytes resolves with the existing file; other bytes, or an id
   * of another project, throw `conflict`.
   */
  readonly id?: string;
  readonly name: string;
  /** A function if it is known only after all bytes have arrived; called once, then. */
  readonly purpose: FilePurpose | (() => FilePurpose);
  /** For `user_data`: `type/subtype`, optionally with parameters; default `application/octet-stream`. Lines are `application/jsonl`. */
  readonly mimeType?: string;
  readonly chunks: AsyncIterable<Uint8Array>;
}

/** Allows reading a file in parts: the place of every 1,000th item. */
export interface FileIndex {
  /** Its path on the disk. */
  readonly path: string;
  readonly items: number;
  /** Lines, blank ones included. */
  readonly lineCount: number;
  readonly bytes: number;
  /** Line number of item n x 1,000, from 1, and the offset of that line. */
  readonly lines: readonly number[];
  readonly offsets: readonly number[];
}

/** A file of a task that has several. */
export interface NamedIndex {
  readonly fileId: string;
  readonly index: FileIndex;
}

/** By file, a task whose open requests name it; files that none names are absent. */
export type FilesNamed = (project: string, ids: ReadonlySet<string>) => Promise<ReadonlyMap<string, string>>;

/** Throws `not_found` for files of other projects and for unknown ids alike. */
export interface Files {
  /**
   * Writes bytes to the disk as they arrive, and checks them; durable when it resolves. Throws `invalid_request` for an invalid name or
   * type, `too_large` above the limit, for requests `duplicate_key` (`details.lines`) and `unsupported_encoding`, and what `chunks`
   * throws; in these cases nothing remains of it.
   */
  put(project: string, file: NewFile): Promise<FileView>;
  file(project: string, id: string): Promise<FileView>;
  /** The file, after its bytes were checked. Throws `file_damaged` if they are not those that were stored. */
  assertWhole(project: string, id: string): Promise<FileView>;
  /** Newest first. */
  list(project: string, query: PageQuery & { readonly purpose?: FilePurpose }): Promise<Page<FileView>>;
  /**
   * Throws `conflict` while a task is working on it, or names it as media. `isUnnamed`: the caller has just asked `named`, because it
   * removes several.
   */
  remove(project: string, id: string, options?: { readonly isUnnamed?: boolean }): Promise<void>;
  /** Of these files, those that open work names as media. Reads all open requests of the project. */
  named: FilesNamed;
  /** Throws `file_damaged` like `assertWhole` before the first byte. */
  read(
    project: string,
    id: string,
    range?: { readonly start: number; readonly end: number },
  ): AsyncIterable<Uint8Array>;
  /** For tasks on the file, which hold it first so that it is not removed. Throws `usage` for `user_data`. */
  index(project: string, id: string): Promise<FileIndex>;
  /**
   * Throws `duplicate_key` (`details.lines`, and `details.fileIds` in the same order) if two of these files, or one listed twice, have
   * a key in common. Reads them all: some 400 MB a second.
   */
  assertKeysDiffer(files: readonly NamedIndex[], signal?: AbortSignal): Promise<void>;
  /** While held it cannot be removed; release it once. A restart restores the holds of unfinished tasks. */
  hold(id: string): () => void;
}
