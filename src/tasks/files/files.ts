/**
 * The files of projects: immutable, found by id; the name is only shown.
 */
import type { Page, PageQuery } from "../shapes/task_view.ts";

/** Bytes of a file for requests, at most: 2 GiB. */
export const FILE_BYTES_MAX: number = 2 * 1024 * 1024 * 1024;

/** `batch` for requests, `batch_output` for answers, `user_data` for any bytes: what satellites read and make. */
export type FilePurpose = "batch" | "batch_output" | "user_data";

/** A header of downloads: nothing that could end it. */
const MIME_TYPE = /^[\w!#$&^.+-]{1,127}\/[\w!#$&^.+-]{1,127}(;[\t\x20-\x7e]{1,127})?$/;

/** Whether a text may be the type of a file. */
export function isMimeType(text: string | undefined): text is string {
  return text !== undefined && MIME_TYPE.test(text);
}

/** A file as it is shown; it never changes. */
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
  /** Lines with something on them: the objects of a task on this file. 0 for `user_data`, whose lines are not looked at. */
  readonly items: number;
}

/** A file to be stored as its bytes come. */
export interface NewFile {
  /**
   * UUID chosen by the caller; default: a fresh one. A repeat with the same bytes resolves with the file that is there;
   * other bytes, and an id of another project's, are a `conflict`.
   */
  readonly id?: string;
  readonly name: string;
  /** A function where it is known only when all bytes have come: asked once, then. */
  readonly purpose: FilePurpose | (() => FilePurpose);
  /** Of `user_data`: `type/subtype`, perhaps with parameters; default `application/octet-stream`. Lines are `application/jsonl`. */
  readonly mimeType?: string;
  readonly chunks: AsyncIterable<Uint8Array>;
}

/** How a file is read again in parts: where every 1,000th item begins. */
export interface FileIndex {
  /** Where it stands on the disk. */
  readonly path: string;
  readonly items: number;
  /** Lines, blank ones included. */
  readonly lineCount: number;
  readonly bytes: number;
  /** Number, from 1, of the line of item n x 1,000, and where that line begins. */
  readonly lines: readonly number[];
  readonly offsets: readonly number[];
}

/** A file of a task on several. */
export interface NamedIndex {
  readonly fileId: string;
  readonly index: FileIndex;
}

/** Throws `not_found` for files of other projects and ids that are none, alike. */
export interface Files {
  /**
   * Writes to the disk as it comes, and checks it meanwhile; durable when it resolves. Throws `invalid_request` for a name or type
   * that is none, `too_large` beyond the limit, for requests `duplicate_key` (`details.lines`) and `unsupported_encoding`,
   * and what `chunks` throws; nothing is left of it then.
   */
  put(project: string, file: NewFile): Promise<FileView>;
  file(project: string, id: string): Promise<FileView>;
  /** The file, once its bytes were looked at. Throws `file_damaged` when they are not those that were stored. */
  assertWhole(project: string, id: string): Promise<FileView>;
  /** Newest first. */
  list(project: string, query: PageQuery & { readonly purpose?: FilePurpose }): Promise<Page<FileView>>;
  /** Throws `conflict` while a task is working on it. */
  remove(project: string, id: string): Promise<void>;
  /** Throws `file_damaged` as `assertWhole` before the first byte. */
  read(
    project: string,
    id: string,
    range?: { readonly start: number; readonly end: number },
  ): AsyncIterable<Uint8Array>;
  /** For tasks on the file, which hold it before they ask: then it stays. Throws `usage` for `user_data`. */
  index(project: string, id: string): Promise<FileIndex>;
  /**
   * Throws `duplicate_key` (`details.lines`, and `details.fileIds` in the same order) when two of these files, or one that is named
   * twice, have a key in common. Reads them all: some 400 MB a second.
   */
  assertKeysDiffer(files: readonly NamedIndex[], signal?: AbortSignal): Promise<void>;
  /** While held it cannot be removed; released once. A restart holds what unfinished tasks need again. */
  hold(id: string): () => void;
}
