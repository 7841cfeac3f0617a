/**
 * `Files` on a disk and a store: bytes under `<dataDir>/files/<id>`, everything else in records.
 *
 *   bytes written and synced -> record stored: the file exists -> record deleted -> bytes unlinked
 *
 * A crash in between leaves bytes without a record; they are removed days later (leftovers.ts).
 *
 * Limits: 2 GiB per file, 5,000,000 lines per file of requests, 100 GB per project. Files of answers are not limited, but count. An
 * upload of 2 GiB in lines of 600 bytes takes a service's process from 118 to 268 MiB, 64 of them for its keys.
 */
import { createHash, randomUUID } from "node:crypto";
import { join } from "node:path";
import type { Clock } from "../../clock.ts";
import { type Disk, type DiskFile, errorCodeOf } from "../../disk.ts";
import { checkKeys, findSharedKey, type KeyedFile, type KeyPlace } from "../../engine/files/key_check.ts";
import { hasCode, PerigeeError } from "../../errors.ts";
import { LINE_BYTES_MAX } from "../../jsonl/read.ts";
import type { KeyScanner } from "../../shard/measurer.ts";
import { EVERY_PROJECT } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";
import type { Page, PageQuery } from "../shapes/task_view.ts";
import { checkFileName } from "./file_name.ts";
import { FILE_INDEXES, FILES, fileDeletes, fileInserts, placesOf, viewOf } from "./file_record.ts";
import {
  FILE_BYTES_MAX,
  type FileIndex,
  type FilePurpose,
  type Files,
  type FilesNamed,
  type FileView,
  isMimeType,
  type NamedIndex,
  type NewFile,
} from "./files.ts";
import { StoredBytes } from "./stored_bytes.ts";
import { type Content, onDisk, type Uploaded, writeUpload } from "./upload.ts";
import { damagedFile, WholeFiles } from "./whole_files.ts";

export interface FilesOptions {
  readonly store: Store;
  readonly disk: Disk;
  readonly clock: Clock;
  /** Scans the keys of large files. */
  readonly measurer: KeyScanner;
  readonly dataDir: string;
  readonly bounds?: FileBounds;
  /** Finds what open work names; default: nothing. */
  readonly named?: FilesNamed;
}

/** Each bound has a default. */
export interface FileBounds {
  /** The most bytes of a file; does not apply to answers. Default `FILE_BYTES_MAX`. */
  readonly bytesMax?: number;
  /** The most lines of a file of requests. Default 5,000,000. */
  readonly linesMax?: number;
  /** The most bytes of all files of one project. Default 100 GB. */
  readonly storedBytesMax?: number;
}

const LINES_MAX = 5_000_000;
const STORED_BYTES_MAX = 100e9;
const PAGE = 500;
/** Files up to this size do not wait for the keys of larger ones, which take seconds. */
const SMALL_BYTES_MAX = 64 * 1024 * 1024;
const READ_BYTES = 256 * 1024;
const CONTENTS: Readonly<Record<FilePurpose, Content>> = {
  batch: "requests",
  batch_output: "lines",
  user_data: "bytes",
};

/** Creates the folder if needed. */
export async function createFiles(options: FilesOptions): Promise<Files> {
  const files = new DiskFiles(options);
  await files.open();
  return files;
}

class DiskFiles implements Files {
  readonly #options: FilesOptions;
  readonly #folder: string;
  readonly #stored: StoredBytes;
  /** How often each file is held. */
  readonly #held = new Map<string, number>();
  /** Files whose records are being deleted. */
  readonly #removed = new Set<string>();
  readonly #whole: WholeFiles;
  /** Ids whose bytes are being written. */
  readonly #written = new Set<string>();
  /** The last searches for duplicate keys: one at a time, because each may need a table of 64 MiB. */
  readonly #lastChecks: Record<"small" | "large", Promise<unknown>> = {
    small: Promise.resolve(),
    large: Promise.resolve(),
  };

  constructor(options: FilesOptions) {
    this.#options = options;
    this.#folder = join(options.dataDir, "files");
    this.#whole = new WholeFiles(options.disk, this.#folder);
    this.#stored = new StoredBytes(options.bounds?.storedBytesMax ?? STORED_BYTES_MAX);
  }

  async open(): Promise<void> {
    const { disk, store } = this.#options;
    await disk.makePrivateFolder(this.#folder);
    for (let after: string | undefined; ; ) {
      const query = { collection: FILES, limit: PAGE, ...(after === undefined ? {} : { after }) };
      const page = await store.records(EVERY_PROJECT, query);
      for (const { project, bytes } of page.map(viewOf)) this.#stored.add(project, bytes);
      after = page.at(-1)?.id;
      if (page.length < PAGE) break;
    }
  }

  async put(project: string, file: NewFile): Promise<FileView> {
    const name = checkFileName(file.name);
    checkMimeType(file.mimeType);
    const { disk, store, clock } = this.#options;
    const id = file.id ?? randomUUID();
    const existing = await this.#reserve(project, id);
    if (existing !== undefined) return sameFile(existing, file);
    const path = join(this.#folder, id);
    let isStoring = false;
    let reserved = 0;
    const reserve = (bytes: number): void => {
      if (file.purpose === "batch_output") this.#stored.add(project, bytes);
      else this.#stored.reserve(project, bytes);
      reserved += bytes;
    };
    try {
      const { bytes, sha256, index, purpose } = await this.#write(path, file, reserve);
      const view: FileView = {
        id,
        project,
        name,
        bytes,
        mimeType: index === undefined ? (file.mimeType ?? "application/octet-stream") : "application/jsonl",
        createdWallMs: clock.wallMs(),
        purpose,
        sha256,
        items: index?.items ?? 0,
      };
      isStoring = true;
      await store.change(fileInserts(view, index));
      return view;
    } catch (error) {
      // A store that failed may still have the record; then its bytes must exist too.
      if (isStoring && !hasCode(error, "disk_full")) throw error;
      this.#stored.subtract(project, reserved);
      await disk.remove(path).catch(() => undefined); // the next start removes what remains
      throw error;
    } finally {
      this.#written.delete(id);
    }
  }

  /** Call it before the first byte: only one writer may use a path. Resolves with the project's existing file there. */
  async #reserve(project: string, id: string): Promise<FileView | undefined> {
    if (this.#written.has(id)) throw taken();
    this.#written.add(id);
    const record = await this.#options.store.record(EVERY_PROJECT, FILES, id).catch((error: unknown) => {
      this.#written.delete(id);
      throw error;
    });
    if (record === undefined) return undefined;
    this.#written.delete(id);
    if (record.project !== project) throw taken();
    return viewOf(record);
  }

  async file(project: string, id: string): Promise<FileView> {
    const record = await this.#options.store.record(project, FILES, id);
    if (record === undefined) throw notFound();
    return viewOf(record);
  }

  async list(
    project: string,
    query: PageQuery & { readonly purpose?: FilePurpose },
  ): Promise<Page<FileView>> {
    const { after, limit, purpose } = query;
    const reading = this.#options.store.records(project, {
      collection: FILES,
      limit: limit + 1,
      isNewestFirst: true,
      ...(after === undefined ? {} : { after }),
      ...(purpose === undefined ? {} : { parent: purpose }),
    });
    // In one turn, so that no page starts after a record that is removed in between.
    const [records] = await Promise.all([
      reading,
      after === undefined ? undefined : this.file(project, after),
    ]);
    return { items: records.slice(0, limit).map(viewOf), hasMore: records.length > limit };
  }

  async named(project: string, ids: ReadonlySet<string>): Promise<ReadonlyMap<string, string>> {
    return (await this.#options.named?.(project, ids)) ?? new Map<string, string>();
  }

  async remove(project: string, id: string, { isUnnamed = false } = {}): Promise<void> {
    const { bytes } = await this.file(project, id);
    const namedBy = isUnnamed ? undefined : (await this.named(project, new Set([id]))).get(id);
    if (namedBy !== undefined) throw named(namedBy);
    // Nothing waits between this check and the change: a later holder does not find an index any more.
    if (this.#held.has(id)) throw new PerigeeError("conflict", "a task is working on this file");
    const release = this.hold(id); // others that remove it get a conflict, so its bytes are subtracted once
    this.#removed.add(id);
    try {
      await this.#options.store.change(fileDeletes(id));
    } finally {
      this.#removed.delete(id);
      release();
    }
    this.#stored.subtract(project, bytes);
    await onDisk(this.#options.disk.remove(join(this.#folder, id)));
  }

  async *read(
    project: string,
    id: string,
    range?: { readonly start: number; readonly end: number },
  ): AsyncGenerator<Uint8Array> {
    const { bytes } = await this.assertWhole(project, id);
    const file = await this.#openForReading(id);
    try {
      const end = Math.min(range?.end ?? bytes, bytes);
      for (let position = range?.start ?? 0; position < end; ) {
        const chunk = new Uint8Array(Math.min(READ_BYTES, end - position));
        const length = await onDisk(file.read(chunk, position));
        if (length === 0) throw damagedFile(id, "it is shorter than it was");
        position += length;
        yield chunk.subarray(0, length);
      }
    } finally {
      await file.close();
    }
  }

  async index(project: string, id: string): Promise<FileIndex> {
    if (this.#removed.has(id)) throw notFound();
    const { items, bytes, purpose } = await this.assertWhole(project, id);
    if (purpose === "user_data")
      throw new PerigeeError(
        "usage",
        "a file of requests must have been uploaded with the purpose batch; this one has the purpose user_data",
        { details: { param: "file_id" } },
      );
    const record = await this.#options.store.record(project, FILE_INDEXES, id);
    if (record === undefined) throw notFound();
    return { path: join(this.#folder, id), items, bytes, ...placesOf(record) };
  }

  async assertKeysDiffer(files: readonly NamedIndex[], signal?: AbortSignal): Promise<void> {
    const opened: KeyedFile[] = [];
    const closing: DiskFile[] = [];
    try {
      for (const { fileId, index } of files) {
        const file = await this.#openForReading(fileId);
        closing.push(file);
        opened.push({ file, bytes: index.bytes, lineCount: index.lineCount });
      }
      const sizeBytes = opened.reduce((sum, { bytes }) => sum + bytes, 0);
      const found = await this.#inTurn(sizeBytes, () =>
        findSharedKey(this.#options.measurer, opened, signal),
      );
      if (found !== undefined) throw sharedKey(files, found);
    } finally {
      for (const file of closing) await file.close();
    }
  }

  async assertWhole(project: string, id: string): Promise<FileView> {
    const view = await this.file(project, id);
    await this.#whole.check(view, () => this.file(project, id));
    return view;
  }

  hold(id: string): () => void {
    this.#held.set(id, (this.#held.get(id) ?? 0) + 1);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      const others = (this.#held.get(id) ?? 1) - 1;
      if (others > 0) this.#held.set(id, others);
      else this.#held.delete(id);
    };
  }

  async #write(
    path: string,
    { chunks, purpose }: NewFile,
    reserve: (bytes: number) => void,
  ): Promise<Uploaded & { readonly purpose: FilePurpose }> {
    const { disk, bounds = {} } = this.#options;
    const { bytesMax = FILE_BYTES_MAX, linesMax = LINES_MAX } = bounds;
    let known: FilePurpose = typeof purpose === "string" ? purpose : "batch";
    const content = (): Content => {
      if (typeof purpose === "function") known = purpose();
      return CONTENTS[known];
    };
    const file = await onDisk(disk.open(path, "write"));
    try {
      const uploaded = await writeUpload(file, chunks, {
        bytesMax: purpose === "batch_output" ? Infinity : bytesMax,
        linesMax,
        lineBytesMax: LINE_BYTES_MAX,
        content: typeof purpose === "function" ? content : content(),
        reserve,
      });
      if (uploaded.content === "requests") await this.#checkKeys(file, uploaded.bytes);
      await onDisk(file.sync());
      return { ...uploaded, purpose: known };
    } finally {
      await file.close();
    }
  }

  #checkKeys(file: DiskFile, sizeBytes: number): Promise<unknown> {
    return this.#inTurn(sizeBytes, () =>
      checkKeys(this.#options.measurer, { file, identity: { sizeBytes } }),
    );
  }

  #inTurn<T>(sizeBytes: number, check: () => Promise<T>): Promise<T> {
    const lane = sizeBytes <= SMALL_BYTES_MAX ? "small" : "large";
    const checking = this.#lastChecks[lane].then(check);
    this.#lastChecks[lane] = checking.catch(() => undefined);
    return checking;
  }

  async #openForReading(id: string): Promise<DiskFile> {
    try {
      return await this.#options.disk.open(join(this.#folder, id), "read");
    } catch (error) {
      if (errorCodeOf(error) === "ENOENT") throw notFound(); // removed after its record was read
      throw error;
    }
  }
}

/** The existing file, if the new one has the same bytes. */
async function sameFile(existing: FileView, { chunks }: NewFile): Promise<FileView> {
  const hash = createHash("sha256");
  let bytes = 0;
  for await (const chunk of chunks) {
    bytes += chunk.byteLength;
    if (bytes > existing.bytes) throw taken();
    hash.update(chunk);
  }
  if (hash.digest("hex") !== existing.sha256) throw taken();
  return existing;
}

function checkMimeType(type: string | undefined): void {
  if (type === undefined || isMimeType(type)) return;
  throw new PerigeeError("invalid_request", "the type of a file must read as type/subtype", {
    details: { param: "mime_type" },
  });
}

function named(taskId: string): PerigeeError {
  const message = `requests of task ${taskId} name this file; delete it when the task has ended, or cancel the task first`;
  return new PerigeeError("conflict", message, { details: { taskId } });
}

function taken(): PerigeeError {
  return new PerigeeError("conflict", "there is a file with this id already");
}

function sharedKey(files: readonly NamedIndex[], places: readonly [KeyPlace, KeyPlace]): PerigeeError {
  const fileIds = places.map(({ fileIndex }) => files[fileIndex]?.fileId ?? "");
  const [first, second] = places;
  return new PerigeeError(
    "duplicate_key",
    `line ${first.line} of file ${fileIds[0]} and line ${second.line} of file ${fileIds[1]} have the same key; every key of a task must be there once`,
    { details: { lines: [first.line, second.line], fileIds } },
  );
}

function notFound(): PerigeeError {
  return new PerigeeError("not_found", "there is no file with this id");
}
