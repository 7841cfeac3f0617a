/**
 * The copy of an array: its elements as lines, one each, line n being element n.
 */
import type { DiskFile, FileStat } from "../../disk.ts";
import { arrayAsLines } from "../../jsonl/array_as_lines.ts";
import type { SpoolHome } from "./spool.ts";

/** Whether a file is read as one array, by its name. */
export function isArrayPath(path: string): boolean {
  return path.endsWith(".json");
}

/** Where the lines of a `.json` file are kept, beside where a stream would be: each state of the file for itself. */
export function arrayCopyPath(spoolPath: string, state: Omit<FileStat, "isSeekable">): string {
  const { sizeBytes, modifiedMs, identity } = state;
  return `${spoolPath}.${sizeBytes}-${Math.trunc(modifiedMs)}-${identity.replaceAll(":", "-")}`;
}

/**
 * Opens the copy at `path`, which is made first if it does not exist: beside its place, then renamed, so that it is
 * whole or absent. Throws `invalid_array`.
 */
export async function openArrayCopy(
  home: SpoolHome,
  array: AsyncIterable<Uint8Array>,
  path: string,
): Promise<DiskFile> {
  const { disk } = home;
  if ((await disk.stat(path)) === undefined) {
    const part = `${path}.part`;
    try {
      await writeCopy(home, array, part);
      await disk.rename(part, path);
    } catch (error) {
      await disk.remove(part).catch(() => undefined); // the cause is reported
      throw error;
    }
  }
  return disk.open(path, "read");
}

async function writeCopy(
  { disk, room, signal }: SpoolHome,
  array: AsyncIterable<Uint8Array>,
  path: string,
): Promise<void> {
  const file = await room.waitFor(() => disk.open(path, "write"), { signal });
  try {
    await file.truncate(0);
    let position = 0;
    for await (const bytes of arrayAsLines(array)) {
      await room.waitFor(() => file.write(bytes, position), { signal });
      position += bytes.byteLength;
    }
    await file.sync();
  } finally {
    await file.close();
  }
}
