/**
 * The items of a posted list as they end, for those who follow it in the process that accepted it.
 *
 *   open -> over (every item has ended)
 *        -> left (the engine is closed, or cannot go on)
 */

/** One for a list. Items are numbered from 0. */
export class ListEnds {
  /** Of its task. */
  readonly id: string;
  readonly #total: number;
  readonly #items: number[] = [];
  readonly #known = new Set<number>();
  #waiting: (() => void)[] = [];
  #isOver = false;
  #error: Error | undefined;

  constructor(id: string, total: number) {
    this.id = id;
    this.#total = total;
  }

  /** An item has ended; twice counts once. */
  add(item: number): void {
    if (this.#known.has(item)) return;
    this.#known.add(item);
    this.#items.push(item);
    this.#wake();
  }

  /** Every item has ended: those that were not added ended with the rest. */
  end(): void {
    for (let item = 0; item < this.#total; item += 1) this.add(item);
    this.#isOver = true;
    this.#wake();
  }

  /** Nothing of it ends in this process any more. */
  leave(error: Error): void {
    this.#error ??= error;
    this.#wake();
  }

  /** Each item once, in the order of their ends; throws when the list is left. */
  async *each(): AsyncGenerator<number> {
    for (let at = 0; ; ) {
      for (; at < this.#items.length; at += 1) yield this.#items[at] as number;
      if (this.#isOver) return;
      await this.#change();
    }
  }

  /** Resolves when every item has ended; rejects when the list is left. */
  async over(): Promise<void> {
    while (!this.#isOver) await this.#change();
  }

  #change(): Promise<void> {
    if (this.#error !== undefined) return Promise.reject(this.#error);
    return new Promise((resolve, reject) => {
      this.#waiting.push(() => (this.#error === undefined ? resolve() : reject(this.#error)));
    });
  }

  #wake(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }
}
