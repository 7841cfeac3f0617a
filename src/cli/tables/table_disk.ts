/**
 * The disk of a run over a table: what it writes waits for space, as answers do, and what the system refuses is an error with a way on.
 *
 *   ENOSPC, EDQUOT   tried again every second until there is space, or `--wait` is over: `disk_full`
 *   EIO and others   `output_unwritable`, naming the file and the system's code
 */
import { type Disk, type DiskFile, errorCodeOf, isNoSpace } from "../../disk.ts";
import type { DiskSpace } from "../../engine/journal/disk_space.ts";
import { PerigeeError } from "../../errors.ts";

/** How long a step waits for space, and what ends it. */
export interface TableStep {
  /** Of the engine. */
  readonly room: Pick<DiskSpace, "waitFor">;
  /** Aborted by a signal; each write then rejects with its reason. */
  readonly signal: AbortSignal;
  /** A file has no space; called once. */
  readonly onFull: (path: string) => void;
}

/** As much of a disk as a table is written with. */
export type TableDisk = Pick<Disk, "open" | "stat" | "rename" | "remove">;

export function tableDisk(disk: TableDisk, { room, signal, onFull }: TableStep): TableDisk {
  let isSaid = false;
  const write = async <T>(path: string, work: () => Promise<T>): Promise<T> => {
    signal.throwIfAborted();
    const attempt = (): Promise<T> =>
      work().catch((error: unknown) => {
        if (isNoSpace(errorCodeOf(error)) && !isSaid) {
          isSaid = true;
          onFull(path);
        }
        throw error;
      });
    return room.waitFor(attempt, { signal, path }).catch((error: unknown) => refused(path, error));
  };
  return {
    stat: (path) => disk.stat(path),
    remove: (path) => disk.remove(path),
    rename: (from, to) => disk.rename(from, to).catch((error: unknown) => refused(to, error)),
    async open(path, mode) {
      if (mode === "read") return disk.open(path, mode);
      const named = path.replace(/\.part$/, "");
      const file = await write(named, () => disk.open(path, mode));
      return {
        ...delegates(file),
        write: (bytes, position) => write(named, () => file.write(bytes, position)),
        sync: () => file.sync().catch((error: unknown) => refused(named, error)), // not again: its state is unknown
      };
    },
  };
}

function delegates(file: DiskFile): Pick<DiskFile, "read" | "truncate" | "sizeBytes" | "close"> {
  return {
    read: (into, position) => file.read(into, position),
    truncate: (sizeBytes) => file.truncate(sizeBytes),
    sizeBytes: () => file.sizeBytes(),
    close: () => file.close(),
  };
}

/** Throws what the system's error means; other errors as they are. */
function refused(path: string, error: unknown): never {
  const code = errorCodeOf(error);
  if (error instanceof PerigeeError || code === undefined || !/^E[A-Z0-9]+$/.test(code)) throw error;
  if (isNoSpace(code))
    throw new PerigeeError(
      "disk_full",
      `no space left on the disk of ${path}; free some and run the same command again`,
      {
        cause: error,
      },
    );
  throw new PerigeeError(
    "output_unwritable",
    `${path} could not be written (${code}); mend its disk or folder and run the same command again: what was answered is kept, and not asked again`,
    { cause: error },
  );
}
