/**
 * Positions in a ring of slots. Slots before time 0 are negative (after a restore), so the remainder is made positive.
 */

/** The position of `slot`, a whole number, in a ring of `size` slots: 0 to `size` - 1. */
export function ringPosition(slot: number, size: number): number {
  const rest = slot % size;
  return rest < 0 ? rest + size : rest;
}
