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

/** The normal distribution's 95th percentile: 5 of 100 are above it, so 90 are between it and its negative. */
export const Z95 = 1.6448536269514722;

/**
 * The 95th percentile of Student's t with `freedom` degrees of freedom, 1 at least: what the ends of a 90 % band are away from a mean,
 * in errors that were estimated from few values. Within 0.04 from 2 on (Abramowitz and Stegun 1964, 26.7.5); infinite without any.
 */
export function studentT95(freedom: number): number {
  if (freedom <= 0) return Number.POSITIVE_INFINITY;
  if (freedom < 2) return 6.3137515; // the series does not hold for 1
  const z = Z95;
  return (
    z +
    (z ** 3 + z) / (4 * freedom) +
    (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * freedom ** 2) +
    (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / (384 * freedom ** 3)
  );
}

/** Beyond this spread the expansion below says nothing. */
const SPREAD_MAX = 1;

/**
 * How much further the upper end of a band is from a mean of `count` log-normal values, in errors of the mean and on a logarithmic scale,
 * because a few long values that were not seen yet raise it: the first term of the Edgeworth expansion of Student's statistic,
 *
 *   (skewness x (2 z^2 + 1) / 6 - spread x z^2 / 2) / sqrt(count)         skewness = spread^3 + 3 spread, z of 95 %
 *
 * (Hall 1992, "The Bootstrap and Edgeworth Expansion", section 2.6; the second part is what the logarithm does already). `spread`:
 * standard deviation of one value over the mean; above 1 it counts as 1.
 */
export function skewT95(spread: number, count: number): number {
  const some = Math.min(SPREAD_MAX, spread);
  const skewness = some ** 3 + 3 * some;
  const shift = (skewness * (2 * Z95 ** 2 + 1)) / 6 - (some * Z95 ** 2) / 2;
  return shift / Math.sqrt(Math.max(1, count));
}

function total(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}
