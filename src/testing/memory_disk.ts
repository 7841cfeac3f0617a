/**
 * A disk in memory that can be killed, cut from power, filled up and made to fail.
 *
 *   written -> synced      a kill keeps all that was written; a power cut keeps what was synced, and of each later
 *                          write all, nothing, or its first part (a torn write), as the seed decides
 *
 * After `crash` every open file belongs to a dead process: its calls reject. The disk itself can be used again.
 * A sync that failed makes nothing durable, and no later sync makes those writes durable either: that is what Linux
 * does after `EIO` (https://lwn.net/Articles/752063/).
 *
 * Names are written for themselves: making, renaming and removing a file changes its folder, and a power cut keeps of
 * the changes since the folder's last sync some and loses others. `open` for writing and `rename` sync the folder
 * before they resolve, `remove` does not, as the port says; a crash may happen in between.
 *
 * Limit: folders themselves are always there.
 */
import { basename, dirname } from "node:path";
import type { Clock } from "../clock.ts";
import type { Disk, DiskFile, FileStat } from "../disk.ts";
import { type Change, MemoryFile, sizeAfter } from "./memory_file.ts";
import { MemoryNames } from "./memory_names.ts";

/** What can be made to fail, each kind for itself. */
export type DiskOperation = "open" | "read" | "write" | "sync" | "truncate" | "rename" | "remove";

/** How a `MemoryDisk` takes time; by default it takes none. */
export interface MemoryDiskOptions {
  /** Stamps changes, and times operations when `latencyMs` is set. Without it time does not advance. */
  readonly clock?: Clock;
  /** Virtual time that each write and sync takes; default 0, only promises. */
  readonly latencyMs?: number;
}

/** Who dies, and what is left of writes that no sync covered. */
export interface CrashOptions {
  /** False: the process dies. True: the machine does. */
  readonly powerCut: boolean;
  /** Decides what a power cut leaves of each write that was not synced. */
  readonly random?: () => number;
}

/** `Disk` for simulations. Paths are plain names, those up to the last slash name a folder. */
export class MemoryDisk implements Disk {
  readonly #clock: Clock | undefined;
  readonly #latencyMs: number;
  readonly #names = new MemoryNames();
  /** Codes that coming operations of a kind fail with, in order. */
  readonly #failures = new Map<DiskOperation, string[]>();
  #freeBytes = Number.POSITIVE_INFINITY;
  /** Counts crashes: a file opened before the last one is dead. */
  #era = 0;
  #lastInode = 0;
  #operationsDone = 0;
  #openFiles = 0;
  #crashAt: { readonly operation: number; readonly options: CrashOptions } | undefined;

  constructor(options: MemoryDiskOptions = {}) {
    this.#clock = options.clock;
    this.#latencyMs = options.latencyMs ?? 0;
  }

  async open(path: string, mode: "read" | "write"): Promise<DiskFile> {
    this.#begin("open");
    const found = this.#names.get(path);
    if (mode === "read") {
      if (found === undefined) throw systemError("ENOENT", `no such file: ${path}`);
      return this.#handle(found, mode);
    }
    const file = found ?? this.#make(path);
    await this.#syncFolder(path);
    return this.#handle(file, mode);
  }

  async stat(path: string): Promise<FileStat | undefined> {
    const file = this.#names.get(path);
    if (file === undefined) return undefined;
    return {
      sizeBytes: file.sizeBytes,
      modifiedMs: file.modifiedMs,
      identity: `memory:${file.inode}`,
      isSeekable: true,
    };
  }

  async rename(from: string, to: string): Promise<void> {
    this.#begin("rename");
    if (!this.#names.rename(from, to)) throw systemError("ENOENT", `no such file: ${from}`);
    await this.#syncFolder(to);
  }

  async remove(path: string): Promise<void> {
    this.#begin("remove");
    this.#freeBytes += this.#names.get(path)?.sizeBytes ?? 0;
    this.#names.remove(path);
  }

  /** Folders are always there. */
  async makePrivateFolder(_path: string): Promise<void> {}

  async list(folder: string): Promise<readonly string[]> {
    return this.#names.paths.filter((path) => dirname(path) === folder).map((path) => basename(path));
  }

  /** Puts a file there, durable, as if another program had written it. */
  put(path: string, content: string | Uint8Array): void {
    const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
    const file = this.#make(path);
    file.change({ kind: "write", position: 0, bytes: bytes.slice() }, this.#wallMs());
    file.sync();
    this.#names.sync(dirname(path));
  }

  /** What a reader would see now; undefined when the file does not exist. */
  bytes(path: string): Uint8Array | undefined {
    return this.#names.get(path)?.content();
  }

  /** `bytes` as text. */
  text(path: string): string | undefined {
    const bytes = this.bytes(path);
    return bytes === undefined ? undefined : new TextDecoder().decode(bytes);
  }

  /** Changes whenever `bytes` does; undefined if the file does not exist. */
  version(path: string): string | undefined {
    const file = this.#names.get(path);
    return file === undefined ? undefined : `${file.inode}.${file.changes}`;
  }

  get paths(): readonly string[] {
    return this.#names.paths;
  }

  /** Calls that touched the disk so far: what `crashAtOperation` counts. */
  get operationsDone(): number {
    return this.#operationsDone;
  }

  /** The process that uses this disk dies now, or its machine does. */
  crash(options: CrashOptions): void {
    this.#era += 1;
    this.#crashAt = undefined;
    if (!options.powerCut) return;
    const random = options.random ?? (() => 0);
    this.#names.loseUnsynced(random);
    for (const file of this.#names.files) file.loseUnsynced(random);
  }

  /** Crashes in the middle of the n-th operation from now (from 1): a write is torn before the crash. */
  crashAtOperation(operations: number, options: CrashOptions): void {
    this.#crashAt = { operation: this.#operationsDone + operations, options };
  }

  /** The next operations of this kind fail with this code, once each. */
  failNext(operation: DiskOperation, code: string, times = 1): void {
    const codes = this.#failures.get(operation) ?? [];
    this.#failures.set(operation, [...codes, ...Array.from({ length: times }, () => code)]);
  }

  /** No operation is made to fail any more. */
  failNoMore(): void {
    this.#failures.clear();
  }

  /** The next sync fails with `EIO`, and what it would have synced is never durable. */
  failSync(): void {
    this.failNext("sync", "EIO");
  }

  /** So many more bytes fit; then growing writes end with `ENOSPC` after their first part. Infinity: plenty. */
  setFull(freeBytes: number): void {
    this.#freeBytes = freeBytes;
  }

  /** Files that were opened and not closed. */
  get openFiles(): number {
    return this.#openFiles;
  }

  async #syncFolder(path: string): Promise<void> {
    const era = this.#era;
    if (this.#latencyMs > 0) await this.#clock?.sleep(this.#latencyMs);
    if (era !== this.#era) throw systemError("EIO", "the process of this call has died");
    this.#begin("sync");
    this.#names.sync(dirname(path));
  }

  #handle(file: MemoryFile, mode: "read" | "write"): DiskFile {
    const era = this.#era;
    let isClosed = false;
    this.#openFiles += 1;
    const alive = (): void => {
      if (isClosed) throw systemError("EBADF", "the file is closed");
      if (era !== this.#era) throw systemError("EIO", "the process of this file has died");
    };
    const begin = async (operation: DiskOperation, onCrash?: () => void): Promise<void> => {
      alive();
      if (operation !== "read" && operation !== "sync" && mode === "read") {
        throw systemError("EBADF", "the file is open for reading");
      }
      if (this.#latencyMs > 0 && operation !== "read") await this.#clock?.sleep(this.#latencyMs);
      alive();
      this.#begin(operation, onCrash, operation === "sync" ? () => file.failSync() : undefined);
    };
    return {
      read: async (into, position) => {
        await begin("read");
        return file.read(into, position);
      },
      write: async (bytes, position) => {
        const copy = bytes.slice();
        await begin("write", () => this.#change(file, tornAt(copy, position, this.#crashRandom())));
        this.#grow(file, { kind: "write", position, bytes: copy });
      },
      sync: async () => {
        await begin("sync");
        file.sync();
      },
      truncate: async (sizeBytes) => {
        await begin("truncate");
        this.#grow(file, { kind: "truncate", sizeBytes });
      },
      sizeBytes: async () => {
        alive();
        return file.sizeBytes;
      },
      close: async () => {
        if (!isClosed) this.#openFiles -= 1;
        isClosed = true;
      },
    };
  }

  /** Counts an operation and lets it fail or crash when the test says so. */
  #begin(operation: DiskOperation, onCrash?: () => void, onFailure?: () => void): void {
    this.#operationsDone += 1;
    const crash = this.#crashAt;
    if (crash !== undefined && this.#operationsDone >= crash.operation) {
      onCrash?.();
      this.crash(crash.options);
      throw systemError("EIO", "the process died in the middle of this call");
    }
    const code = this.#failures.get(operation)?.shift();
    if (code === undefined) return;
    onFailure?.();
    throw systemError(code, `${operation} was made to fail`);
  }

  #crashRandom(): number {
    return this.#crashAt?.options.random?.() ?? 0;
  }

  #grow(file: MemoryFile, change: Change): void {
    const growth = sizeAfter(file.sizeBytes, change) - file.sizeBytes;
    if (growth <= this.#freeBytes) {
      this.#freeBytes -= growth;
      this.#change(file, change);
      return;
    }
    if (change.kind === "write") {
      const written = change.bytes.byteLength - (growth - this.#freeBytes);
      this.#freeBytes = 0;
      if (written > 0) this.#change(file, { ...change, bytes: change.bytes.subarray(0, written) });
    }
    throw systemError("ENOSPC", "no space left on the disk");
  }

  #change(file: MemoryFile, change: Change): void {
    file.change(change, this.#wallMs());
  }

  #make(path: string): MemoryFile {
    this.#lastInode += 1;
    const file = new MemoryFile(this.#lastInode, this.#wallMs());
    this.#names.add(path, file);
    return file;
  }

  #wallMs(): number {
    return this.#clock?.wallMs() ?? 0;
  }
}

function tornAt(bytes: Uint8Array, position: number, random: number): Change {
  return { kind: "write", position, bytes: bytes.subarray(0, Math.floor(random * bytes.byteLength)) };
}

function systemError(code: string, message: string): Error {
  return Object.assign(new Error(`${code}: ${message}`), { code });
}
