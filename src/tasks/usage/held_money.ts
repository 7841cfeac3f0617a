/**
 * Money of projects that is held for accepted work, in memory.
 *
 *   held -> taken as the work spends it -> released (what is left)
 */

/** Money kept for work that was accepted. */
export interface SpendingHold {
  /** What is left of it, in USD. */
  readonly usd: number;
  /** Keeps more in it. */
  grow(usd: number): void;
  /** The work has spent so much: at most what is left is taken. Returns what was, in USD. */
  take(usd: number): number;
  /** Gives back what is left; twice changes nothing. */
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
      // What is left of many additions and subtractions of floats counts as 0.
      if (heldUsd > 1e-9) this.#usd.set(project, heldUsd);
      else this.#usd.delete(project);
    });
    hold.grow(usd);
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

  grow(usd: number): void {
    this.#usd += usd;
    this.#change(usd);
  }

  take(usd: number): number {
    const taken = Math.max(0, Math.min(this.#usd, usd));
    this.grow(-taken);
    return taken;
  }

  release(): void {
    this.take(this.#usd);
  }
}
