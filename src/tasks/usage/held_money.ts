/**
 * Money of projects that is held for accepted work, in memory.
 *
 *   held -> less with each item that ends, more with each that is run again -> released
 */

/** Money held for accepted work. */
export interface SpendingHold {
  /** The rest of it, in USD. */
  readonly usd: number;
  /** Sets the amount held, in USD. */
  set(usd: number): void;
  /** Releases the rest; a second call changes nothing. */
  release(): void;
}

/** One for a store. */
export class HeldMoney {
  readonly #usd = new Map<string, number>();

  of(project: string): number {
    return this.#usd.get(project) ?? 0;
  }

  hold(project: string, usd: number): SpendingHold {
    const hold = new ProjectHold((change) => {
      const heldUsd = this.of(project) + change;
      // The rounding error of many additions and subtractions counts as 0.
      if (heldUsd > 1e-9) this.#usd.set(project, heldUsd);
      else this.#usd.delete(project);
    });
    hold.set(usd);
    return hold;
  }
}

class ProjectHold implements SpendingHold {
  #usd = 0;
  readonly #change: (usd: number) => void;

  constructor(change: (usd: number) => void) {
    this.#change = change;
  }

  get usd(): number {
    return this.#usd;
  }

  set(usd: number): void {
    const more = usd - this.#usd;
    this.#usd = usd;
    this.#change(more);
  }

  release(): void {
    this.set(0);
  }
}
