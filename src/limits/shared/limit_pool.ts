/**
 * The port through which processes share limits: units of quotas (`shared_window.ts`), places in flight (`shared_places.ts`), what waits for them
 * (`shared_work.ts`), and what is known of lanes (`shared_facts.ts`).
 */
import type { FactsAsk, KnownFacts } from "./shared_facts.ts";
import type { PlacesAsk, PlacesGrant } from "./shared_places.ts";
import type { BlockAsk, BlockGrant } from "./shared_window.ts";
import type { OtherWork, Precedence, QuotaUnits, SharedWork, WorkAsk } from "./shared_work.ts";

export interface PoolAsk {
  /** Which quota, the same in all processes. */
  readonly quota: string;
  readonly ask: BlockAsk;
  /** The name of the work that waits for it, one of those in the draw, and which of its amounts the units are; absent: all that ask are equal. */
  readonly work?: { readonly name: string; readonly units: keyof QuotaUnits };
}

export interface WorkPoolAsk {
  /** Whose work, the same in all processes, and different from the names of all else. */
  readonly name: string;
  readonly ask: WorkAsk;
}

export interface PlacesPoolAsk {
  /** Which limit on places, the same in all processes, and different from the names of quotas and facts. */
  readonly name: string;
  readonly ask: PlacesAsk;
  /** As with units, of requests. */
  readonly work?: PoolAsk["work"];
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
  readonly works: readonly WorkPoolAsk[];
  readonly facts: readonly FactsPoolAsk[];
}

/** The answers, in the order of the asks. */
export interface PoolAnswers {
  readonly blocks: readonly BlockGrant[];
  readonly places: readonly PlacesGrant[];
  readonly works: readonly (readonly OtherWork[])[];
  readonly facts: readonly KnownFacts[];
}

/** Port. One for a process. */
export interface LimitPool {
  /**
   * Books all asks together, with each name locked meanwhile, and resolves with the answers. Calls may overlap, and are done one after another.
   * Rejects when the place cannot be reached or does not answer in time: the asks may have been booked, and the caller repeats those for blocks
   * and places unchanged. Work is booked before blocks and places, which are granted by it.
   */
  draw(draw: PoolDraw): Promise<PoolAnswers>;
}

/** How the processes rank that ask for a quota; undefined, for equal, where its work is not in the draw. */
export function precedenceIn(
  works: ReadonlyMap<string, SharedWork>,
  work: PoolAsk["work"],
): ((holder: string) => Precedence) | undefined {
  const shared = work === undefined ? undefined : works.get(work.name);
  return work === undefined || shared === undefined
    ? undefined
    : (holder) => shared.precedence(holder, work.units);
}
