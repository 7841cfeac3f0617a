/**
 * The port through which processes share limits: units of quotas (`shared_window.ts`), places in flight (`shared_places.ts`), and what is known
 * of lanes (`shared_facts.ts`).
 */
import type { FactsAsk, KnownFacts } from "./shared_facts.ts";
import type { PlacesAsk, PlacesGrant } from "./shared_places.ts";
import type { BlockAsk, BlockGrant } from "./shared_window.ts";

export interface PoolAsk {
  /** Which quota, the same in all processes. */
  readonly quota: string;
  readonly ask: BlockAsk;
}

export interface PlacesPoolAsk {
  /** Which limit on places, the same in all processes, and different from the names of quotas and facts. */
  readonly name: string;
  readonly ask: PlacesAsk;
}

export interface FactsPoolAsk {
  /** Which lane, the same in all processes, and different from the names of quotas and places. */
  readonly name: string;
  readonly ask: FactsAsk;
}

/** What a process asks at once. */
export interface PoolDraw {
  readonly blocks: readonly PoolAsk[];
  readonly places: readonly PlacesPoolAsk[];
  readonly facts: readonly FactsPoolAsk[];
}

/** The answers, in the order of the asks. */
export interface PoolAnswers {
  readonly blocks: readonly BlockGrant[];
  readonly places: readonly PlacesGrant[];
  readonly facts: readonly KnownFacts[];
}

/** Port. One for a process. */
export interface LimitPool {
  /**
   * Books all asks together, with each name locked meanwhile, and resolves with the answers. Calls may overlap, and are done one after another.
   * Rejects when the place cannot be reached or does not answer in time: the asks may have been booked, and the caller repeats those for blocks
   * and places unchanged.
   */
  draw(draw: PoolDraw): Promise<PoolAnswers>;
}
