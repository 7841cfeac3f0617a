/**
 * Which projects have usage in the months of some days, in the stored sums.
 *
 * Limits: one page of sums in memory.
 */

import { EVERY_PROJECT, type RecordStore } from "../../store/records.ts";
import { dayStartMs, monthsBetween } from "./days.ts";

const PAGE = 500;

/** With those that are known `besides`, in order, each once. Both days are included. Throws `usage` for a wrong day. */
export async function usedProjects(
  store: Pick<RecordStore, "records">,
  [fromDay, toDay]: readonly [string, string],
  besides: Iterable<string>,
): Promise<readonly string[]> {
  const projects = new Set(besides);
  for (const month of monthsBetween(dayStartMs(fromDay), dayStartMs(toDay))) {
    for (let after: string | undefined; ; ) {
      const query = { collection: "usage", parent: month, limit: PAGE };
      const page = await store.records(EVERY_PROJECT, after === undefined ? query : { ...query, after });
      for (const { project } of page) projects.add(project);
      after = page.at(-1)?.id;
      if (page.length < PAGE) break;
    }
  }
  return [...projects].sort();
}
