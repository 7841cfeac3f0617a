/**
 * Posted tasks that are final, with the sequences of the entries in which they became so, in this order, until their owner has noted
 * them: the entries stay as long, so a process sees which tasks the last one had not handled.
 */

/** One for a log. */
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
