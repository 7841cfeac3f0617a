/**
 * A file that is whole or absent: written beside its place, synced, then renamed.
 *
 *   PATH.part removed -> written -> synced -> checked -> renamed to PATH
 *             -> an error: PATH.part is removed, and PATH is what it was
 */
import type { Disk, DiskFile, FileStat } from "../disk.ts";

/** Writes at the end of the file. */
type Append = (bytes: Uint8Array) => Promise<void>;

/**
 * Returns what `write` returns, when the file has its name. `onWritten` is awaited with the state of the new file before it gets its name.
 * A crash leaves what was at `path`.
 */
export async function writeWhole<T>(
  disk: Pick<Disk, "open" | "stat" | "rename" | "remove">,
  path: string,
  write: (append: Append) => Promise<T>,
  onWritten?: (state: FileStat | undefined) => Promise<void>,
): Promise<T> {
  const part = `${path}.part`;
  await disk.remove(part);
  const file = await disk.open(part, "write");
  let written: T;
  try {
    written = await write(appendTo(file));
    await file.sync();
  } catch (error) {
    await file.close();
    await disk.remove(part).catch(() => undefined); // the cause is reported
    throw error;
  }
  await file.close();
  await onWritten?.(await disk.stat(part));
  await disk.rename(part, path);
  return written;
}

function appendTo(file: Pick<DiskFile, "write">): Append {
  let position = 0;
  return async (bytes) => {
    if (bytes.byteLength === 0) return;
    await file.write(bytes, position);
    position += bytes.byteLength;
  };
}
