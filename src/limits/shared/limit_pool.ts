/**
 * The port to the place where processes draw from quotas that they share (`shared_window.ts`).
 */
import type { BlockAsk, BlockGrant } from "./shared_window.ts";

export interface PoolAsk {
  /** Which quota, the same in all processes. */
  readonly quota: string;
  readonly ask: BlockAsk;
}

/** Port. One for a process. */
export interface LimitPool {
  /**
   * Books all asks together, each quota held alone meanwhile, and answers in their order. Rejects when the place cannot be reached, or
   * does not answer in time: the asks may have been booked, and are repeated as they were.
   */
  draw(asks: readonly PoolAsk[]): Promise<readonly BlockGrant[]>;
}
