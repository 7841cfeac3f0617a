/**
 * Figures with the two that they are between, and their sums.
 */

/** A figure, and between which two it is. */
export interface Band {
  readonly expected: number;
  readonly low: number;
  readonly high: number;
  /** Learnt figures err independently; others may all be off the same way. */
  readonly isLearnt: boolean;
}

/** Of a sum of figures. */
export function bandOf(bands: readonly Band[]): Band {
  const expected = total(bands.map((band) => band.expected));
  const distance = (of: (band: Band) => number): number => {
    const [learnt, other] = [true, false].map((isLearnt) =>
      bands.filter((band) => band.isLearnt === isLearnt).map(of),
    ) as [number[], number[]]; // one of each
    return Math.sqrt(total(learnt.map((each) => each ** 2))) + total(other);
  };
  const low = Math.max(0, expected - distance((band) => band.expected - band.low));
  const high = expected + distance((band) => band.high - band.expected);
  return { expected, low, high, isLearnt: bands.every(({ isLearnt }) => isLearnt) };
}

/** Shares of a figure and of the ends of its band. */
export interface BandShares {
  readonly expectedShare: number;
  readonly lowShare: number;
  readonly highShare: number;
}

/** A part of a figure; its band is around it. */
export function partOf(
  { expected, low, high, isLearnt }: Band,
  { expectedShare, lowShare, highShare }: BandShares,
): Band {
  return {
    expected: expected * expectedShare,
    low: low * Math.min(lowShare, expectedShare),
    high: high * Math.max(highShare, expectedShare),
    isLearnt,
  };
}

function total(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}
