/**
 * Files of uploads and of lines without a record, as a crash before the commit leaves them.
 *
 * Such a file may still be needed, because the database may be the wrong one. So it is kept for days, then removed with a notice. The
 * same applies to the copy of a database from before a migration.
 */
import { join } from "node:path";
import type { Disk } from "../disk.ts";
import { EVERY_PROJECT, type RecordStore } from "../store/records.ts";
import { SCHEMA_COPY } from "../store/schema_copy.ts";
import { FILES } from "./files/file_record.ts";
import { LOTS, OPEN_LOTS } from "./lots/lot_record.ts";

/** How long a file without a record is kept. */
export const LEFTOVER_KEEP_MS: number = 7 * 86_400_000;

export interface LeftoversOptions {
  readonly disk: Disk;
  readonly store: Pick<RecordStore, "record">;
  readonly dataDir: string;
  readonly notice: (message: string) => void;
}

/** Removes leftovers that were written before a time (Unix), each with a notice. */
export async function sweepLeftovers(options: LeftoversOptions, oldestWallMs: number): Promise<void> {
  const { disk, store, dataDir, notice } = options;
  await sweepCopies(options, oldestWallMs);
  const kinds = [
    { folder: "files", collections: [FILES], idOf: (name: string) => name },
    // In this order, because a lot that ends meanwhile moves from the first to the second.
    {
      folder: "lots",
      collections: [OPEN_LOTS, LOTS],
      idOf: (name: string) => name.replace(/(\.lost)?\.jsonl$/, ""),
    },
  ];
  for (const { folder, collections, idOf } of kinds) {
    for (const name of await disk.list(join(dataDir, folder))) {
      const path = join(dataDir, folder, name);
      const found = await disk.stat(path);
      if (found === undefined || found.modifiedMs > oldestWallMs) continue;
      let isKnown = false;
      for (const collection of collections)
        isKnown ||= (await store.record(EVERY_PROJECT, collection, idOf(name))) !== undefined;
      if (isKnown) continue;
      await disk.remove(path);
      notice(`${folder}/${name} was removed: no record knows it, and it was written more than 7 days ago`);
    }
  }
}

/** They still contain texts that were deleted since. */
async function sweepCopies({ disk, dataDir, notice }: LeftoversOptions, oldestWallMs: number): Promise<void> {
  for (const name of await disk.list(dataDir)) {
    if (!SCHEMA_COPY.test(name)) continue;
    const path = join(dataDir, name);
    if (((await disk.stat(path))?.modifiedMs ?? Number.POSITIVE_INFINITY) > oldestWallMs) continue;
    await disk.remove(path);
    notice(`${name}, the copy of before a migration, was removed after 7 days`);
  }
}
