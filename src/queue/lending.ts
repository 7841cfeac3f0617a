/**
 * The turns that work without a deadline may take in a lane although other work is due soon: one for sixteen others, and what it has not used,
 * up to two seconds of the lane. So a single request is sent at once, and a flood of them takes no more than its part.
 *
 * Costs are those of the turns (`LaneLimits.costMs`), so that the part is one of requests or tokens, at any rate of the lane.
 */

const SHARE = 1 / 16;
const LEFT_MS_MAX = 2_000;

/** One for lanes that share limits. */
export class Lending {
  #leftMs = LEFT_MS_MAX;

  /** Whether such work may have the next turn. */
  get isOpen(): boolean {
    return this.#leftMs > 0;
  }

  /** A turn was taken at this cost; `isLent`: by such work. The debt is never more than one turn: others may have been unable to take theirs. */
  served(costMs: number, isLent: boolean): void {
    const left = this.#leftMs;
    this.#leftMs = isLent
      ? Math.min(left, Math.max(left, 0) - costMs)
      : Math.min(LEFT_MS_MAX, left + costMs * SHARE);
  }
}
