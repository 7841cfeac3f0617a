/**
 * Stores that opendal speaks, such as Azure Blob, Google Cloud Storage and WebDAV. The only import of opendal, an optional peer.
 *
 * opendal opens its own connections, which the egress guard does not see. So only the operator says which service is called
 * and where (`OpendalPlace`); users may add the options of a short list, but not those that the operator set. Credentials that
 * read files or call addresses by themselves (service accounts of Google) are set by the operator. The services on files
 * and memory are refused.
 *
 *   write:  bytes arrive -> the service has them whole -> read back and hashed
 *
 * Limits: 500 names a page; versions of opendal before 0.48 list a folder's whole tree into memory, at most 1,000,000 names.
 */
import { SatelliteError } from "../../sdk/satellite_error.ts";
import {
  checkPath,
  checkPrefix,
  checkSegments,
  destinationExists,
  type ExternalFile,
  type ExternalStore,
  hashOf,
  isPlainPath,
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

/** A service that the operator opens to users. */
export interface OpendalPlace {
  readonly service: OpendalService;
  /** Options of the service, `endpoint` among them where it has one. */
  readonly options: Readonly<Record<string, string>>;
}

export type OpendalService = "azblob" | "gcs" | "webdav";

/** What users may set, where the operator did not. Nothing that names a host, a file or another account's token. */
const USER_OPTIONS: Readonly<Record<OpendalService, readonly string[]>> = {
  azblob: ["root", "container", "account_name", "account_key", "sas_token"],
  gcs: ["root", "bucket", "token"],
  webdav: ["root", "username", "password", "token"],
};
/** Accounts of the machine itself are never used for users: what would look for one is configured not to, or needs one of these. */
const FIXED_OPTIONS: Readonly<Record<OpendalService, Readonly<Record<string, string>>>> = {
  azblob: {},
  gcs: { disable_config_load: "true", disable_vm_metadata: "true" },
  webdav: {},
};
const KEYS_NEEDED: Readonly<Record<OpendalService, readonly string[]>> = {
  azblob: ["account_key", "sas_token"],
  gcs: [],
  webdav: [],
};
const PAGE = 500;
const LISTED_MAX = 1_000_000;
const READ_BYTES = 256 * 1024;

/** Throws `permanent` where opendal is not installed or does not take the options. */
export async function openOpendal(
  name: string,
  place: OpendalPlace,
  given: Readonly<Record<string, string>>,
): Promise<ExternalStore> {
  const allowed = Object.hasOwn(USER_OPTIONS, place.service) ? USER_OPTIONS[place.service] : undefined;
  if (allowed === undefined)
    throw refused(`the service of ${JSON.stringify(name)} is not one that may be used`);
  for (const option of Object.keys(given))
    if (!allowed.includes(option) || Object.hasOwn(place.options, option))
      throw refused(`the option ${option} is not one that ${JSON.stringify(name)} leaves to its users`);
  const { Operator } = await loadOpendal();
  const options = { ...FIXED_OPTIONS[place.service], ...given, ...place.options };
  const keys = KEYS_NEEDED[place.service];
  if (keys.length > 0 && !keys.some((key) => Object.hasOwn(options, key)))
    throw refused(`${JSON.stringify(name)} needs one of the options ${keys.join(", ")}`);
  try {
    const operator = new Operator(place.service, options) as unknown as Operator; // what is used of it, as stated here
    return new OpendalStore(name, operator);
  } catch (cause) {
    throw new SatelliteError("permanent", "invalid_config", `${JSON.stringify(name)} cannot be opened so`, {
      cause,
    });
  }
}

async function loadOpendal(): Promise<Pick<typeof import("opendal"), "Operator">> {
  try {
    const loaded = await import("opendal");
    return loaded.default ?? loaded;
  } catch (cause) {
    const message = "this store needs the package opendal, built for this system: npm install opendal";
    throw new SatelliteError("permanent", "not_installed", message, { cause });
  }
}

/** What versions from 0.47 on have in common, and what only later ones have. */
interface Operator {
  stat(path: string): Promise<Metadata>;
  list(path: string, options: { recursive: boolean }): Promise<Entry[]>;
  lister?(path: string, options: { recursive: boolean }): Promise<{ next(): Promise<Entry | null> }>;
  reader(path: string): Promise<{ read(into: Buffer): Promise<bigint> }>;
  writer(path: string, options: { contentType: string }): Promise<Writer>;
  write(path: string, content: Buffer, options: { contentType: string }): Promise<unknown>;
  createDir(path: string): Promise<void>;
  delete(path: string): Promise<void>;
}

interface Writer {
  write(content: Buffer): Promise<void>;
  close(): Promise<void>;
}

interface Entry {
  path(): string;
}

interface Metadata {
  isFile(): boolean;
  readonly contentLength: bigint | null;
  readonly etag: string | null;
  readonly lastModified: string | null;
}

class OpendalStore implements ExternalStore {
  readonly name: string;
  readonly #operator: Operator;

  constructor(name: string, operator: Operator) {
    this.name = `opendal:${name}`;
    this.#operator = operator;
  }

  async *list(prefix: string, signal: AbortSignal): AsyncGenerator<ListedFiles> {
    checkPrefix(prefix);
    checkSegments(prefix);
    const folder = prefix.slice(0, prefix.lastIndexOf("/") + 1);
    let files: ExternalFile[] = [];
    let leftOut: LeftOut[] = [];
    for await (const path of this.#paths(folder === "" ? "/" : folder, prefix)) {
      signal.throwIfAborted();
      if (!isFile(path) || !path.startsWith(prefix)) continue;
      const found = isPlainPath(path) ? await this.stat(path) : undefined;
      if (found !== undefined) files.push(found);
      else if (!isPlainPath(path)) leftOut.push({ path, reason: "name", isFolder: false });
      if (files.length + leftOut.length < PAGE) continue;
      yield { files, leftOut };
      files = [];
      leftOut = [];
    }
    if (files.length + leftOut.length > 0) yield { files, leftOut };
  }

  async *#paths(folder: string, prefix: string): AsyncGenerator<string> {
    const recursive = { recursive: true };
    const lister = await this.#ask(prefix, () => this.#operator.lister?.(folder, recursive));
    if (lister !== undefined) {
      for (let entry = await lister.next(); entry !== null; entry = await lister.next()) yield entry.path();
      return;
    }
    const entries = await this.#ask(prefix, () => this.#operator.list(folder, recursive));
    if (entries.length > LISTED_MAX)
      throw new SatelliteError("permanent", "too_many_files", `there are more than ${LISTED_MAX} files`);
    for (const path of entries.map((entry) => entry.path()).sort()) yield path;
  }

  async stat(path: string): Promise<ExternalFile | undefined> {
    checkPath(path);
    checkSegments(path);
    const found = await this.#ask(path, async () => {
      try {
        return await this.#operator.stat(path);
      } catch (error) {
        if (kindOf(error) === "NotFound") return undefined;
        throw error;
      }
    });
    return found?.isFile() === true ? fileOf(path, found) : undefined;
  }

  async *read(file: ExternalFile, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    const now = await this.stat(file.path);
    if (now?.version !== file.version) throw sourceChanged(file.path);
    const reader = await this.#ask(file.path, () => this.#operator.reader(file.path));
    for (;;) {
      signal.throwIfAborted();
      const chunk = Buffer.alloc(READ_BYTES);
      const length = Number(await this.#ask(file.path, () => reader.read(chunk)));
      if (length === 0) return;
      yield chunk.subarray(0, length);
    }
  }

  async write(file: NewExternalFile, signal: AbortSignal): Promise<Written> {
    const before = await this.stat(file.path);
    if (before !== undefined && !file.isReplacing) throw destinationExists(file.path);
    const passing = new Passing();
    const options = { contentType: file.mimeType };
    const writer = await this.#ask(file.path, () => this.#operator.writer(file.path, options));
    let isEmpty = true;
    for await (const chunk of passing.through(file.chunks, file, signal)) {
      isEmpty = false;
      await this.#ask(file.path, () => writer.write(Buffer.from(chunk)));
    }
    await this.#ask(file.path, () =>
      // With some services a writer without bytes makes no file.
      isEmpty ? this.#operator.write(file.path, Buffer.alloc(0), options) : writer.close(),
    );
    const sha256 = passing.sha256();
    const written = await this.stat(file.path);
    if (written?.bytes !== file.bytes || (await hashOf(this, written, signal)) !== sha256)
      throw notVerified(file.path);
    return { file: written, sha256 };
  }

  async remove(path: string): Promise<void> {
    if ((await this.stat(path)) === undefined) return;
    await this.#ask(path, () => this.#operator.delete(path));
  }

  close(): void {
    // opendal keeps nothing that could be closed.
  }

  async #ask<T>(path: string, action: () => Promise<T> | T): Promise<T> {
    try {
      return await action();
    } catch (error) {
      throw failureOf(error, path);
    }
  }
}

function isFile(path: string): boolean {
  return path !== "" && !path.endsWith("/") && !(path.split("/").at(-1) ?? "").startsWith(PARTIAL_PREFIX);
}

function fileOf(path: string, { contentLength, etag, lastModified }: Metadata): ExternalFile {
  const bytes = Number(contentLength ?? 0);
  const modifiedWallMs = lastModified === null ? Number.NaN : Date.parse(lastModified);
  return {
    path,
    bytes,
    version: `${etag ?? ""}-${bytes}-${lastModified ?? ""}`,
    ...(Number.isNaN(modifiedWallMs) ? {} : { modifiedWallMs }),
  };
}

/** opendal's errors are texts that begin with their kind: `NotFound (permanent) at stat, ...`. */
function kindOf(error: unknown): string {
  return /^(\w{1,32})\b/.exec(error instanceof Error ? error.message : "")?.[1] ?? "Unexpected";
}

/** The rest of the text may hold addresses and headers, so it is not shown. */
function failureOf(error: unknown, path: string): unknown {
  if (error instanceof SatelliteError || !(error instanceof Error)) return error;
  const kind = kindOf(error);
  const message = `the store refused ${shown(path)}: ${kind}`;
  const options = { cause: error };
  const isDenied = kind === "PermissionDenied" || /\bstatus: 401\b/.test(error.message);
  if (isDenied) return new SatelliteError("permanent", "access_denied", message, options);
  if (kind === "NotFound") return new SatelliteError("permanent", "not_found", message, options);
  const isPermanent = kind === "Unsupported" || kind === "ConfigInvalid" || kind === "InvalidInput";
  if (isPermanent) return new SatelliteError("permanent", "store_refused", message, options);
  return new SatelliteError(
    "refused",
    kind === "RateLimited" ? "store_busy" : "store_failed",
    message,
    options,
  );
}

function refused(message: string): SatelliteError {
  return new SatelliteError("permanent", "invalid_config", message);
}
