/**
 * The files that items name in place of their content, as requests read them when they are sent.
 *
 *   `path`      from the folder of the input; of items without a file, from the working folder
 *   `s3://`     the object, by the keys of the environment
 *   `file_id`   a file that the item's own project has stored
 *
 * What is missing, denied, empty, too large or no regular file is the item's fault, and ends it. What the disk or the store cannot
 * read for now is not, and is tried again (media_outages.ts).
 */
import { dirname, resolve, sep } from "node:path";
import { type Disk, errorCodeOf } from "../../disk.ts";
import {
  InsertFault,
  type InsertFile,
  type InsertFiles,
  nameOf,
} from "../../dispatch/inserts/inserted_body.ts";
import { type InsertSource, mediaBytesMax } from "../../providers/inserts.ts";
import type { ProviderSettings } from "../../providers/provider.ts";
import { ObjectFault } from "../../s3/s3_objects.ts";
import type { Buckets, MediaPlaces, StoredFiles } from "./media_places.ts";

/** Of an engine's storage. */
interface MediaStorage {
  readonly disk: Disk;
  readonly dataDir: string;
  readonly media: MediaPlaces;
}

/** Whose items name the files. */
interface MediaOwner {
  readonly project: string;
  readonly mediaFolder: string | undefined;
}

/** Where a file is; rejects with whatever its port rejects with. */
type MediaPlace = Omit<InsertFiles, "pause">;

/** A multiple of 3, so that chunks become whole groups of base64, and small, so that what is made of them is garbage of the young. */
const CHUNK_BYTES = 48 * 1024;

/** The codes for what stays as it is until somebody changes it. */
const FINAL_CODES: ReadonlySet<string | undefined> = new Set([
  ...["ENOENT", "ENOTDIR", "EISDIR", "EACCES", "EPERM", "ELOOP", "ENAMETOOLONG", "ERR_INVALID_ARG_VALUE"],
  "file_damaged", // of stored files
]);

/** Where files are that the lines of an input name by a path; undefined where none may be read. `input`: absolute; undefined without a file. */
export function mediaFolder(
  { media, dataDir }: Pick<MediaStorage, "media" | "dataDir">,
  input: string | undefined,
): string | undefined {
  if (!media.readsLocalFiles) return undefined;
  const isOwn = input === undefined || input.startsWith(resolve(dataDir) + sep); // written by this process
  return isOwn ? process.cwd() : dirname(input);
}

/** Those that an owner's items may read for a provider. */
export function mediaFiles(
  { disk, media }: Pick<MediaStorage, "disk" | "media">,
  { project, mediaFolder: folder }: MediaOwner,
  settings: Pick<ProviderSettings, "mediaBytesMax">,
): InsertFiles {
  const { buckets, stored, outages } = media;
  const bytesMax = mediaBytesMax(settings);
  const placeOf = (source: InsertSource): MediaPlace => {
    if ("path" in source && folder !== undefined) return localFiles(disk, resolve(folder, source.path));
    if ("s3" in source && buckets !== undefined) return objects(buckets, source.s3);
    if ("fileId" in source && stored !== undefined) return storedFiles(stored, project, source.fileId);
    throw new InsertFault(`cannot be read: ${refusalOf(source)}`, "file");
  };
  const faultOf = (error: unknown, source: InsertSource): InsertFault => {
    const { message, blamed } = blameOf(error);
    const name = nameOf(source);
    const text = `${name} ${message}`;
    if (blamed !== "place") return new InsertFault(text, blamed);
    return new InsertFault(text, outages.failed(name, text) ? "place" : "file");
  };
  return {
    async look(source, signal) {
      try {
        return checked(await placeOf(source).look(source, signal), bytesMax);
      } catch (error) {
        signal?.throwIfAborted();
        throw faultOf(error, source);
      }
    },
    async *read(source, file, signal) {
      try {
        yield* placeOf(source).read(source, file, signal);
        outages.read(nameOf(source));
      } catch (error) {
        signal?.throwIfAborted();
        throw faultOf(error, source);
      }
    },
    pause: (mostMs, signal) => outages.pause(mostMs, signal),
  };
}

function refusalOf(source: InsertSource): string {
  if ("fileId" in source) return "only the service has stored files";
  return `only the library and the command read ${"path" in source ? "local files" : "s3:// addresses"}`;
}

/** What a port threw, in words that follow the name of the file. */
function blameOf(error: unknown): Pick<InsertFault, "message" | "blamed"> {
  if (error instanceof InsertFault) return error;
  if (error instanceof ObjectFault) {
    const { message, blamed } = error;
    return {
      message: `cannot be read: ${message}`,
      blamed: blamed === "object" ? "file" : blamed === "store" ? "place" : "change",
    };
  }
  const code = errorCodeOf(error);
  if (code === "not_found")
    return { message: "is not in the project: it was deleted, or never stored there", blamed: "file" };
  return {
    message: `cannot be read (${code ?? "unknown reason"})`,
    blamed: FINAL_CODES.has(code) ? "file" : "place",
  };
}

function checked(file: InsertFile, bytesMax: number): InsertFile {
  const { sizeBytes } = file;
  if (sizeBytes === 0) throw new InsertFault("is empty", "file");
  if (sizeBytes <= bytesMax) return file;
  const message = `has ${sizeBytes} bytes, at most ${bytesMax} are sent (mediaBytesMax of its provider); make it smaller, or give an https:// address`;
  throw new InsertFault(message, "file");
}

function localFiles(disk: Disk, path: string): MediaPlace {
  return {
    async look() {
      const found = await disk.stat(path);
      if (found === undefined) throw new InsertFault(`does not exist: ${path}`, "file");
      if (!found.isSeekable) throw new InsertFault(`is not a regular file: ${path}`, "file");
      const { sizeBytes, modifiedMs, identity } = found;
      return { sizeBytes, state: `${modifiedMs} ${identity}` };
    },
    async *read() {
      const file = await disk.open(path, "read");
      try {
        const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
        for (let position = 0; ; ) {
          const readBytes = await file.read(chunk, position);
          if (readBytes > 0) yield chunk.subarray(0, readBytes);
          if (readBytes < CHUNK_BYTES) return;
          position += readBytes;
        }
      } finally {
        await file.close();
      }
    },
  };
}

function objects(buckets: Buckets, address: string): MediaPlace {
  return {
    async look(_source, signal) {
      const { sizeBytes, version } = await buckets.look(address, signal);
      return { sizeBytes, state: version, isReadAsFound: true };
    },
    read: (_source, { state }, signal) => buckets.read(address, { version: state }, signal),
  };
}

function storedFiles(stored: StoredFiles, project: string, id: string): MediaPlace {
  return {
    look: async () => ({
      sizeBytes: (await stored.file(project, id)).bytes,
      state: id,
      isReadAsFound: true, // it does not change
    }),
    read: () => stored.read(project, id),
  };
}
