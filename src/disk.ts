/**
 * The port for files: the engine reads inputs and writes outputs through it, so that a simulated run can tear,
 * fill and lose a disk at any byte (docs/decisions/0003-disk-port.md).
 *
 * Promises: `write` has happened for other readers of the file when it resolves, but survives a power cut only
 * after `sync`; a killed process keeps what was written. The name of a file that was opened for writing or renamed
 * survives a power cut when the call resolves; a file that was removed may exist again. Failures are the system's own errors (`code: "ENOSPC"`, `"EIO"`).
 */
import { type FileHandle, mkdir, open, readdir, rename, rm, stat, statfs } from "node:fs/promises";
import { dirname, resolve } from "node:path";

/** What distinguishes one file, and one state of a file, from another. */
export interface FileStat {
  readonly sizeBytes: number;
  /** Unix time of the last change, whole milliseconds. */
  readonly modifiedMs: number;
  /** Device and inode: differs when a file was replaced by another of the same name. */
  readonly identity: string;
  /** False for pipes, terminals and other sources that cannot be read twice. */
  readonly isSeekable: boolean;
}

/** An open file. Calls may overlap; overlapping writes must not touch the same bytes. Close it once. */
export interface DiskFile {
  /** The system's number of the file, with which another thread may write it too; none where the system has no such file. */
  readonly descriptor?: number;
  /**
   * Fills `into` from `position` on; returns the bytes read, fewer than asked only at the end of the file. What cannot
   * be read twice returns the next bytes that arrive, at most so many, and 0 at its end.
   */
  read(into: Uint8Array, position: number): Promise<number>;
  /** Writes all of `bytes` at `position`. */
  write(bytes: Uint8Array, position: number): Promise<void>;
  /** Makes all that was written survive a power cut. After a rejection the file's state is unknown: do not retry. */
  sync(): Promise<void>;
  truncate(sizeBytes: number): Promise<void>;
  sizeBytes(): Promise<number>;
  close(): Promise<void>;
}

/** Port. Paths are the system's; folders are made as needed when a file is opened for writing. */
export interface Disk {
  /**
   * `read` needs the file to exist; `write` opens for reading and writing, makes it with mode 0600, and makes its name
   * durable, also if another process made it.
   */
  open(path: string, mode: "read" | "write"): Promise<DiskFile>;
  /** Undefined when it does not exist. */
  stat(path: string): Promise<FileStat | undefined>;
  /** Within one folder. Replaces what is at `to`; after a power cut the file has one of the two names. */
  rename(from: string, to: string): Promise<void>;
  /** No error when it does not exist. Not durable: after a power cut the file may exist again. */
  remove(path: string): Promise<void>;
  /** Makes a folder that only its owner may enter (mode 0700), where it is missing; it survives a power cut. */
  makePrivateFolder(path: string): Promise<void>;
  /** Free bytes of the disk that a path is or will be on; undefined if the system does not report them. */
  freeBytes?(path: string): Promise<number | undefined>;
  /** Names of the files in a folder, in no order; none when there is no such folder. */
  list(folder: string): Promise<readonly string[]>;
}

/** The disk of this machine. */
export const systemDisk: Disk = {
  async open(path, mode) {
    if (mode === "read") {
      const handle = await open(path, "r");
      return new SystemFile(handle, (await handle.stat()).isFile());
    }
    const folder = dirname(path);
    await makeFolder(folder);
    const handle = await open(path, "r+").catch((error: unknown) => {
      if (errorCodeOf(error) !== "ENOENT") throw error;
      return open(path, "wx+", 0o600);
    });
    try {
      await syncFolder(folder); // also when it existed: its maker may have died before this
      return new SystemFile(handle);
    } catch (error) {
      await handle.close();
      throw error;
    }
  },
  async stat(path) {
    try {
      const found = await stat(path);
      return {
        sizeBytes: found.size,
        modifiedMs: Math.trunc(found.mtimeMs),
        identity: `${found.dev}:${found.ino}`,
        isSeekable: found.isFile(),
      };
    } catch (error) {
      if (errorCodeOf(error) === "ENOENT") return undefined;
      throw error;
    }
  },
  async rename(from, to) {
    await rename(from, to);
    await syncFolder(dirname(to));
  },
  remove: (path) => rm(path, { force: true }),
  makePrivateFolder: (path) => makeFolder(path, 0o700),
  async freeBytes(path) {
    for (let folder = resolve(path); ; folder = dirname(folder)) {
      try {
        const { bavail, bsize } = await statfs(folder);
        return bavail * bsize;
      } catch (error) {
        if (errorCodeOf(error) !== "ENOENT" || folder === dirname(folder)) return undefined;
      }
    }
  },
  async list(folder) {
    try {
      const entries = await readdir(folder, { withFileTypes: true });
      return entries.filter((entry) => entry.isFile()).map((entry) => entry.name);
    } catch (error) {
      if (errorCodeOf(error) === "ENOENT") return [];
      throw error;
    }
  },
};

/** Makes a folder, and those above it, where they are missing; they survive a power cut when it resolves. */
export async function makeFolder(path: string, mode?: number): Promise<void> {
  const made = await mkdir(path, { recursive: true, mode });
  if (made === undefined) return;
  const last = dirname(resolve(made));
  for (let one = resolve(path); one !== last; ) {
    one = dirname(one);
    await syncFolder(one);
  }
}

/** Makes the names in a folder survive a power cut, where the system can: some file systems and Windows cannot. */
export async function syncFolder(path: string): Promise<void> {
  let folder: FileHandle | undefined;
  try {
    folder = await open(path, "r");
    await folder.sync();
  } catch (error) {
    if (!/^(EINVAL|EPERM|EACCES|EISDIR|ENOTSUP|ENOSYS)$/.test(errorCodeOf(error) ?? "")) throw error;
  } finally {
    await folder?.close();
  }
}

/** Whether the disk is full, or the user's share of it. */
export function isNoSpace(systemCode: string | undefined): boolean {
  return systemCode === "ENOSPC" || systemCode === "EDQUOT";
}

/** The system's code of a file error, such as `"ENOSPC"`, or undefined. */
export function errorCodeOf(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

class SystemFile implements DiskFile {
  readonly #handle: FileHandle;
  readonly #isSeekable: boolean;

  constructor(handle: FileHandle, isSeekable = true) {
    this.#handle = handle;
    this.#isSeekable = isSeekable;
  }

  get descriptor(): number {
    return this.#handle.fd;
  }

  async read(into: Uint8Array, position: number): Promise<number> {
    if (!this.#isSeekable) return (await this.#handle.read(into, 0, into.byteLength, null)).bytesRead;
    let filled = 0;
    while (filled < into.byteLength) {
      const { bytesRead } = await this.#handle.read(
        into,
        filled,
        into.byteLength - filled,
        position + filled,
      );
      if (bytesRead === 0) break;
      filled += bytesRead;
    }
    return filled;
  }

  async write(bytes: Uint8Array, position: number): Promise<void> {
    let written = 0;
    while (written < bytes.byteLength) {
      const { bytesWritten } = await this.#handle.write(
        bytes,
        written,
        bytes.byteLength - written,
        position + written,
      );
      written += bytesWritten;
    }
  }

  sync(): Promise<void> {
    return this.#handle.datasync();
  }

  truncate(sizeBytes: number): Promise<void> {
    return this.#handle.truncate(sizeBytes);
  }

  async sizeBytes(): Promise<number> {
    return (await this.#handle.stat()).size;
  }

  close(): Promise<void> {
    return this.#handle.close();
  }
}
