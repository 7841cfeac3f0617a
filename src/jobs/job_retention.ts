/**
 * Removes jobs that ended long ago; pending ones stay.
 *
 * Limit: 100 rows of the work log at a time.
 */
import type { WorkKind } from "../log/work_kinds.ts";
import type { WorkLog } from "../log/work_log.ts";
import type { JobEnd } from "./job.ts";

const PAGE = 100;

/** Those of some kinds that ended before a time (Unix). `pause` is awaited after each page. */
export async function removeEndedJobs(
  log: Pick<WorkLog, "rows" | "remove">,
  kinds: readonly WorkKind[],
  oldestWallMs: number,
  pause: () => Promise<void>,
): Promise<void> {
  const wanted: readonly number[] = kinds;
  for (let after = 0; ; ) {
    const rows = await log.rows.loggedTasks({ after, limit: PAGE });
    const old = rows.filter(({ createdWallMs }) => createdWallMs <= oldestWallMs);
    const ended = old.filter(({ kind, body }) => wanted.includes(kind) && endedWallMs(body) <= oldestWallMs);
    if (ended.length > 0) await log.remove(ended.map(({ number }) => number));
    if (old.length === 0) return; // not at the first young one: the clock may have been ahead when it was accepted
    after = old.at(-1)?.number ?? after;
    await pause();
  }
}

/** Infinity for a pending one. */
function endedWallMs(body: string): number {
  const { end } = JSON.parse(body) as { readonly end?: Pick<JobEnd, "wallMs"> }; // written by `job_log.ts`
  return end?.wallMs ?? Number.POSITIVE_INFINITY;
}
