/**
 * The port through which processes draw from quotas that they share (`shared_window.ts`).
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
   * Books all asks together, with each quota locked meanwhile, and resolves with the grants in the order of the asks. Calls may overlap, and are
   * done one after another. Rejects when the place cannot be reached or does not answer in time: the asks may have been booked, and the caller
   * repeats them unchanged.
   */
  draw(asks: readonly PoolAsk[]): Promise<readonly BlockGrant[]>;
}
