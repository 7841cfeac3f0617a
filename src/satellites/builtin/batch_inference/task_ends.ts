/**
 * Who waits for the end of which task: one listener for all of them, since a listener is called for every task that ends.
 */
import type { Tasks } from "../../../tasks/shapes/tasks.ts";

type Listened = Pick<Tasks, "onFinished">;

const ENDS = new WeakMap<Listened, TaskEnds>();

/** Those of the tasks of a process. */
export function endsOf(tasks: Listened): TaskEnds {
  const known = ENDS.get(tasks) ?? new TaskEnds(tasks);
  ENDS.set(tasks, known);
  return known;
}

class TaskEnds {
  readonly #told = new Map<string, () => void>();

  constructor(tasks: Listened) {
    tasks.onFinished(({ taskId }) => this.#told.get(taskId)?.());
  }

  /** Calls `told` when the task is final, until the returned function is called. */
  listen(taskId: string, told: () => void): () => void {
    this.#told.set(taskId, told);
    return () => {
      if (this.#told.get(taskId) === told) this.#told.delete(taskId);
    };
  }
}
