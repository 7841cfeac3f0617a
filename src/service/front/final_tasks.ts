/**
 * Calls that wait for the end of tasks with a deadline, or of tasks that an earlier call made.
 *
 *   waiting -> final | the time of the call is over | its client has left | nobody waits any more, because this process ends its work
 */
import type { Clock } from "../../clock.ts";
import type { TaskView } from "../../tasks/shapes/task_view.ts";
import type { Tasks } from "../../tasks/shapes/tasks.ts";

/** One for a service; `open` before the first wait. */
export class FinalTasks {
  readonly #clock: Pick<Clock, "timer">;
  readonly #tasks: Pick<Tasks, "task" | "onFinished">;
  readonly #waiting = new Map<string, Set<() => void>>();
  #stopListening: (() => void) | undefined;
  #isClosed = false;

  constructor(clock: Pick<Clock, "timer">, tasks: Pick<Tasks, "task" | "onFinished">) {
    this.#clock = clock;
    this.#tasks = tasks;
  }

  open(): void {
    this.#stopListening = this.#tasks.onFinished(({ taskId }) => {
      for (const wake of this.#waiting.get(taskId) ?? []) wake();
    });
  }

  /** Nobody waits from now on. May be called twice. */
  close(): void {
    this.#isClosed = true;
    this.#stopListening?.();
    for (const callers of this.#waiting.values()) for (const wake of callers) wake();
  }

  /** The task when it is final, or as it is once the time is over. Rejects with the reason of `signal`, and with `not_found`. */
  async until(project: string, id: string, waitMs: number, signal: AbortSignal): Promise<TaskView> {
    const waits = this.#wait(id, waitMs, signal); // first: it may end while it is read
    try {
      const task = await this.#tasks.task(project, id);
      if (task.status !== "submitted") return task;
      await waits.ended;
      signal.throwIfAborted();
      return await this.#tasks.task(project, id);
    } finally {
      waits.end();
    }
  }

  #wait(
    id: string,
    waitMs: number,
    signal: AbortSignal,
  ): { readonly ended: Promise<void>; readonly end: () => void } {
    let wake = (): void => undefined;
    const ended = new Promise<void>((resolve) => {
      wake = resolve;
    });
    const callers = this.#waiting.get(id) ?? new Set();
    this.#waiting.set(id, callers.add(wake));
    const timer = this.#clock.timer(waitMs, wake, { keepsAlive: false });
    signal.addEventListener("abort", wake, { once: true });
    if (signal.aborted || this.#isClosed) wake();
    return {
      ended,
      end: () => {
        timer.cancel();
        signal.removeEventListener("abort", wake);
        callers.delete(wake);
        if (callers.size === 0) this.#waiting.delete(id);
      },
    };
  }
}
