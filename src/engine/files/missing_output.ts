/**
 * What is lost with an output that does not exist, and where it may be: for the error that refuses the run.
 */
import { basename } from "node:path";
import type { Disk } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import type { StoredTask } from "../../store/store.ts";
import { CALL_AGAIN } from "../journal/output.ts";
import type { EngineStorage } from "../journal/storage.ts";
import { settledLines } from "./settled_lines.ts";
import type { TaskBody } from "./task_body.ts";

/** Names of the files that compression programs write, and the programs that unpack it. */
const PACKED = [
  [".gz", "gunzip"],
  [".zst", "unzstd --rm"],
  [".bz2", "bunzip2"],
  [".xz", "unxz"],
] as const;

/** The same error for an output that exists; otherwise one with how many lines are left and how many would be requested again. */
export async function withMissing(
  { disk, store }: Pick<EngineStorage, "disk" | "store">,
  task: StoredTask,
  body: TaskBody,
  error: PerigeeError,
): Promise<PerigeeError> {
  const { path } = error.details;
  if (typeof path !== "string" || (await disk.stat(path)) !== undefined) return error;
  let left = 0;
  let lost = 0;
  for await (const line of settledLines(store, task.id, body))
    if ("held" in line) left += 1;
    else lost += 1;
  const packed = await packedText(disk, path);
  return new PerigeeError(
    "output_changed",
    `${path} does not exist: it was moved or deleted, with ${lost === 1 ? "1 line" : `${lost} lines`} (${left} left); ${packed}put it back, or ${CALL_AGAIN} to request ${lost === 1 ? "it" : `all ${lost}`} again`,
    { details: error.details, cause: error },
  );
}

/** Empty if no compressed file with its name exists. */
async function packedText(disk: Disk, path: string): Promise<string> {
  for (const [ending, unpack] of PACKED) {
    const packed = `${path}${ending}`;
    if ((await disk.stat(packed)) !== undefined)
      return `${basename(packed)} exists in its folder: unpack it (${unpack} ${packed}); otherwise `;
  }
  return "";
}
