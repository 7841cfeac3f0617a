/**
 * Turns: steps under one name go one after the other, those under different names side by side.
 */
/** Names are kept while something waits under them, and no longer. */
export class Turns {
  /** By name: resolves when the last step that was asked for has ended in any way. */
  readonly #last = new Map<string, Promise<void>>();

  /** Settles as `step` does, which begins when those before it have ended. */
  take<T>(name: string, step: () => Promise<T>): Promise<T> {
    const done = (this.#last.get(name) ?? Promise.resolve()).then(step);
    const end = (): void => {
      if (this.#last.get(name) === last) this.#last.delete(name);
    };
    const last: Promise<void> = done.then(end, end);
    this.#last.set(name, last);
    return done;
  }
}
