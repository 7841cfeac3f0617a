/**
 * Which rows of a table are asked: all, the first ones, or some by chance.
 *
 * A sample is drawn by the numbers of the rows, from a seed, so that the same command draws the same rows: Vitter's algorithm R
 * (https://doi.org/10.1145/3147.3165) with xorshift32.
 */

/** Rows by their number, from 1. */
export interface RowChoice {
  takes(rowNumber: number): boolean;
  /** Whether no row from this one on is taken. */
  isOver(rowNumber: number): boolean;
}

/** Every row. */
export const ALL_ROWS: RowChoice = { takes: () => true, isOver: () => false };

/** The first `rows` rows. */
export function firstRows(rows: number): RowChoice {
  return { takes: (rowNumber) => rowNumber <= rows, isOver: (rowNumber) => rowNumber > rows };
}

/** `size` rows of `rowCount`, or all when there are fewer. `seed` is a whole number from 0. */
export function sampledRows(rowCount: number, size: number, seed: number): RowChoice {
  const next = xorshift32(seed);
  const drawn: number[] = [];
  for (let rowNumber = 1; rowNumber <= rowCount; rowNumber += 1) {
    if (drawn.length < size) {
      drawn.push(rowNumber);
      continue;
    }
    const at = Math.floor(next() * rowNumber);
    if (at < size) drawn[at] = rowNumber;
  }
  const taken = new Set(drawn);
  const last = drawn.reduce((most, one) => Math.max(most, one), 0);
  return { takes: (rowNumber) => taken.has(rowNumber), isOver: (rowNumber) => rowNumber > last };
}

/** Numbers from 0 to below 1. */
function xorshift32(seed: number): () => number {
  let state = Math.imul(seed + 1, 0x9e3779b1) | 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}
