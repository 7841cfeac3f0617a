/**
 * Files of lines that no lot knows: of requests that a crash cut off before they were stored.
 *
 * Looked for once, after a start, beside its work: one look into the store for each file that was there.
 */
import { join } from "node:path";
import type { EngineParts } from "../engine/parts.ts";
import { EVERY_PROJECT } from "../store/records.ts";
import { LOTS, OPEN_LOTS } from "./lot_record.ts";

const SUFFIX = ".jsonl";

/** `names` are those in the folder when the process started. Ends early once `isClosed` says so. */
export async function sweepLots(
  { disk, store }: Pick<EngineParts, "disk" | "store">,
  folder: string,
  names: readonly string[],
  isClosed: () => boolean,
): Promise<void> {
  for (const name of names) {
    if (isClosed()) return;
    const id = name.endsWith(SUFFIX) ? name.slice(0, -SUFFIX.length) : name;
    // In this order: a lot that ends meanwhile goes from the first to the second.
    const isKnown =
      (await store.record(EVERY_PROJECT, OPEN_LOTS, id)) !== undefined ||
      (await store.record(EVERY_PROJECT, LOTS, id)) !== undefined;
    if (!isKnown) await disk.remove(join(folder, name));
  }
}
