/**
 * Whether the file where the answers are to be is the one that the run wrote: whole, and with the recorded checksum.
 *
 *   at the end of a run, and when a finished one is called again    the file at its path is read once
 *   changed -> `output_changed`, and the task is marked so -> the same call again writes it again (repair.ts)
 */
import { type Disk, errorCodeOf } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import type { StoredTask } from "../../store/store.ts";
import { changeOf } from "../journal/changed_file.ts";
import { checksumOf, lengthOf } from "../journal/checksum.ts";
import { outputChanged } from "../journal/output.ts";
import type { EngineStorage } from "../journal/storage.ts";
import { withMissing } from "./missing_output.ts";
import { encodeBody, type TaskBody } from "./task_body.ts";

/** Throws `output_changed` unless the file at the path has exactly the bytes of the checksum. */
export async function checkOutput(disk: Disk, path: string, checksum: string): Promise<void> {
  const end = lengthOf(checksum);
  const sizeBytes = (await disk.stat(path))?.sizeBytes;
  const read = sizeBytes === undefined ? undefined : await readFound(disk, path, checksum);
  if (sizeBytes !== end || read?.checksum !== checksum)
    throw outputChanged(
      path,
      sizeBytes === end ? read?.checksum : checksumLike(sizeBytes),
      end,
      read?.change,
    );
}

/**
 * What to throw after an error. `output_changed` allows the same call again to rewrite the output, because its caller has
 * seen what was found; of a missing file the returned error says what is lost. Other errors are returned as they are.
 */
export async function noteChanged(
  storage: Pick<EngineStorage, "disk" | "room" | "store">,
  task: StoredTask,
  body: TaskBody,
  error: unknown,
): Promise<unknown> {
  if (!(error instanceof PerigeeError) || error.code !== "output_changed") return error;
  const { room, store } = storage;
  const marked = encodeBody({ ...body, isOutputChanged: true });
  await room.waitFor(() => store.putTask({ ...task, body: marked }));
  return withMissing(storage, task, body, error);
}

/** A checksum of another length than any that is expected. */
function checksumLike(sizeBytes: number | undefined): string | undefined {
  return sizeBytes === undefined ? undefined : `0:${sizeBytes}`;
}

interface FoundFile {
  /** Up to where it was to end. */
  readonly checksum: string;
  /** Undefined for a file with the expected checksum. */
  readonly change: string | undefined;
}

async function readFound(disk: Disk, path: string, expected: string): Promise<FoundFile | undefined> {
  try {
    const file = await disk.open(path, "read");
    try {
      const checksum = String(await checksumOf(file, lengthOf(expected)));
      return { checksum, change: checksum === expected ? undefined : await changeOf(file) };
    } finally {
      await file.close();
    }
  } catch (error) {
    if (errorCodeOf(error) === "ENOENT") return undefined;
    throw error;
  }
}
