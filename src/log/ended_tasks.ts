/**
 * Posted tasks and lists that are final, with the sequences of the entries in which they became so, in this order, until their owner has noted
 * them: the entries stay as long, so a process sees which tasks the last one had not handled.
 */
import { WORK_KINDS } from "./work_kinds.ts";

/** Those of each kind whose owner notes them; one for a log. */
export class EndedWork {
  readonly posted: EndedTasks = new EndedTasks();
  readonly lists: EndedTasks = new EndedTasks();

  add(task: number, kind: number, sequence: number): void {
    if (kind === WORK_KINDS.posted) this.posted.add(task, sequence);
    if (kind === WORK_KINDS.list) this.lists.add(task, sequence);
  }

  /** It is open again. */
  delete(task: number): void {
    this.posted.delete(task);
    this.lists.delete(task);
  }

  /** The oldest entry that is needed; Infinity without any. */
  get firstSequence(): number {
    return Math.min(this.posted.firstSequence, this.lists.firstSequence);
  }
}

/** Those of a kind. */
export class EndedTasks implements Iterable<readonly [task: number, sequence: number]> {
  readonly #sequences = new Map<number, number>();

  /** The sequence of a task; undefined if it is not final, or was forgotten. */
  get(task: number): number | undefined {
    return this.#sequences.get(task);
  }

  add(task: number, sequence: number): void {
    this.#sequences.set(task, sequence);
  }

  /** It is open again. */
  delete(task: number): void {
    this.#sequences.delete(task);
  }

  /** Those up to this entry are needed no more. */
  forget(upTo: number): void {
    for (const [task, sequence] of this.#sequences) {
      if (sequence > upTo) break;
      this.#sequences.delete(task);
    }
  }

  /** The oldest entry that is needed; Infinity without any. */
  get firstSequence(): number {
    for (const sequence of this.#sequences.values()) return sequence;
    return Number.POSITIVE_INFINITY;
  }

  [Symbol.iterator](): IterableIterator<[task: number, sequence: number]> {
    return this.#sequences.entries();
  }
}
