/**
 * The files that items name in place of their content, as requests read them when they are sent.
 *
 *   `path`      a file of this machine, from the folder of the input; of items without a file, from the working folder. Only in the
 *               library and the command: never for work that others send
 *   `file_id`   a file that the item's own project has stored; only in the service
 */
import { dirname, resolve, sep } from "node:path";
import type { Disk } from "../../disk.ts";
import {
  InsertFault,
  type InsertFile,
  type InsertFiles,
  nameOf,
} from "../../dispatch/inserts/inserted_body.ts";
import { INSERT_BYTES_MAX, type InsertSource } from "../../providers/inserts.ts";
import type { EngineStorage, StoredFiles } from "./storage.ts";

/** Whose items name the files. */
interface MediaOwner {
  readonly project: string;
  readonly mediaFolder: string | undefined;
}

/** A multiple of 3, so that chunks become whole groups of base64, and small, so that what is made of them is garbage of the young. */
const CHUNK_BYTES = 48 * 1024;

/** Where files are that the lines of an input name by a path; undefined where none may be read. `input`: absolute; undefined without a file. */
export function mediaFolder(
  { media, dataDir }: Pick<EngineStorage, "media" | "dataDir">,
  input: string | undefined,
): string | undefined {
  if (media.readsLocalFiles !== true) return undefined;
  const isOwn = input === undefined || input.startsWith(resolve(dataDir) + sep); // written by this process
  return isOwn ? process.cwd() : dirname(input);
}

/** Those that the items of an owner may read. */
export function mediaFiles(
  { disk, media }: Pick<EngineStorage, "disk" | "media">,
  { project, mediaFolder: folder }: MediaOwner,
): InsertFiles {
  const ofSource = (source: InsertSource): InsertFiles => {
    if ("path" in source && folder !== undefined) return localFiles(disk, resolve(folder, source.path));
    const { stored } = media;
    if ("fileId" in source && stored !== undefined) return storedFiles(stored, project, source.fileId);
    throw new InsertFault(`${nameOf(source)} cannot be read: ${refusalOf(source)}`, true);
  };
  return {
    look: async (source) => checked(await ofSource(source).look(source), source),
    read: (source) => ofSource(source).read(source),
  };
}

function refusalOf(source: InsertSource): string {
  if ("path" in source) return "only the library and the command read local files";
  return "only the service has stored files";
}

function checked(file: InsertFile, source: InsertSource): InsertFile {
  const { sizeBytes } = file;
  if (sizeBytes === 0) throw new InsertFault(`${nameOf(source)} is empty`, true);
  if (sizeBytes <= INSERT_BYTES_MAX) return file;
  const message = `${nameOf(source)} has ${sizeBytes} bytes, at most ${INSERT_BYTES_MAX} are sent; make it smaller, or give an https:// address`;
  throw new InsertFault(message, true);
}

function localFiles(disk: Disk, path: string): InsertFiles {
  return {
    async look(source) {
      const found = await disk.stat(path);
      if (found === undefined)
        throw new InsertFault(`${nameOf(source)} does not exist: there is no file ${path}`, true);
      if (!found.isSeekable) throw new InsertFault(`${nameOf(source)} is not a regular file: ${path}`, true);
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

function storedFiles(stored: StoredFiles, project: string, id: string): InsertFiles {
  return {
    look: async () => ({ sizeBytes: (await stored.file(project, id)).bytes, state: id }), // it does not change
    read: () => stored.read(project, id),
  };
}
