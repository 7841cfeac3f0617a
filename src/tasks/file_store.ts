/**
 * `Files` on a disk and a store: bytes under `<dataDir>/files/<id>`, everything else in records.
 *
 *   bytes written and synced -> record stored: the file is there -> record deleted -> bytes unlinked
 *
 * A crash in between leaves bytes without a record; they are swept when the process starts.
 *
 * Limits: 2 GiB and 5,000,000 lines of a file for requests. Files for answers have none: they are ours.
 */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import type { Clock } from "../clock.ts";
import { type Disk, type DiskFile, errorCodeOf } from "../disk.ts";
import { checkKeys } from "../engine/key_check.ts";
import { PerigeeError } from "../errors.ts";
import { LINE_BYTES_MAX } from "../jsonl/read.ts";
import type { KeyScanner } from "../shard/measurer.ts";
import { EVERY_PROJECT } from "../store/records.ts";
import type { Store } from "../store/store.ts";
import { checkFileName } from "./file_name.ts";
import { FILE_INDEXES, FILES, fileDeletes, fileInserts, placesOf, viewOf } from "./file_record.ts";
import { FILE_BYTES_MAX, type FileIndex, type Files, type FileView, type NewFile } from "./files.ts";
import type { Page, PageQuery } from "./task_view.ts";
import { onDisk, type Uploaded, writeUpload } from "./upload.ts";

export interface FilesOptions {
  readonly store: Store;
  readonly disk: Disk;
  readonly clock: Clock;
  /** Scans the keys of large files. */
  readonly measurer: KeyScanner;
  readonly dataDir: string;
  /** Bytes of a file for requests, at most. Default `FILE_BYTES_MAX`. */
  readonly bytesMax?: number;
  /** Lines of a file for requests, at most. Default 5,000,000. */
  readonly linesMax?: number;
  /** As the engine reads lines. Default 10 MiB. */
  readonly lineBytesMax?: number;
}

const LINES_MAX = 5_000_000;
/** Files up to here do not wait for the keys of larger ones, which take seconds. */
const SMALL_BYTES_MAX = 64 * 1024 * 1024;
const READ_BYTES = 256 * 1024;
const MIME_TYPE = "application/jsonl";
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Makes the folder where needed and removes what a crash left in it. */
export async function createFiles(options: FilesOptions): Promise<Files> {
  const files = new DiskFiles(options);
  await files.open();
  return files;
}

class DiskFiles implements Files {
  readonly #options: FilesOptions;
  readonly #folder: string;
  /** How often each file is held. */
  readonly #held = new Map<string, number>();
  /** Ids whose bytes are being written. */
  readonly #written = new Set<string>();
  /** The last searches for duplicate keys: one at a time, because each may take a table of 64 MiB. */
  readonly #lastChecks: Record<"small" | "large", Promise<unknown>> = {
    small: Promise.resolve(),
    large: Promise.resolve(),
  };

  constructor(options: FilesOptions) {
    this.#options = options;
    this.#folder = join(options.dataDir, "files");
  }

  async open(): Promise<void> {
    const { disk, store } = this.#options;
    await disk.makePrivateFolder(this.#folder);
    for (const name of await disk.list(this.#folder)) {
      const record = UUID.test(name) ? await store.record(EVERY_PROJECT, FILES, name) : undefined;
      if (record === undefined) await disk.remove(join(this.#folder, name));
    }
  }

  async put(project: string, file: NewFile): Promise<FileView> {
    const name = checkFileName(file.name);
    const { disk, store, clock } = this.#options;
    const id = file.id ?? randomUUID();
    await this.#reserve(id);
    const path = join(this.#folder, id);
    let isStoring = false;
    try {
      const { bytes, sha256, index } = await this.#write(path, file);
      const view: FileView = {
        id,
        project,
        name,
        bytes,
        mimeType: file.mimeType ?? MIME_TYPE,
        createdWallMs: clock.wallMs(),
        purpose: file.purpose,
        sha256,
        items: index.items,
      };
      isStoring = true;
      await store.change(fileInserts(view, index));
      return view;
    } catch (error) {
      // A store that failed may have the record all the same; then its bytes must be there too.
      if (isStoring && !(error instanceof PerigeeError && error.code === "disk_full")) throw error;
      await disk.remove(path).catch(() => undefined); // the next start sweeps what could not be removed
      throw error;
    } finally {
      this.#written.delete(id);
    }
  }

  /** Before the first byte: whoever writes to a path must be alone with it. */
  async #reserve(id: string): Promise<void> {
    const isTaken = this.#written.has(id);
    if (!isTaken) this.#written.add(id);
    if (!isTaken && (await this.#options.store.record(EVERY_PROJECT, FILES, id)) === undefined) return;
    if (!isTaken) this.#written.delete(id);
    throw new PerigeeError("conflict", "there is a file with this id already");
  }

  async file(project: string, id: string): Promise<FileView> {
    const record = await this.#options.store.record(project, FILES, id);
    if (record === undefined) throw notFound();
    return viewOf(record);
  }

  async list(
    project: string,
    query: PageQuery & { readonly purpose?: FileView["purpose"] },
  ): Promise<Page<FileView>> {
    const { after, limit, purpose } = query;
    if (after !== undefined) await this.file(project, after);
    const records = await this.#options.store.records(project, {
      collection: FILES,
      limit: limit + 1,
      isNewestFirst: true,
      ...(after === undefined ? {} : { after }),
      ...(purpose === undefined ? {} : { parent: purpose }),
    });
    return { items: records.slice(0, limit).map(viewOf), hasMore: records.length > limit };
  }

  async remove(project: string, id: string): Promise<void> {
    await this.file(project, id);
    // Nothing waits between this look and the change: a hold that comes later finds no record any more.
    if (this.#held.has(id)) throw new PerigeeError("conflict", "a task is working on this file");
    await this.#options.store.change(fileDeletes(id));
    await onDisk(this.#options.disk.remove(join(this.#folder, id)));
  }

  async *read(
    project: string,
    id: string,
    range?: { readonly start: number; readonly end: number },
  ): AsyncGenerator<Uint8Array> {
    const { bytes } = await this.file(project, id);
    const file = await this.#openForReading(id);
    try {
      const end = Math.min(range?.end ?? bytes, bytes);
      for (let position = range?.start ?? 0; position < end; ) {
        const chunk = new Uint8Array(Math.min(READ_BYTES, end - position));
        const length = await onDisk(file.read(chunk, position));
        if (length === 0) throw new PerigeeError("store_damaged", `file ${id} is shorter than it was`);
        position += length;
        yield chunk.subarray(0, length);
      }
    } finally {
      await file.close();
    }
  }

  async index(project: string, id: string): Promise<FileIndex> {
    const { items, bytes } = await this.file(project, id);
    const record = await this.#options.store.record(project, FILE_INDEXES, id);
    if (record === undefined) throw notFound();
    return { path: join(this.#folder, id), items, bytes, ...placesOf(record) };
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

  async #write(path: string, { chunks, purpose }: NewFile): Promise<Uploaded> {
    const { disk, bytesMax = FILE_BYTES_MAX, linesMax = LINES_MAX } = this.#options;
    const isText = purpose === "batch";
    const bounds = isText ? { bytesMax, linesMax } : { bytesMax: Infinity, linesMax: Infinity };
    const file = await onDisk(disk.open(path, "write"));
    try {
      const uploaded = await writeUpload(file, chunks, {
        ...bounds,
        lineBytesMax: this.#lineBytesMax,
        isText,
      });
      if (isText) await this.#checkKeys(file, uploaded.bytes);
      await onDisk(file.sync());
      return uploaded;
    } finally {
      await file.close();
    }
  }

  #checkKeys(file: DiskFile, sizeBytes: number): Promise<unknown> {
    const parts = { measurer: this.#options.measurer, lineBytesMax: this.#lineBytesMax };
    const lane = sizeBytes <= SMALL_BYTES_MAX ? "small" : "large";
    const check = this.#lastChecks[lane].then(() => checkKeys(parts, { file, identity: { sizeBytes } }));
    this.#lastChecks[lane] = check.catch(() => undefined);
    return check;
  }

  get #lineBytesMax(): number {
    return this.#options.lineBytesMax ?? LINE_BYTES_MAX;
  }

  async #openForReading(id: string): Promise<DiskFile> {
    try {
      return await this.#options.disk.open(join(this.#folder, id), "read");
    } catch (error) {
      if (errorCodeOf(error) === "ENOENT") throw notFound(); // removed since its record was read
      throw error;
    }
  }
}

function notFound(): PerigeeError {
  return new PerigeeError("not_found", "there is no file with this id");
}
