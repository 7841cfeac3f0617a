/**
 * Sources and destinations of users' files: one interface over a folder, S3 and what opendal speaks.
 *
 *   write:  no file -> bytes arrive, counted and hashed -> read back and compared -> file
 *                                     \-> failed: the file that existed before still exists
 *
 * A path has segments between slashes; what could lead out of the store (`..`, `.`) is refused in any of them.
 * Limits: 1,024 bytes a path.
 */
import { createHash } from "node:crypto";
import { SatelliteError } from "../../sdk/satellite_error.ts";

/** A file of a store, in one state. */
export interface ExternalFile {
  /** From the root of the store, without a slash before it. */
  readonly path: string;
  readonly bytes: number;
  /** Differs when the content does; equal for two names of one file. */
  readonly version: string;
  /** Unix time; absent where the store does not say. */
  readonly modifiedWallMs?: number;
}

/** An entry of a store that cannot be copied: its name is not UTF-8 or holds line ends or the like, or it is a symbolic link. */
export interface LeftOut {
  /** The name, with U+FFFD for bytes that are not UTF-8. */
  readonly path: string;
  readonly reason: "name" | "link";
  /** Whether there may be any number of files below it. */
  readonly isFolder: boolean;
}

/** A page of a listing. */
export interface ListedFiles {
  readonly files: readonly ExternalFile[];
  readonly leftOut: readonly LeftOut[];
}

/** A file to be written under a path that may be taken. */
export interface NewExternalFile {
  readonly path: string;
  /** All of them are written, or nothing. */
  readonly chunks: AsyncIterable<Uint8Array>;
  /** The number of bytes that will arrive; another number is a failure. */
  readonly bytes: number;
  readonly mimeType: string;
  /** Whether an existing file is replaced; otherwise it is a `destination_exists`. */
  readonly isReplacing: boolean;
  /** The same for every attempt, so that leftovers of one are removed by the next. */
  readonly attemptId: string;
}

export interface Written {
  readonly file: ExternalFile;
  /** Of what was read back. */
  readonly sha256: string;
}

/**
 * Every method throws `SatelliteError`, and the signal's reason when it aborts. Methods may be called concurrently, not after
 * `close`.
 */
export interface ExternalStore {
  /** What it is, for references: no secret. */
  readonly name: string;
  /** Files whose paths begin with the prefix, page by page, in an order that does not change; `.perigee-` names are passed over. */
  list(prefix: string, signal: AbortSignal): AsyncIterable<ListedFiles>;
  stat(path: string, signal: AbortSignal): Promise<ExternalFile | undefined>;
  /** All bytes of the file in that state; `source_changed` when it has another by now. */
  read(file: ExternalFile, signal: AbortSignal): AsyncIterable<Uint8Array>;
  /** Resolves when it is durable and was read back. */
  write(file: NewExternalFile, signal: AbortSignal): Promise<Written>;
  /** No error when the file does not exist. */
  remove(path: string, signal: AbortSignal): Promise<void>;
  close(): void;
}

/** Beginning of names that this process makes on the way to a file. */
export const PARTIAL_PREFIX = ".perigee-";

const PATH_BYTES_MAX = 1_024;

/** Whether `checkPrefix` takes it; stores may hold others. */
export function isPlainPath(path: string): boolean {
  try {
    checkPrefix(path);
    return true;
  } catch {
    return false;
  }
}

/** Throws `permanent` for a path that could be read in two ways. */
export function checkPath(path: string): void {
  const segments = path.split("/");
  if (path === "" || segments.at(-1) === "") throw badPath("it names no file");
  checkPrefix(path);
}

/** The same for the beginning of paths, which may be empty. */
export function checkPrefix(prefix: string): void {
  if (Buffer.byteLength(prefix) > PATH_BYTES_MAX) throw badPath(`it has more than ${PATH_BYTES_MAX} bytes`);
  if (/[\p{Cc}\p{Cs}\\]/u.test(prefix)) throw badPath("it has control characters or backslashes");
  if (prefix.split("/").some((segment) => segment === ".." || segment === "."))
    throw badPath('it has "." or ".." in it');
}

/** For stores with folders: no empty names either, and so no path from the root of the machine. */
export function checkSegments(path: string): void {
  if (path.split("/").slice(0, -1).includes("")) throw badPath("it has an empty name in it");
}

/** Permanent, `invalid_path`. */
export function badPath(reason: string): SatelliteError {
  return new SatelliteError("permanent", "invalid_path", `this cannot be the path of a file: ${reason}`);
}

/** Permanent, `destination_exists`. */
export function destinationExists(path: string): SatelliteError {
  return new SatelliteError("permanent", "destination_exists", `there is a file at ${shown(path)} already`);
}

/** Ambiguous, `source_changed`: the next attempt begins with the file of that time. */
export function sourceChanged(path: string): SatelliteError {
  return new SatelliteError("ambiguous", "source_changed", `${shown(path)} was changed while it was read`);
}

/** Ambiguous, `verification_failed`: written again by the next attempt. */
export function notVerified(path: string): SatelliteError {
  return new SatelliteError(
    "ambiguous",
    "verification_failed",
    `what was read back from ${shown(path)} is not what was written`,
  );
}

/** A path within a message. */
export function shown(path: string): string {
  return JSON.stringify(path.length > 200 ? `${path.slice(0, 200)}...` : path);
}

/** Counts and hashes what passes, and throws when it is not as many bytes as it should be. */
export class Passing {
  readonly #hash = createHash("sha256");
  #bytes = 0;

  async *through(
    chunks: AsyncIterable<Uint8Array>,
    expected: Pick<ExternalFile, "path" | "bytes">,
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunks) {
      signal.throwIfAborted();
      this.#bytes += chunk.byteLength;
      if (this.#bytes > expected.bytes) throw sourceChanged(expected.path);
      this.#hash.update(chunk);
      yield chunk;
    }
    if (this.#bytes !== expected.bytes) throw sourceChanged(expected.path);
  }

  /** Once, at the end. */
  sha256(): string {
    return this.#hash.digest("hex");
  }
}

/** Reads everything of a file and says what it hashes to. */
export async function hashOf(store: ExternalStore, file: ExternalFile, signal: AbortSignal): Promise<string> {
  const passing = new Passing();
  for await (const _ of passing.through(store.read(file, signal), file, signal));
  return passing.sha256();
}
