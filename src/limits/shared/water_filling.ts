/**
 * Max-min fairness by weights (Bertsekas and Gallager, "Data Networks", 6.5.2): each gets what it wants, or as much for its weight as all
 * others that want more. So what one does not want is lent to the others.
 *
 *   share(i) = min(wanted(i), level x weight(i)), where the shares together are the amount
 */

/** What one of those that share wants. */
export interface Claim {
  readonly wanted: number;
  /** Above 0. */
  readonly weight: number;
}

/** Units of `amount`, 0 or more, for each unit of weight; Infinity where the amount is enough for all. */
export function waterLevel(amount: number, claims: readonly Claim[]): number {
  const open = claims.filter(({ wanted }) => wanted > 0);
  open.sort((left, right) => left.wanted / left.weight - right.wanted / right.weight);
  let weights = open.reduce((sum, { weight }) => sum + weight, 0);
  let rest = amount;
  for (const { wanted, weight } of open) {
    const level = Math.max(0, rest) / weights;
    if (wanted > level * weight) return level;
    rest -= wanted;
    weights -= weight;
  }
  return Number.POSITIVE_INFINITY;
}

/** The units of one claim at a level of `waterLevel`. */
export function shareAt(level: number, { wanted, weight }: Claim): number {
  return level === Number.POSITIVE_INFINITY ? wanted : Math.min(wanted, level * weight);
}
