/**
 * Callbacks that are called together, in the order in which they were added. One that is added or removed meanwhile counts from the next
 * call on.
 */
export class Listeners<A extends readonly unknown[]> {
  readonly #listeners = new Set<(...args: A) => void>();

  /** Returns how to stop listening. */
  add(listener: (...args: A) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  tell(...args: A): void {
    for (const listener of [...this.#listeners]) listener(...args);
  }
}
