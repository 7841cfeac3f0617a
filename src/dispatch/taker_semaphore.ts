/**
 * A fixed number of places and a first-come queue for them: how large bodies and decompressions are bounded.
 */

/** Bytes that many hold together, and how many they may; who finds it used up needs a place. */
export interface Allowance {
  used: number;
  readonly max: number;
}

/** Something that waits for a place; called once, synchronously, when it has one. */
export interface SemaphoreTaker {
  onPlace(): void;
}

/** Not a promise-based semaphore because a taker may leave the queue when its call ends. */
export class TakerSemaphore {
  /** Places that nobody holds. */
  #free: number;
  /** Who waits, in order of arrival; a `Set` so that leaving costs no scan. */
  readonly #waiting = new Set<SemaphoreTaker>();

  constructor(places: number) {
    this.#free = places;
  }

  /** True when the taker has a place at once; otherwise it is queued and `onPlace` is called later. */
  take(taker: SemaphoreTaker): boolean {
    if (this.#free > 0) {
      this.#free -= 1;
      return true;
    }
    this.#waiting.add(taker);
    return false;
  }

  /** Leaves the queue; false when the taker was not in it. */
  leave(taker: SemaphoreTaker): boolean {
    return this.#waiting.delete(taker);
  }

  /** Returns a place; the longest waiting taker gets it at once. */
  release(): void {
    for (const next of this.#waiting) {
      this.#waiting.delete(next);
      next.onPlace();
      return;
    }
    this.#free += 1;
  }
}
