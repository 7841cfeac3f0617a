/**
 * All tasks of a store, in order of creation, read in pages; and the run of an output among them, under any name.
 */
import type { Store, StoredTask } from "../../store/store.ts";
import type { TaskBody } from "./task_body.ts";

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

/** Whether a task writes this output (an absolute path); a run with an `id`, too, has its output in its body only. */
export function isRunOf({ body }: Pick<StoredTask, "body">, path: string): boolean {
  return (JSON.parse(body) as Partial<TaskBody>).out === path; // of any kind and version
}

/** The run that writes an output (an absolute path); undefined without one. */
export async function runOfOutput(store: Store, path: string): Promise<StoredTask | undefined> {
  const named = await store.taskByName(`out:${path}`);
  if (named !== undefined) return named;
  for await (const task of storedTasks(store)) if (isRunOf(task, path)) return task;
  return undefined;
}
