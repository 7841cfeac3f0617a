/**
 * A folder of this machine as a store: one of the roots that the operator names.
 *
 *   write:  `.perigee-<attempt>.part` beside it -> synced, read back -> linked or renamed to its name
 *
 * Nothing leads out of a root. No folder on the way and no file may be a symbolic link: the folder's real path is compared
 * with the plain one, files are opened with O_NOFOLLOW, and what was opened is compared with the file at the path.
 * Devices, pipes and sockets are not opened for more than a look.
 *
 * Limits: 100,000 names in one folder, 64 folders deep, chunks of 256 KiB.
 */
import { constants, type Stats } from "node:fs";
import {
  type FileHandle,
  link,
  lstat,
  mkdir,
  open,
  opendir,
  realpath,
  rename,
  unlink,
} from "node:fs/promises";
import { basename, dirname, join, sep } from "node:path";
import { errorCodeOf, isNoSpace } from "../../../disk.ts";
import { SatelliteError } from "../../sdk/satellite_error.ts";
import {
  badPath,
  checkPath,
  checkPrefix,
  checkSegments,
  destinationExists,
  type ExternalFile,
  type ExternalStore,
  hashOf,
  type LeftOut,
  type ListedFiles,
  type NewExternalFile,
  notVerified,
  PARTIAL_PREFIX,
  Passing,
  shown,
  sourceChanged,
  type Written,
} from "./external_store.ts";

const NAMES_MAX = 100_000;
const DEPTH_MAX = 64;
const PAGE = 500;
const READ_BYTES = 256 * 1024;
const { O_RDONLY, O_RDWR, O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK } = constants;

/** Throws `permanent` for a root that is not there or no folder. `name` is what the operator calls it. */
export async function openFolder(name: string, root: string): Promise<ExternalStore> {
  const real = await onFiles(realpath(root), name).catch((error: unknown) => {
    if (!(error instanceof SatelliteError && error.code === "source_changed")) throw error;
    throw new SatelliteError(
      "permanent",
      "root_missing",
      `the folder that the operator calls ${name} is not there`,
    );
  });
  if (!(await onFiles(lstat(real), name)).isDirectory()) throw badPath("its root is not a folder");
  return new FolderStore(`fs:${name}`, real);
}

class FolderStore implements ExternalStore {
  readonly name: string;
  readonly #root: string;

  constructor(name: string, root: string) {
    this.name = name;
    this.#root = root;
  }

  async *list(prefix: string, signal: AbortSignal): AsyncGenerator<ListedFiles> {
    checkPrefix(prefix);
    checkSegments(prefix);
    const folder = prefix.slice(0, prefix.lastIndexOf("/") + 1);
    let files: ExternalFile[] = [];
    let leftOut: LeftOut[] = [];
    for await (const found of this.#walk(folder, prefix, 0, signal)) {
      if ("reason" in found) leftOut.push(found);
      else files.push(found);
      if (files.length + leftOut.length < PAGE) continue;
      yield { files, leftOut };
      files = [];
      leftOut = [];
    }
    if (files.length + leftOut.length > 0) yield { files, leftOut };
  }

  /** `folder` is empty or ends with a slash. Sorted within each folder. */
  async *#walk(
    folder: string,
    prefix: string,
    depth: number,
    signal: AbortSignal,
  ): AsyncGenerator<ExternalFile | LeftOut> {
    if (depth > DEPTH_MAX) throw badPath(`there are more than ${DEPTH_MAX} folders in each other`);
    const path = await this.#folder(folder);
    if (path === undefined) return;
    const names: string[] = [];
    const leftOut: LeftOut[] = [];
    for await (const entry of await onFiles(opendir(path), folder)) {
      signal.throwIfAborted();
      // The walk begins in the folder of the prefix, so that only names in there can be longer or others.
      const path = `${folder}${entry.name}`;
      if (entry.name.startsWith(PARTIAL_PREFIX) || !path.startsWith(prefix)) continue;
      const isFolder = entry.isDirectory();
      if (entry.isSymbolicLink()) leftOut.push({ path, reason: "link", isFolder: true });
      else if (!isFolder && !entry.isFile()) continue;
      else if (!isName(entry.name)) leftOut.push({ path, reason: "name", isFolder });
      else names.push(isFolder ? `${entry.name}/` : entry.name);
      if (names.length + leftOut.length > NAMES_MAX)
        throw new SatelliteError(
          "permanent",
          "too_many_files",
          `${shown(folder)} has more than ${NAMES_MAX} files`,
        );
    }
    yield* leftOut.sort((one, other) => (one.path < other.path ? -1 : 1));
    for (const name of names.sort()) {
      signal.throwIfAborted();
      if (name.endsWith("/")) yield* this.#walk(`${folder}${name}`, prefix, depth + 1, signal);
      else {
        const found = await this.stat(`${folder}${name}`);
        if (found !== undefined) yield found;
      }
    }
  }

  async stat(path: string): Promise<ExternalFile | undefined> {
    const place = await this.#place(path);
    if (place === undefined) return undefined;
    try {
      const found = await lstat(place);
      return found.isFile() ? fileOf(path, found) : refuseOther(path, found);
    } catch (error) {
      if (errorCodeOf(error) === "ENOENT") return undefined;
      throw failed(error, path);
    }
  }

  async *read(file: ExternalFile, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    const handle = await this.#open(file.path);
    try {
      if (fileOf(file.path, await handle.stat()).version !== file.version) throw sourceChanged(file.path);
      for (let position = 0; ; ) {
        signal.throwIfAborted();
        const chunk = new Uint8Array(READ_BYTES);
        const { bytesRead } = await onFiles(handle.read(chunk, 0, READ_BYTES, position), file.path);
        if (bytesRead === 0) break;
        position += bytesRead;
        yield chunk.subarray(0, bytesRead);
      }
    } finally {
      await handle.close();
    }
  }

  async write(file: NewExternalFile, signal: AbortSignal): Promise<Written> {
    const place = await this.#makePlace(file.path);
    const before = await this.stat(file.path);
    if (before !== undefined && !file.isReplacing) throw destinationExists(file.path);
    const partial = `${dirname(file.path)}/${PARTIAL_PREFIX}${file.attemptId}.part`.replace(/^\.\//, "");
    const partialPlace = join(dirname(place), basename(partial));
    await removeIfThere(partialPlace, file.path);
    try {
      const sha256 = await this.#fill(partialPlace, file, signal);
      const written = await this.stat(partial);
      if (written?.bytes !== file.bytes || (await hashOf(this, written, signal)) !== sha256)
        throw notVerified(file.path);
      if (file.isReplacing) await onFiles(rename(partialPlace, place), file.path);
      else await linkNew(partialPlace, place, file.path);
      await syncFolder(dirname(place));
      // Linking and renaming change neither size nor content, and so not the version.
      return { file: { ...written, path: file.path }, sha256 };
    } finally {
      await removeIfThere(partialPlace, file.path);
    }
  }

  async #fill(place: string, file: NewExternalFile, signal: AbortSignal): Promise<string> {
    const flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW;
    const handle = await onFiles(open(place, flags, 0o666), file.path);
    const passing = new Passing();
    try {
      let position = 0;
      for await (const chunk of passing.through(file.chunks, file, signal)) {
        await onFiles(writeAll(handle, chunk, position), file.path);
        position += chunk.byteLength;
      }
      await onFiles(handle.sync(), file.path);
    } finally {
      await handle.close();
    }
    return passing.sha256();
  }

  async remove(path: string): Promise<void> {
    const place = await this.#place(path);
    if (place === undefined) return;
    await this.stat(path); // refuses what is not a file
    await removeIfThere(place, path);
    await syncFolder(dirname(place));
  }

  close(): void {
    // No file stays open between calls.
  }

  /** The real path of a file's name, when its folder exists and the path has no link. */
  async #place(path: string): Promise<string | undefined> {
    checkPath(path);
    checkSegments(path);
    const folder = await this.#folder(path.slice(0, path.lastIndexOf("/") + 1));
    return folder === undefined ? undefined : join(folder, basename(path));
  }

  async #folder(folder: string): Promise<string | undefined> {
    const plain = join(this.#root, folder).replace(/[/\\]$/, "") || sep;
    try {
      if ((await realpath(plain)) !== plain) throw badPath("a folder on the way is a symbolic link");
      return plain;
    } catch (error) {
      if (/^(ENOENT|ENOTDIR)$/.test(errorCodeOf(error) ?? "")) return undefined;
      throw failed(error, folder);
    }
  }

  async #makePlace(path: string): Promise<string> {
    checkPath(path);
    checkSegments(path);
    let folder = "";
    for (const name of path.split("/").slice(0, -1)) {
      folder = `${folder}${name}/`;
      if ((await this.#folder(folder)) !== undefined) continue;
      await mkdir(join(this.#root, folder)).catch((error: unknown) => {
        if (errorCodeOf(error) !== "EEXIST") throw failed(error, path);
      });
      await syncFolder(dirname(join(this.#root, folder)));
    }
    const place = await this.#place(path);
    if (place === undefined) throw badPath("a parent of the path is not a folder");
    return place;
  }

  /** A plain file, and the one at the path at that time. */
  async #open(path: string): Promise<FileHandle> {
    const place = await this.#place(path);
    if (place === undefined) throw sourceChanged(path);
    const handle = await onFiles(open(place, O_RDONLY | O_NOFOLLOW | O_NONBLOCK), path);
    try {
      const [opened, standing] = [await handle.stat(), await this.stat(path)];
      if (!opened.isFile()) refuseOther(path, opened);
      if (standing?.version !== fileOf(path, opened).version) throw sourceChanged(path);
      return handle;
    } catch (error) {
      await handle.close();
      throw error;
    }
  }
}

function isName(name: string): boolean {
  return !/[\p{Cc}\p{Cs}\\\ufffd]/u.test(name);
}

/** The version has the file's own number, to distinguish two names of one file from two equal files. */
function fileOf(path: string, { size, mtimeMs, dev, ino }: Stats): ExternalFile {
  const modifiedWallMs = Math.trunc(mtimeMs);
  return { path, bytes: size, modifiedWallMs, version: `${dev}-${ino}-${size}-${mtimeMs}` };
}

function refuseOther(path: string, found: Stats): undefined {
  if (found.isDirectory()) return undefined;
  const what = found.isSymbolicLink() ? "a symbolic link" : "no plain file";
  throw new SatelliteError("permanent", "invalid_path", `${shown(path)} is ${what}`);
}

async function writeAll(handle: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < bytes.byteLength; )
    done += (await handle.write(bytes, done, bytes.byteLength - done, position + done)).bytesWritten;
}

/** Gives the file its name in one step that fails when the name is taken. */
async function linkNew(from: string, to: string, path: string): Promise<void> {
  try {
    await link(from, to);
  } catch (error) {
    if (errorCodeOf(error) === "EEXIST") throw destinationExists(path);
    throw failed(error, path);
  }
}

async function removeIfThere(place: string, path: string): Promise<void> {
  try {
    await unlink(place);
  } catch (error) {
    if (errorCodeOf(error) !== "ENOENT") throw failed(error, path);
  }
}

async function syncFolder(place: string): Promise<void> {
  const handle = await open(place, O_RDONLY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function onFiles<T>(operation: Promise<T>, path: string): Promise<T> {
  try {
    return await operation;
  } catch (error) {
    throw failed(error, path);
  }
}

/** Messages name only the path within the store. */
function failed(error: unknown, path: string): unknown {
  if (error instanceof SatelliteError) return error;
  const code = errorCodeOf(error);
  if (code === undefined) return error;
  if (isNoSpace(code))
    return new SatelliteError("refused", "store_full", "there is no space left in the store");
  if (code === "ELOOP")
    return new SatelliteError("permanent", "invalid_path", `${shown(path)} is a symbolic link`);
  if (code === "ENOENT")
    return new SatelliteError("ambiguous", "source_changed", `${shown(path)} no longer exists`);
  const isRefused = code === "EACCES" || code === "EPERM" || code === "EROFS";
  if (isRefused)
    return new SatelliteError("permanent", "access_denied", `${shown(path)} may not be touched (${code})`);
  return new SatelliteError("ambiguous", "store_failed", `the store failed at ${shown(path)} (${code})`, {
    cause: error,
  });
}
