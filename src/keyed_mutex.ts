/**
 * Turns: steps with the same name run one after the other, those with different names in parallel.
 */

/** A name is kept only while a step runs or waits under it. */
export class KeyedMutex {
  /** By name: resolves when the last requested step has ended in any way. */
  readonly #last = new Map<string, Promise<void>>();

  /** Settles like `step`, which begins when the steps before it have ended. */
  take<T>(name: string, step: () => Promise<T>): Promise<T> {
    const done = (this.#last.get(name) ?? Promise.resolve()).then(step);
    const end = (): void => {
      if (this.#last.get(name) === last) this.#last.delete(name);
    };
    const last: Promise<void> = done.then(end, end);
    this.#last.set(name, last);
    return done;
  }

  /** Whether no step runs or waits. */
  get isIdle(): boolean {
    return this.#last.size === 0;
  }

  /** Resolves when the steps that were requested before this call have ended in any way. */
  async ended(): Promise<void> {
    await Promise.all(this.#last.values());
  }
}
