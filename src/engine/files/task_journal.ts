/**
 * The entries of a task's journal that count: all of them, or from a restatement (`restate.ts`) on its own and later ones.
 */
import type { Store, StoredEntry } from "../../store/store.ts";
import { voidsOf } from "../journal/journal.ts";
import type { TaskBody } from "./task_body.ts";

/** `voids` of a step of a restatement, which counts by what its task says. */
export const STATES_ANEW = -3;

/** In order. Steps of abandoned restatements are left out as well. */
export async function* countingEntries(
  store: Pick<Store, "journal">,
  taskId: string,
  { restated }: Pick<TaskBody, "restated">,
): AsyncGenerator<StoredEntry> {
  const { from, to } = restated ?? { from: 1, to: 0 };
  for await (const entry of store.journal(taskId)) {
    const { sequence } = entry;
    const isRestating = voidsOf(entry) === STATES_ANEW;
    if (isRestating ? sequence >= from && sequence <= to : sequence > to) yield entry;
  }
}
