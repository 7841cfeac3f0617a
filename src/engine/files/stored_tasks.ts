/**
 * All tasks of a store, in order of creation, read in pages.
 */
import type { Store, StoredTask } from "../../store/store.ts";

const TASKS_PAGE = 100;

export async function* storedTasks(store: Store): AsyncGenerator<StoredTask> {
  let after: string | undefined;
  for (;;) {
    const page = await store.tasks({ limit: TASKS_PAGE, ...(after === undefined ? {} : { after }) });
    yield* page;
    after = page.at(-1)?.id;
    if (page.length < TASKS_PAGE) return;
  }
}
