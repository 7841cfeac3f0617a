/**
 * A submitted list as runs: one for each different sla in it, over files of lines.
 */
import { objectId } from "../../work/object_id.ts";
import type { Task, TaskObject } from "../../work/task.ts";
import type { PartAnswers, SubmittedPart } from "./submitted_part.ts";
import { closedBefore, type SubmittedList, taskOfObjects } from "./submitted_task.ts";

/** The runs of a list, and where each item is in them. */
export interface Submission {
  readonly parts: readonly SubmittedPart[];
  /** The state of each item, by its number. */
  readonly places: ListPlaces;
  /** Resolves when its runs are over, and that is stored; never rejects. */
  readonly over: Promise<void>;
}

/** Columns over all items of a list: the part, and the line in that part's file. */
export interface ListPlaces {
  readonly total: number;
  readonly partOf: Uint8Array;
  readonly lineOf: Uint32Array;
}

/** One list. */
export class RunList implements SubmittedList {
  readonly #id: string;
  readonly #begun: Promise<Submission>;

  constructor(id: string, begun: Promise<Submission>) {
    this.#id = id;
    this.#begun = begun;
  }

  async finished(): Promise<Task> {
    const submission = await this.#begun;
    await this.#ended(submission);
    return taskOf(this.#id, submission);
  }

  async *objects(): AsyncGenerator<TaskObject> {
    const submission = await this.#begun;
    const { parts, places } = submission;
    const answers: readonly PartAnswers[] = parts.map((part) => part.answers());
    try {
      for await (const index of merged(parts.map((part) => part.ended()))) {
        const part = places.partOf[index] as number;
        const line = places.lineOf[index] as number;
        yield await (parts[part] as SubmittedPart).object(
          objectId(this.#id, index + 1),
          line,
          answers[part] as PartAnswers,
        );
      }
    } finally {
      for (const each of answers) await each.close();
    }
    await this.#ended(submission);
  }

  async #ended({ parts }: Submission): Promise<void> {
    const ends = await Promise.all(parts.map((part) => part.finished));
    if (!ends.every(({ status }) => status === "completed")) throw closedBefore(this.#id);
  }
}

/** The task as it is now. */
export async function taskOf(id: string, { parts, places }: Submission): Promise<Task> {
  const { total, partOf, lineOf } = places;
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
      objects.push(object);
    }
  } finally {
    for (const each of answers) await each.close();
  }
  return taskOfObjects(id, objects);
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
