/**
 * What `submit` returns: a promise of the task, with its end and its objects as they become final.
 *
 *   await engine.submit(items)                 the task: stored, items without sla are final
 *   await engine.submit(items).finished        the task when every object is final
 *   for await (const object of ...)            each object once, when it is final; leaving the loop stops nothing
 *
 * The end and the objects are read only if somebody asks for them. While a call is not answered, or somebody waits for the end or the
 * next object, the process does not end: what is held, or goes with a batch later, has neither a socket nor a timer that would prevent
 * it, and Node would end with code 13 where a program awaits it.
 */
import { systemClock } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import type { Task, TaskObject } from "../../work/task.ts";

/** A list that was submitted. */
export interface SubmittedTask extends Promise<Task>, AsyncIterable<TaskObject> {
  /**
   * Resolves when every object is final. Rejects as `submit` does, and with `closed` if the engine is closed before; the task
   * then continues with the next engine on the same data folder, where `engine.task(id)` finds it.
   */
  readonly finished: Promise<Task>;
}

/** A list that is stored. */
export interface SubmittedList {
  /** The task when every object is final. Rejects with `closed` when the engine is closed before. */
  finished(): Promise<Task>;
  /** Each object once, when it is final; rejects as `finished`. */
  objects(): AsyncGenerator<TaskObject>;
}

/** `stored` and `ended` are of one call. */
export function submittedTask(stored: Promise<SubmittedList>, ended: Promise<Task>): SubmittedTask {
  const answered = keptAlive(ended);
  let finished: Promise<Task> | undefined;
  stored.catch(() => undefined); // `answered` reports it
  /** Who reads the end or the objects gets the same error there: it must not end the process as unhandled. */
  const reportedElsewhere = (): void => {
    answered.catch(() => undefined);
  };
  Object.defineProperties(answered, {
    finished: {
      get: () => {
        finished ??= keptAlive(stored.then((list) => list.finished()));
        finished.catch(() => undefined); // `answered` reports it, too
        reportedElsewhere();
        return finished;
      },
    },
    [Symbol.asyncIterator]: {
      value: () => {
        reportedElsewhere();
        return objectsOf(stored);
      },
    },
  });
  return answered as SubmittedTask; // the two members were added above
}

/** The task that has these objects, in their order. */
export function taskOfObjects(id: string, objects: readonly TaskObject[]): Task {
  const counts = { submitted: 0, completed: 0, failed: 0, expired: 0, cancelled: 0 };
  for (const { status } of objects) counts[status] += 1;
  const status = counts.submitted > 0 ? "submitted" : "completed";
  return { status, task_id: id, total_items: objects.length, counts, objects };
}

/** Why a task is not finished in this process. */
export function closedBefore(id: string): PerigeeError {
  return new PerigeeError(
    "closed",
    `the engine was closed before task ${id} was finished; engine.task(id) of the next engine on this data folder finds it`,
  );
}

async function* objectsOf(stored: Promise<SubmittedList>): AsyncGenerator<TaskObject> {
  const objects = (await stored).objects();
  try {
    for (;;) {
      const next = await keptAlive(objects.next());
      if (next.done) return;
      yield next.value;
    }
  } finally {
    await objects.return(undefined);
  }
}

/** The process does not end before it settles. */
async function keptAlive<Value>(awaited: Promise<Value>): Promise<Value> {
  const timer = systemClock.timer(Number.POSITIVE_INFINITY, () => undefined);
  try {
    return await awaited;
  } finally {
    timer.cancel();
  }
}
