/**
 * The share of one process, of several that ask for units: work with precedence is served first, then the rest, both by weights (`water_filling.ts`).
 */
import type { Precedence } from "./shared_work.ts";
import { type Claim, shareAt, waterLevel } from "./water_filling.ts";

/** Multiples of it fall evenly into [0, 1) without the whole part: the golden ratio (Knuth, "Sorting and Searching", 6.4). */
export const EVEN_STEP = 0.618_033_988_75;

/** A process that asks. */
export interface UnitsAsker {
  readonly name: string;
  readonly wanted: number;
  readonly precedence: Precedence;
}

/** Units of `amount` for the process `name`, not rounded; Infinity if it may have all that it wants, or if the others are to have none. */
export function shareOf(name: string, amount: number, asking: readonly UnitsAsker[]): number {
  const claims = asking.map(claimsOf);
  const own = claims.find((each) => each.name === name);
  if (own === undefined || claims.length === 1) return Number.POSITIVE_INFINITY;
  const first = claims.map((each) => each.first);
  const firstWanted = first.reduce((sum, { wanted }) => sum + wanted, 0);
  const rest = Math.max(0, amount - firstWanted);
  if (rest === 0 && own.first.wanted === firstWanted) return Number.POSITIVE_INFINITY;
  const firstShare = shareAt(waterLevel(amount, first), own.first);
  const level = waterLevel(
    rest,
    claims.map((each) => each.rest),
  );
  const restShare = shareAt(level, own.rest);
  const isContent = firstShare === own.first.wanted && restShare === own.rest.wanted;
  return isContent ? Number.POSITIVE_INFINITY : firstShare + restShare;
}

/** Units of `amount` for each process, not rounded, and at most what it wants. */
export function sharesOf(amount: number, asking: readonly UnitsAsker[]): number[] {
  const claims = asking.map(claimsOf);
  const first = claims.map((each) => each.first);
  const rest = claims.map((each) => each.rest);
  const firstWanted = first.reduce((sum, { wanted }) => sum + wanted, 0);
  const [before, level] = [waterLevel(amount, first), waterLevel(Math.max(0, amount - firstWanted), rest)];
  return claims.map((each) => shareAt(before, each.first) + shareAt(level, each.rest));
}

/** What a process wants with precedence, and without. */
function claimsOf({ name, wanted, precedence }: UnitsAsker): {
  readonly name: string;
  readonly first: Claim;
  readonly rest: Claim;
} {
  const { weight, first, firstWeight } = precedence;
  const before = Math.min(wanted, first);
  return {
    name,
    first: { wanted: before, weight: firstWeight },
    rest: { wanted: wanted - before, weight },
  };
}
