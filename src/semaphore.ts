/**
 * A semaphore: at most so many steps at once, the others in the order in which they arrived.
 */

export class Semaphore {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  /** `places` is at least 1. */
  constructor(places: number) {
    this.#free = places;
  }

  /** Settles as `step` does, which begins when it has a place. */
  async run<T>(step: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await step();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}
