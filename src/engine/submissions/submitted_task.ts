/**
 * What `submit` returns: a promise of the task, with its end and its objects as they become final.
 *
 *   await engine.submit(items)                 the task: stored, items without sla are final
 *   await engine.submit(items).finished        the task when every object is final
 *   for await (const object of ...)            each object once, when it is final; leaving the loop stops nothing
 *
 * The end and the objects are read only if somebody asks for them.
 */
import { PerigeeError } from "../../errors.ts";
import { objectId } from "../../work/object_id.ts";
import type { Task, TaskObject } from "../../work/task.ts";
import type { PartAnswers, SubmittedPart } from "./submitted_part.ts";

/** A list that was submitted. */
export interface SubmittedTask extends Promise<Task>, AsyncIterable<TaskObject> {
  /**
   * Resolves when every object is final. Rejects as `submit` does, and with `closed` if the engine is closed before; the task
   * then continues with the next engine on the same data folder, where `engine.task(id)` finds it.
   */
  readonly finished: Promise<Task>;
}

/** The runs of a list, and where each item is in them. */
export interface Submission {
  readonly parts: readonly SubmittedPart[];
  /** The state of each item, by its number. */
  readonly places: ListPlaces;
}

/** Columns over all items of a list: the part, and the line in that part's file. */
export interface ListPlaces {
  readonly total: number;
  readonly partOf: Uint8Array;
  readonly lineOf: Uint32Array;
}

/** A list that is stored. */
export interface StoredList {
  readonly id: string;
  readonly begun: Promise<Submission>;
}

/** `stored` and `answered` are of one call. */
export function submittedTask(stored: Promise<StoredList>, answered: Promise<Task>): SubmittedTask {
  let finished: Promise<Task> | undefined;
  /** Who reads the end or the objects gets the same error there: it must not end the process as unhandled. */
  const reportedElsewhere = (): void => {
    answered.catch(() => undefined);
  };
  Object.defineProperties(answered, {
    finished: {
      get: () => {
        finished ??= endOf(stored);
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

/** The task as it is now. */
export async function taskOf(id: string, { parts, places }: Submission): Promise<Task> {
  const { total, partOf, lineOf } = places;
  const counts = { submitted: 0, completed: 0, failed: 0, expired: 0, cancelled: 0 };
  const objects: TaskObject[] = [];
  const answers: readonly PartAnswers[] = parts.map((part) => part.answers());
  try {
    for (let index = 0; index < total; index += 1) {
      const part = partOf[index] as number;
      const object = await (parts[part] as SubmittedPart).object(
        objectId(id, index + 1),
        lineOf[index] as number,
        answers[part] as PartAnswers,
      );
      counts[object.status] += 1;
      objects.push(object);
    }
  } finally {
    for (const each of answers) await each.close();
  }
  const status = counts.submitted > 0 ? "submitted" : "completed";
  return { status, task_id: id, total_items: total, counts, objects };
}

async function endOf(stored: Promise<StoredList>): Promise<Task> {
  const { id, begun } = await stored;
  const submission = await begun;
  await assertEnded(id, submission);
  return taskOf(id, submission);
}

async function assertEnded(id: string, { parts }: Submission): Promise<void> {
  const ends = await Promise.all(parts.map((part) => part.finished));
  if (ends.every(({ status }) => status === "completed")) return;
  throw new PerigeeError(
    "closed",
    `the engine was closed before task ${id} was finished; engine.task(id) of the next engine on this data folder finds it`,
  );
}

async function* objectsOf(stored: Promise<StoredList>): AsyncGenerator<TaskObject> {
  const { id, begun } = await stored;
  const submission = await begun;
  const { parts, places } = submission;
  const answers: readonly PartAnswers[] = parts.map((part) => part.answers());
  try {
    for await (const index of merged(parts.map((part) => part.ended()))) {
      const part = places.partOf[index] as number;
      const line = places.lineOf[index] as number;
      yield await (parts[part] as SubmittedPart).object(
        objectId(id, index + 1),
        line,
        answers[part] as PartAnswers,
      );
    }
  } finally {
    for (const each of answers) await each.close();
  }
  await assertEnded(id, submission);
}

/** The values of several generators as they arrive. */
async function* merged<T>(sources: readonly AsyncGenerator<T>[]): AsyncGenerator<T> {
  const step = async (source: AsyncGenerator<T>) => ({ source, result: await source.next() });
  const waiting = new Map(sources.map((source) => [source, step(source)]));
  try {
    while (waiting.size > 0) {
      const { source, result } = await Promise.race(waiting.values());
      if (result.done === true) {
        waiting.delete(source);
        continue;
      }
      waiting.set(source, step(source));
      yield result.value;
    }
  } finally {
    for (const [source, next] of waiting) {
      next.catch(() => undefined); // nobody reads on
      source.return(undefined).catch(() => undefined);
    }
  }
}
