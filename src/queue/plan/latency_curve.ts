/**
 * How long a lane takes, as a distribution: what part of its work is done after so many milliseconds.
 *
 *   below p99    log-normal between the known quantiles: ln(ms) is linear in the normal quantile z, piece by piece
 *   beyond p99   the steepest piece, TAIL_TIMES as steep: nothing is known there, and tails of batches are heavier than log-normal
 *   stuck        a share that never ends; all other shares are of the rest
 *
 * Sources: Abramowitz and Stegun 1964, 26.2.17 (the normal distribution, error below 7.5e-8); Acklam 2003 (its inverse,
 * relative error below 1.2e-9).
 */
import type { LatencyPrior } from "../lane_priors.ts";

/** A distribution of durations. */
export interface LatencyCurve {
  /** The share, in [0, 1], of what was sent that is done `ms` later. */
  doneShare(ms: number): number;
  /** Milliseconds after which the part `share` is done; Infinity beyond what is ever done. */
  quantileMs(share: number): number;
}

/** Normal quantiles of 50, 90 and 99 %. */
const Z50 = 0;
const Z90 = 1.2815515655446004;
const Z99 = 2.3263478740408408;
const TAIL_TIMES = 1.5;
/** Two quantiles that are equal are taken as a piece this steep. */
const STEEP_MIN = 1e-6;
/** Plans read these for each group: computed once. */
const COMMON_SHARES = [0.1, 0.5, 0.9, 0.99] as const;

/** A curve through three quantiles, in milliseconds above 0. `stuckShare`, in [0, 1): what never ends. */
export function curveOf({ p50, p90, p99 }: LatencyPrior, stuckShare: number = 0): LatencyCurve {
  const start = Math.log(Math.max(p50, 1));
  const low = Math.max(STEEP_MIN, (Math.log(Math.max(p90, 1)) - start) / (Z90 - Z50));
  const high = Math.max(STEEP_MIN, (Math.log(Math.max(p99, 1)) - start - low * Z90) / (Z99 - Z90));
  const tail = TAIL_TIMES * Math.max(low, high);
  const at90 = start + low * Z90;
  const at99 = at90 + high * (Z99 - Z90);
  const zOf = (log: number): number => {
    if (log <= at90) return (log - start) / low;
    return log <= at99 ? Z90 + (log - at90) / high : Z99 + (log - at99) / tail;
  };
  const logOf = (z: number): number => {
    if (z <= Z90) return start + low * z;
    return z <= Z99 ? at90 + high * (z - Z90) : at99 + tail * (z - Z99);
  };
  const ending = 1 - stuckShare;
  const quantileOf = (share: number): number => {
    if (share <= 0) return 0;
    return share >= ending ? Number.POSITIVE_INFINITY : Math.exp(logOf(normalQuantile(share / ending)));
  };
  const common = new Map<number, number>(COMMON_SHARES.map((share) => [share, quantileOf(share)]));
  return {
    doneShare: (ms) => (ms > 0 ? ending * normalShare(zOf(Math.log(ms))) : 0),
    quantileMs: (share) => common.get(share) ?? quantileOf(share),
  };
}

/** The chance that what is not done after `elapsedMs` is done after `laterMs`, both counted from its start. */
export function doneShareAfter(curve: LatencyCurve, elapsedMs: number, laterMs: number): number {
  const already = curve.doneShare(elapsedMs);
  if (already >= 1) return 1;
  return Math.max(0, (curve.doneShare(laterMs) - already) / (1 - already));
}

/** The share of a normal distribution below `z`. */
function normalShare(z: number): number {
  const t = 1 / (1 + 0.2316419 * Math.abs(z));
  const series =
    t * (0.31938153 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))));
  const above = 0.3989422804014327 * Math.exp((-z * z) / 2) * series;
  return z >= 0 ? 1 - above : above;
}

/** The `z` below which the part `share`, in (0, 1), of a normal distribution is. */
function normalQuantile(share: number): number {
  const edge = 0.02425;
  if (share > 1 - edge) return -normalQuantile(1 - share);
  if (share >= edge) {
    const q = share - 0.5;
    const r = q * q;
    const above =
      (((((-39.69683028665376 * r + 220.9460984245205) * r - 275.9285104469687) * r + 138.357751867269) * r -
        30.66479806614716) *
        r +
        2.506628277459239) *
      q;
    const below =
      ((((-54.47609879822406 * r + 161.5858368580409) * r - 155.6989798598866) * r + 66.80131188771972) * r -
        13.28068155288572) *
        r +
      1;
    return above / below;
  }
  const q = Math.sqrt(-2 * Math.log(share));
  const above =
    ((((-0.007784894002430293 * q - 0.3223964580411365) * q - 2.400758277161838) * q - 2.549732539343734) *
      q +
      4.374664141464968) *
      q +
    2.938163982698783;
  const below =
    (((0.007784695709041462 * q + 0.3224671290700398) * q + 2.445134137142996) * q + 3.754408661907416) * q +
    1;
  return above / below;
}
