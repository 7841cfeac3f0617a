/**
 * The files of a partition as a `Disk`: what is below its root is in the database and in objects, so that the next owner of the partition has
 * it too. Other paths belong to another disk. docs/decisions/0039-objects.md
 *
 *   absent -> made -> renamed ...
 *                  -> removed    (its rows at once, or when its last handle is closed; its objects after them)
 *
 * Unlike on a disk of the system, what was written and not synced is lost with the process, not only with the machine, unless the file was
 * closed. A read that finds bytes missing or changed rejects with `store_damaged`. Once another owner has the partition, nothing is written:
 * calls reject with `store_failed`.
 */
import { type Clock, systemClock } from "../../clock.ts";
import { type Disk, type DiskFile, type FileStat, systemDisk } from "../../disk.ts";
import { KeyedMutex } from "../../keyed_mutex.ts";
import { type FileChange, type FileRow, type FileRows, REMOVED_FOLDER } from "../file_rows.ts";
import { FileHandle, fileError } from "./file_handle.ts";
import { FILE_SIZES, type FileSizes } from "./file_sizes.ts";
import { KeptBytes } from "./kept_bytes.ts";
import type { Objects } from "./objects.ts";
import { type FileHome, PartitionFile } from "./partition_file.ts";
import { PartitionPaths } from "./partition_paths.ts";

export interface PartitionDiskOptions {
  /** The open store of the partition: its fence holds for the files too. */
  readonly store: { readonly files: FileRows };
  /** The place of the bytes of large files. The caller closes it, after the disk. */
  readonly objects: Objects;
  /**
   * The folder whose files belong to the partition: the `dataDir` of its engine. It is a name, not a folder of this machine, and the same for
   * every owner, because tasks note the paths of their files.
   */
  readonly root: string;
  /** Stamps changes. Default: the system's. */
  readonly clock?: Clock;
  /** For paths that are not below the root. Default: this machine's. */
  readonly elsewhere?: Disk;
  /** Default: `FILE_SIZES`. */
  readonly sizes?: FileSizes;
}

export interface PartitionDisk extends Disk {
  /** Waits for work in the background: gathering, and removing objects. Call it before the store is closed. Does not close open files. */
  close(): Promise<void>;
}

/** How many files one owner may make: the id of a file is the owner's epoch times this, plus a count. */
const FILES_OF_EPOCH = 2 ** 30;

/** Opens the disk; one for a store. Rejects as the calls of the store do. */
export async function openPartitionDisk(options: PartitionDiskOptions): Promise<PartitionDisk> {
  const { store, objects, root, clock = systemClock, elsewhere = systemDisk, sizes = FILE_SIZES } = options;
  const owner = await store.files.owner();
  const home = { files: store.files, objects, clock, owner, kept: new KeptBytes(), sizes };
  return new OwnedDisk(home, new PartitionPaths(root), elsewhere);
}

class OwnedDisk implements PartitionDisk {
  readonly #home: FileHome;
  readonly #paths: PartitionPaths;
  readonly #elsewhere: Disk;
  /** Files that are open or being gathered. */
  readonly #open = new Map<string, PartitionFile>();
  /** By path. */
  readonly #turns = new KeyedMutex();
  /** Work in the background. Never rejects. */
  readonly #behind = new Set<Promise<void>>();
  #made = 0;

  constructor(home: FileHome, paths: PartitionPaths, elsewhere: Disk) {
    this.#home = home;
    this.#paths = paths;
    this.#elsewhere = elsewhere;
  }

  async open(path: string, mode: "read" | "write"): Promise<DiskFile> {
    const name = this.#paths.inside(path);
    if (name === undefined) return this.#elsewhere.open(path, mode);
    return this.#turns.take(name, async () => {
      const file = this.#open.get(name) ?? (await this.#load(name)) ?? (await this.#make(name, path, mode));
      file.users += 1;
      this.#open.set(name, file);
      return new FileHandle(file, mode, () => this.#closed(file));
    });
  }

  async stat(path: string): Promise<FileStat | undefined> {
    const name = this.#paths.inside(path);
    if (name === undefined) return this.#elsewhere.stat(path);
    const found = this.#open.get(name) ?? (await this.#home.files.file(name));
    if (found === undefined) return undefined;
    const { id, sizeBytes, modifiedMs } = this.#open.get(name) ?? found; // it may have been opened and written meanwhile
    return { sizeBytes, modifiedMs, identity: `p${this.#home.owner.part}:${id}`, isSeekable: true };
  }

  async rename(from: string, to: string): Promise<void> {
    const [name, next] = [this.#paths.inside(from), this.#paths.inside(to)];
    if (name === undefined && next === undefined) return this.#elsewhere.rename(from, to);
    if (name === undefined || next === undefined)
      throw fileError("EXDEV", `${from} and ${to} are on different disks`);
    if (name === next) return;
    const [first, second] = name < next ? [name, next] : [next, name];
    await this.#turns.take(first, () => this.#turns.take(second, () => this.#rename(name, next, from)));
  }

  async remove(path: string): Promise<void> {
    const name = this.#paths.inside(path);
    if (name === undefined) return this.#elsewhere.remove(path);
    await this.#turns.take(name, async () => {
      const removal = await this.#removal(name);
      if (removal === undefined) return;
      await this.#home.files.change([removal.change]);
      removal.done();
    });
  }

  /** Does nothing below the root: files of the partition are not in folders of the system. */
  async makePrivateFolder(path: string): Promise<void> {
    if (this.#paths.inside(path) === undefined) await this.#elsewhere.makePrivateFolder(path);
  }

  async freeBytes(path: string): Promise<number | undefined> {
    return this.#paths.inside(path) === undefined ? this.#elsewhere.freeBytes?.(path) : undefined;
  }

  async list(folder: string): Promise<readonly string[]> {
    const name = this.#paths.inside(folder);
    return name === undefined ? this.#elsewhere.list(folder) : this.#home.files.names(name);
  }

  async close(): Promise<void> {
    while (this.#behind.size > 0) await Promise.all(this.#behind);
  }

  async #load(name: string): Promise<PartitionFile | undefined> {
    const row = await this.#home.files.file(name);
    return row === undefined ? undefined : PartitionFile.load(this.#home, name, row);
  }

  async #make(name: string, path: string, mode: "read" | "write"): Promise<PartitionFile> {
    if (mode === "read") throw fileError("ENOENT", `no such file: ${path}`);
    const { files, clock, owner } = this.#home;
    this.#made += 1;
    const row: FileRow = {
      ...{
        id: owner.epoch * FILES_OF_EPOCH + this.#made,
        sizeBytes: 0,
        modifiedMs: clock.wallMs(),
        version: 1,
      },
    };
    await files.change([{ kind: "make", id: row.id, path: name, modifiedMs: row.modifiedMs }]);
    return new PartitionFile(this.#home, name, row);
  }

  /** Stores what was written, because a closed file of the system keeps it too. */
  async #closed(file: PartitionFile): Promise<void> {
    try {
      await file.flush();
    } finally {
      file.users -= 1;
      if (file.users === 0) this.#leave(file);
    }
  }

  #leave(file: PartitionFile): void {
    this.#goOn(async () => {
      do {
        await file.settled();
        if (file.users > 0) return;
      } while (file.isBusy); // it was opened and closed meanwhile
      if (this.#open.get(file.path) === file) this.#open.delete(file.path);
      if (!file.path.startsWith(REMOVED_FOLDER)) return;
      await this.#home.files.change([{ kind: "remove", id: file.id }]);
      await this.#removeObjects(file);
    });
  }

  async #rename(name: string, next: string, from: string): Promise<void> {
    const open = this.#open.get(name);
    await open?.flush();
    const id = open?.id ?? (await this.#home.files.file(name))?.id;
    if (id === undefined) throw fileError("ENOENT", `no such file: ${from}`);
    const replaced = await this.#removal(next);
    const changes: FileChange[] = replaced === undefined ? [] : [replaced.change];
    await this.#home.files.change([...changes, { kind: "rename", id, path: next }]);
    replaced?.done();
    const file = this.#open.get(name); // it may have been let go
    this.#open.delete(name);
    if (file === undefined) return;
    file.path = next;
    this.#open.set(next, file);
  }

  /** The change that removes a file, and what to do afterwards. Open handles keep the file. */
  async #removal(
    name: string,
  ): Promise<{ readonly change: FileChange; readonly done: () => void } | undefined> {
    const open = this.#open.get(name);
    if (open !== undefined) {
      const path = `${REMOVED_FOLDER}${open.id}`;
      const done = (): void => {
        this.#open.delete(name);
        open.path = path;
        if (open.users === 0) this.#leave(open);
      };
      return { change: { kind: "rename", id: open.id, path }, done };
    }
    const file = await this.#load(name);
    if (file === undefined) return undefined;
    return {
      change: { kind: "remove", id: file.id },
      done: () => this.#goOn(() => this.#removeObjects(file)),
    };
  }

  /** An object that could not be removed is not named by any segment, and is swept. */
  async #removeObjects(file: PartitionFile): Promise<void> {
    for (const object of file.objects) await this.#home.objects.remove(object);
  }

  /** Works in the background. A failure leaves objects that are swept, and files that the next owner removes. */
  #goOn(work: () => Promise<void>): void {
    const going = work()
      .catch(() => undefined)
      .finally(() => this.#behind.delete(going));
    this.#behind.add(going);
  }
}
