/**
 * Removes objects that no segment names: those of owners that died between storing and naming, and of removals that failed. An object is removed
 * only when it is so old that no process can still be about to name it, and when it has the name of an object of a partition's file. The inputs of
 * shards (`runs/...`) have other names.
 */
import type { FileRows } from "../file_rows.ts";
import type { Objects } from "./objects.ts";

/** Far longer than any difference of clocks, and than the time between storing an object and naming it. */
const ORPHAN_AGE_MS = 24 * 60 * 60 * 1_000;
const PAGE = 500;
/** As `partition_file.ts` names them, with the ending of a folder's temporary files. */
const NAME = /^p\d+\/\d+\/\d+-\d+\.e\d+(\.[\w-]+\.tmp)?$/;

export interface SweepOptions {
  /** The files of any partition: objects that segments of any partition name are kept. */
  readonly files: Pick<FileRows, "named">;
  readonly objects: Objects;
  /** Only objects of this partition. Default: of all. */
  readonly part?: number;
  /** Ends the sweep, which rejects with `signal.reason`. */
  readonly signal?: AbortSignal;
  /** Only older objects are removed. Pass at least an hour, which is not checked. Default: a day. */
  readonly ageMs?: number;
}

/** Resolves with how many objects were removed. May run in several processes at once. Rejects with the first error of the store or the objects. */
export async function sweepObjects(options: SweepOptions): Promise<number> {
  const { files, objects, part, signal, ageMs = ORPHAN_AGE_MS } = options;
  let removed = 0;
  let page: string[] = [];
  const removeUnnamed = async (): Promise<void> => {
    const named = new Set(await files.named(page));
    for (const name of page)
      if (!named.has(name)) {
        signal?.throwIfAborted();
        await objects.remove(name);
        removed += 1;
      }
    page = [];
  };
  for await (const object of objects.list(part === undefined ? "p" : `p${part}/`)) {
    signal?.throwIfAborted();
    if (object.ageMs < ageMs || !NAME.test(object.name)) continue;
    page.push(object.name);
    if (page.length === PAGE) await removeUnnamed();
  }
  if (page.length > 0) await removeUnnamed();
  return removed;
}
