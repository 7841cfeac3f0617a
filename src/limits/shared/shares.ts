/**
 * What one of several who ask for units has as its share: work with precedence is served first, then the rest, both by weights (`water_filling.ts`).
 */
import type { Precedence } from "./shared_work.ts";
import { type Claim, shareAt, waterLevel } from "./water_filling.ts";

/** One who asks. */
export interface UnitsAsker {
  readonly name: string;
  readonly wanted: number;
  readonly precedence: Precedence;
}

/** Of an amount, for one of those who ask; Infinity if all that it wants is less than its share, or if the others have none. */
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

/** What one wants with precedence, and without. */
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
