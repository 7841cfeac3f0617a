/**
 * How bands of quotes are stretched by what earlier quotes missed: split conformal prediction with scores relative to the band (Lei et al.
 * 2018, "Distribution-free predictive inference for regression", sections 2.2 and 5.2), on a logarithmic scale.
 *
 *   score    = ln(actual / expected) / ln(end / expected)       the end on the side of the actual figure; 1 is the end itself
 *   stretch  = the ceil((n + 1) x level)-th smallest of n scores; 1 before 20 of them; from 1/4 to 4
 *   band     = expected x (end / expected)^stretch
 *
 * If the next figure is like those before, it is in the band at the level, whatever the distribution. Scores are of bands without a
 * stretch, so that a stretch does not teach the next one. Limits: the last 200 scores.
 */

/** Pairs of a quoted and an actual figure that are kept, and below which nothing is stretched. */
export const SCORES_MAX = 200;
export const SCORES_MIN = 20;
const STRETCH_MAX = 4;
/** An end that is nearer says nothing. */
const WIDTH_MIN = 1e-6;

/** A quoted figure with its band, and what it was stretched by. */
export interface QuotedBand {
  readonly expected: number;
  readonly low: number;
  readonly high: number;
  readonly stretched: number;
}

/** How far an actual figure was off, in bands without a stretch; undefined where that cannot be said. */
export function scoreOf({ expected, low, high, stretched }: QuotedBand, actual: number): number | undefined {
  if (!(expected > 0 && actual > 0 && low > 0 && Number.isFinite(high))) return undefined;
  const width = Math.log(actual >= expected ? high / expected : expected / low);
  if (width < WIDTH_MIN) return undefined;
  return (Math.abs(Math.log(actual / expected)) / width) * stretched;
}

/** Scores of one kind of figure, the oldest first. */
export class Calibration {
  readonly #level: number;
  #scores: readonly number[];

  /** `level`: what part of the figures is to be in the band, in (0, 1). */
  constructor(level: number, scores: readonly number[] = []) {
    this.#level = level;
    this.#scores = scores.slice(-SCORES_MAX);
  }

  get scores(): readonly number[] {
    return this.#scores;
  }

  add(score: number): void {
    this.#scores = [...this.#scores, score].slice(-SCORES_MAX);
  }

  /** Scores that count; 0 while there are too few. */
  get count(): number {
    return this.#scores.length < SCORES_MIN ? 0 : this.#scores.length;
  }

  /** What bands are stretched by. */
  get stretch(): number {
    if (this.count === 0) return 1;
    const rank = Math.min(this.count, Math.ceil((this.count + 1) * this.#level));
    const score = this.#scores.toSorted((one, other) => one - other)[rank - 1] ?? 1;
    return Math.min(STRETCH_MAX, Math.max(1 / STRETCH_MAX, score));
  }
}

/** An end of a band, stretched; what is not above 0 stays. */
export function stretchedEnd(expected: number, end: number, stretch: number): number {
  return expected > 0 && end > 0 ? expected * (end / expected) ** stretch : end;
}
