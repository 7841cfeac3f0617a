/**
 * Objects as files in a folder that all processes mount (`file:///shared/perigee`). Nothing is tried again.
 *
 *   written to `<name>.<uuid>.tmp` -> synced -> linked as `<name>`, which replaces nothing -> its folder synced -> the other name removed
 *
 * Needs a file system with hard links whose syncs are durable: NFS with `sync`, CephFS, a local disk. A temporary file that a dead process
 * left counts as an object of its name, so that a sweep removes it.
 */
import { randomUUID } from "node:crypto";
import { type FileHandle, link, open, readdir, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Clock } from "../../clock.ts";
import { errorCodeOf, isNoSpace, makeFolder, syncFolder } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import { assertSame, type ListedObject, type Objects } from "./objects.ts";

export class FolderObjects implements Objects {
  readonly #folder: string;
  readonly #clock: Clock;

  /** `folder` is created with the first object if it does not exist. */
  constructor(folder: string, clock: Clock) {
    this.#folder = folder;
    this.#clock = clock;
  }

  async put(name: string, bytes: Uint8Array): Promise<void> {
    const path = join(this.#folder, name);
    const temporary = `${path}.${randomUUID()}.tmp`;
    try {
      await makeFolder(dirname(path), 0o700);
      await writeSynced(temporary, bytes);
      await link(temporary, path);
      await syncFolder(dirname(path));
    } catch (error) {
      if (errorCodeOf(error) !== "EEXIST") throw this.#failure(error, `cannot store ${path}`);
      await assertSame(
        this,
        name,
        bytes,
        () => new PerigeeError("conflict", `another object is stored as ${path}`),
      );
      await syncFolder(dirname(path)); // the process that stored it may have died before it did so
    } finally {
      await rm(temporary, { force: true }).catch(() => undefined); // a sweep removes it
    }
  }

  async get(name: string, start: number, lengthBytes: number): Promise<Uint8Array | undefined> {
    const path = join(this.#folder, name);
    let file: FileHandle | undefined;
    try {
      file = await open(path, "r");
      const bytes = new Uint8Array(lengthBytes);
      let filled = 0;
      while (filled < lengthBytes) {
        const { bytesRead } = await file.read(bytes, filled, lengthBytes - filled, start + filled);
        if (bytesRead === 0) break;
        filled += bytesRead;
      }
      return bytes.subarray(0, filled);
    } catch (error) {
      if (errorCodeOf(error) === "ENOENT") return undefined;
      throw this.#failure(error, `cannot read ${path}`);
    } finally {
      await file?.close();
    }
  }

  async remove(name: string): Promise<void> {
    const path = join(this.#folder, name);
    await rm(path, { force: true }).catch((error: unknown) => {
      throw this.#failure(error, `cannot remove ${path}`);
    });
  }

  async *list(prefix: string): AsyncGenerator<ListedObject, void, undefined> {
    yield* this.#below(prefix.slice(0, Math.max(0, prefix.lastIndexOf("/"))), prefix);
  }

  async close(): Promise<void> {}

  async *#below(folder: string, prefix: string): AsyncGenerator<ListedObject, void, undefined> {
    const path = join(this.#folder, folder);
    const entries = await readdir(path, { withFileTypes: true }).catch((error: unknown) => {
      if (errorCodeOf(error) === "ENOENT") return [];
      throw this.#failure(error, `cannot list ${path}`);
    });
    for (const entry of entries) {
      const name = folder === "" ? entry.name : `${folder}/${entry.name}`;
      if (entry.isDirectory()) {
        if (name.startsWith(prefix) || prefix.startsWith(`${name}/`)) yield* this.#below(name, prefix);
      } else if (name.startsWith(prefix)) {
        const found = await stat(join(this.#folder, name)).catch(() => undefined); // removed meanwhile
        if (found !== undefined) yield { name, ageMs: Math.max(0, this.#clock.wallMs() - found.mtimeMs) };
      }
    }
  }

  #failure(error: unknown, doing: string): unknown {
    if (error instanceof PerigeeError) return error;
    const code = errorCodeOf(error) ?? "unknown error";
    return new PerigeeError(isNoSpace(code) ? "disk_full" : "store_failed", `${doing} (${code})`, {
      cause: error,
    });
  }
}

async function writeSynced(path: string, bytes: Uint8Array): Promise<void> {
  const file = await open(path, "wx", 0o600);
  try {
    await file.writeFile(bytes);
    await file.sync();
  } finally {
    await file.close();
  }
}
