/**
 * Reads a task for all callers that ask at the same time: any number of polls read it once and once more.
 *
 *   asked -> reading                   nobody reads it
 *   asked -> waiting -> reading        someone reads it already; all who wait share the next read
 *
 * A read that had begun when a caller arrived is not its answer: what it did before, such as a cancel, must show.
 */
import type { TaskView } from "../../tasks/shapes/task_view.ts";
import type { Tasks } from "../../tasks/shapes/tasks.ts";

interface Read {
  readonly current: Promise<TaskView>;
  next: Promise<TaskView> | undefined;
}

/** One for a service. */
export class SharedReads {
  readonly #tasks: Pick<Tasks, "task">;
  /** By project and id. */
  readonly #reads = new Map<string, Read>();

  constructor(tasks: Pick<Tasks, "task">) {
    this.#tasks = tasks;
  }

  /** As `Tasks.task`. */
  task(project: string, id: string): Promise<TaskView> {
    const name = `${project} ${id}`;
    const read = this.#reads.get(name);
    if (read === undefined) return this.#begin(name, project, id);
    read.next ??= read.current.then(nothing, nothing).then(() => this.#begin(name, project, id));
    return read.next;
  }

  #begin(name: string, project: string, id: string): Promise<TaskView> {
    const read: Read = { current: this.#tasks.task(project, id), next: undefined };
    this.#reads.set(name, read);
    const over = (): void => {
      if (read.next === undefined) this.#reads.delete(name);
    };
    read.current.then(over, over);
    return read.current;
  }
}

function nothing(): void {}
