/**
 * Objects that no segment names: of owners who died between storing and naming, of removals that failed. Removed only when they are old enough
 * that nobody can be about to name them, and their name is one that files of partitions have.
 */
import type { FileRows } from "../file_rows.ts";
import type { Objects } from "./objects.ts";

/** Far above any difference of clocks, and above what lies between storing an object and naming it. */
const ORPHAN_AGE_MS = 24 * 60 * 60 * 1_000;
const PAGE = 500;
/** As `partition_file.ts` names them, with what a folder adds to those that were never whole. */
const NAME = /^p\d+\/\d+\/\d+-\d+\.e\d+(\.[\w-]+\.tmp)?$/;

export interface SweepOptions {
  /** Those of any partition: what segments of all partitions name is kept. */
  readonly files: Pick<FileRows, "named">;
  readonly objects: Objects;
  /** At least an hour. Default: a day. */
  readonly ageMs?: number;
}

/** Resolves with how many were removed. May run in several processes at once. Rejects with the first error of the store or the objects. */
export async function sweepObjects({ files, objects, ageMs = ORPHAN_AGE_MS }: SweepOptions): Promise<number> {
  let removed = 0;
  let page: string[] = [];
  const removeUnnamed = async (): Promise<void> => {
    const named = new Set(await files.named(page));
    for (const name of page)
      if (!named.has(name)) {
        await objects.remove(name);
        removed += 1;
      }
    page = [];
  };
  for await (const object of objects.list("p")) {
    if (object.ageMs < ageMs || !NAME.test(object.name)) continue;
    page.push(object.name);
    if (page.length === PAGE) await removeUnnamed();
  }
  if (page.length > 0) await removeUnnamed();
  return removed;
}
