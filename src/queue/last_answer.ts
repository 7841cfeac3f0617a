/**
 * When the last of many answers arrives: later than the last request by more than a mean answer takes, because some take long.
 *
 *   sum over all items of P(latency > t - sent) = ln 2      t: the last answer arrives before it as often as after it
 *
 * Requests leave evenly until `sentMs`, and latencies are log-normal (mean and variance of their logarithms); that of the maximum
 * of independent answers follows (the number that is late is nearly Poisson).
 */

/** Items whose answers take alike. */
export interface LatencyGroup {
  readonly items: number;
  /** Of the natural logarithm of milliseconds. */
  readonly meanLn: number;
  readonly varianceLn: number;
}

const STEPS = 48;
const HALVINGS = 40;
/** Squared places, so that the last requests are sampled most densely; and the share of the items that each represents. */
const BEFORE = Float64Array.from({ length: STEPS }, (_, step) => 1 - ((step + 0.5) / STEPS) ** 2);
const WEIGHTS = Float64Array.from({ length: STEPS }, (_, step) => (2 * (step + 0.5)) / STEPS ** 2);

/** Milliseconds until the last answer, as likely sooner as later; 0 for no items. `sentMs`: until the last request. */
export function lastAnswerMs(sentMs: number, groups: readonly LatencyGroup[]): number {
  const some = groups.filter(({ items }) => items > 0);
  if (some.length === 0 || !Number.isFinite(sentMs)) return some.length === 0 ? 0 : sentMs;
  let low = sentMs;
  let high = sentMs + Math.max(1, ...some.map(({ meanLn }) => Math.exp(meanLn)));
  while (openAt(high, sentMs, some) > Math.LN2 && high < Number.MAX_SAFE_INTEGER) {
    low = high;
    high = sentMs + 2 * (high - sentMs);
  }
  for (let halving = 0; halving < HALVINGS && high - low > 1; halving += 1) {
    const middle = (low + high) / 2;
    if (openAt(middle, sentMs, some) > Math.LN2) low = middle;
    else high = middle;
  }
  return high;
}

/** Answers that are expected to be missing at `atMs`. */
function openAt(atMs: number, sentMs: number, groups: readonly LatencyGroup[]): number {
  let open = 0;
  for (const { items, meanLn, varianceLn } of groups) {
    const spread = Math.sqrt(varianceLn);
    const isSure = spread < 1e-6;
    for (let step = 0; step < STEPS; step += 1) {
      const leftLn = Math.log(Math.max(1e-9, atMs - sentMs * (BEFORE[step] as number)));
      const share = isSure ? (leftLn < meanLn ? 1 : 0) : normalAbove((leftLn - meanLn) / spread);
      open += (WEIGHTS[step] as number) * items * share;
    }
  }
  return open;
}

/** The normal distribution's share above `z`, to 1e-7 (Abramowitz and Stegun 1964, 26.2.17). */
function normalAbove(z: number): number {
  const t = 1 / (1 + 0.2316419 * Math.abs(z));
  const series =
    ((((1.330274429 * t - 1.821255978) * t + 1.781477937) * t - 0.356563782) * t + 0.31938153) * t;
  const above = (Math.exp((-z * z) / 2) / Math.sqrt(2 * Math.PI)) * series;
  return z >= 0 ? above : 1 - above;
}
