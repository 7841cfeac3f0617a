/**
 * The files of a partition for a process that does not own it: what is committed, read only. An open file is read as it was when it was
 * opened. It is loaded again when a read passes its end, or finds that its segments were gathered or removed since.
 */
import { type Clock, systemClock } from "../../clock.ts";
import { type Disk, type DiskFile, systemDisk } from "../../disk.ts";
import type { FileRow } from "../file_rows.ts";
import { PgFiles } from "../postgres/pg_files.ts";
import { PgStatements } from "../postgres/pg_statements.ts";
import type { FileExtents } from "./file_extents.ts";
import { FileHandle, fileError } from "./file_handle.ts";
import { damagedSegment, readExtents } from "./layer_reads.ts";
import { loadExtents } from "./loaded_extents.ts";
import type { Objects } from "./objects.ts";
import { PartitionPaths } from "./partition_paths.ts";

export interface PartitionReaderOptions {
  /** The address of the database. */
  readonly url: string;
  readonly part: number;
  /** The caller closes it. */
  readonly objects: Objects;
  /** The same root as that of the partition's owner. */
  readonly root: string;
  readonly clock?: Clock;
  /** For paths that are not below the root, to read and write. Default: this machine's. */
  readonly elsewhere?: Disk;
}

/** A read-only disk with a separate session. */
export interface PartitionReader extends Disk {
  close(): void;
}

/** Connects. Rejects as `openPostgresStore` does. Changes below the root reject with `EROFS`. */
export async function openPartitionReader(options: PartitionReaderOptions): Promise<PartitionReader> {
  const { url, part, objects, root, clock = systemClock, elsewhere = systemDisk } = options;
  const statements = await PgStatements.open(url, clock);
  const files = new PgFiles(statements.query, part, () => 0);
  const paths = new PartitionPaths(root);
  const refused = async (path: string, elsewise: () => Promise<void>): Promise<void> => {
    if (paths.inside(path) === undefined) return elsewise();
    throw readOnly(path);
  };
  return {
    open: async (path, mode) => {
      const name = paths.inside(path);
      if (name === undefined) return elsewhere.open(path, mode);
      if (mode === "write") throw readOnly(path);
      return openFile({ files, objects }, name, path);
    },
    stat: async (path) => {
      const name = paths.inside(path);
      if (name === undefined) return elsewhere.stat(path);
      const found = await files.file(name);
      if (found === undefined) return undefined;
      const { sizeBytes, modifiedMs, id } = found;
      return { sizeBytes, modifiedMs, identity: `p${part}:${id}`, isSeekable: true };
    },
    list: async (folder) => {
      const name = paths.inside(folder);
      return name === undefined ? elsewhere.list(folder) : files.names(name);
    },
    rename: (from, to) =>
      refused(paths.inside(from) === undefined ? to : from, () => elsewhere.rename(from, to)),
    remove: (path) => refused(path, () => elsewhere.remove(path)),
    makePrivateFolder: (path) => refused(path, () => elsewhere.makePrivateFolder(path)),
    close: () => statements.close(),
  };
}

interface ReadStorage {
  readonly files: Pick<PgFiles, "file" | "segments" | "bytes">;
  readonly objects: Objects;
}

const LOADS_MAX = 4;

async function openFile(storage: ReadStorage, name: string, path: string): Promise<DiskFile> {
  const first = await storage.files.file(name);
  if (first === undefined) throw fileError("ENOENT", `no such file: ${path}`);
  let row: FileRow = first;
  let extents: FileExtents = await loadExtents(storage.files, row.id);
  /** Resolves with false when the file has not changed. */
  const reload = async (): Promise<boolean> => {
    const found = await storage.files.file(name);
    if (found === undefined || found.id !== row.id || found.version === row.version) return false;
    row = found;
    extents = await loadExtents(storage.files, row.id);
    return true;
  };
  const read = async (into: Uint8Array, position: number): Promise<number> => {
    if (position + into.byteLength > row.sizeBytes) await reload();
    for (let loads = 1; ; loads += 1) {
      const length = Math.max(0, Math.min(into.byteLength, row.sizeBytes - position));
      const target = into.subarray(0, length).fill(0);
      const shown = extents.within(position, position + length);
      const unread = await readExtents(storage, row.id, shown, target, position);
      if (unread === undefined) return length;
      if (loads === LOADS_MAX || !(await reload())) throw damagedSegment(name, unread);
    }
  };
  const file = {
    get sizeBytes() {
      return row.sizeBytes;
    },
    read,
    write: () => Promise.reject(readOnly(path)),
    truncate: () => Promise.reject(readOnly(path)),
    flush: async () => undefined,
  };
  return new FileHandle(file, "read", async () => undefined);
}

function readOnly(path: string): Error {
  return fileError("EROFS", `${path} belongs to a partition that another process owns`);
}
