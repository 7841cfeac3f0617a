/**
 * Whether the disks can hold a run at all, checked before anything of it is sent.
 *
 * What answers will be is not known. The least that a line takes is: about 160 bytes of output, and as many of the journal;
 * where not even that is free, the run would stop halfway.
 */
import { dirname } from "node:path";
import { PerigeeError } from "../../errors.ts";
import type { EngineStorage } from "../journal/storage.ts";
import type { TaskBody } from "./task_body.ts";

const OUTPUT_BYTES_MIN = 160;
const JOURNAL_BYTES_MIN = 160;

/** Throws `disk_full` for a new run that cannot fit. Inputs whose lines are not counted, and disks of unknown free space, pass. */
export async function assertFits(
  { disk, dataDir }: Pick<EngineStorage, "disk" | "dataDir">,
  { lines = 0, out }: TaskBody,
): Promise<void> {
  if (lines === 0) return;
  const places = [
    { path: dirname(out), bytes: lines * OUTPUT_BYTES_MIN, what: "answers", verb: "need" },
    { path: dataDir, bytes: lines * JOURNAL_BYTES_MIN, what: "journal", verb: "needs" },
  ];
  for (const { path, bytes, what, verb } of places) {
    const freeBytes = await disk.freeBytes?.(path);
    if (freeBytes === undefined || freeBytes >= bytes) continue;
    throw new PerigeeError(
      "disk_full",
      `${path} has ${sizeText(freeBytes)} free, and the ${what} of ${lines} lines ${verb} at least ${sizeText(bytes)}: free some, or choose another place; nothing was sent`,
    );
  }
}

/** In KiB below 1 MiB, so that a small disk is not said to have nothing. */
function sizeText(bytes: number): string {
  return bytes < 1_048_576 ? `${(bytes / 1_024).toFixed(1)} KiB` : `${(bytes / 1_048_576).toFixed(1)} MiB`;
}
