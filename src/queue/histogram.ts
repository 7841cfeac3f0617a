/**
 * Counts of values by their size, of bounded memory: what quantiles and shares are read from.
 *
 * Buckets are `2^(k/8)`, 9 % wide, from 1 to 2^24 (tokens, or milliseconds up to 4.6 hours). Once 2,000 values are counted
 * all counts are halved, so the last few thousand decide. Each bucket knows the mean of its values: the mean of all is exact,
 * and values that are all equal are distinguished from a bound just next to them.
 *
 * Limits: 3.2 KB each.
 */
const BUCKETS_PER_DOUBLING = 8;
const BUCKETS = 24 * BUCKETS_PER_DOUBLING + 1;
const HALVE_AT = 2_000;
const VALUE_MAX = 2 ** 24;
/** The largest value of each bucket: it is read with every request, and a power takes longer than a quantile. */
const EDGES = Float64Array.from({ length: BUCKETS }, (_, index) => 2 ** (index / BUCKETS_PER_DOUBLING));

/** Buckets with how many values they hold, and the mean of those. */
export type KeptHistogram = readonly (readonly [bucket: number, count: number, mean: number])[];

/** Add to it with `observe`; reading changes nothing. */
export class Histogram {
  readonly #counts = new Float64Array(BUCKETS);
  /** Of the values of each bucket. */
  readonly #sums = new Float64Array(BUCKETS);
  /** Of all values. */
  #sum = 0;
  #total = 0;
  #observations = 0;
  /** No bucket below the first or above the second holds anything: most are outside, and quantiles are read once a request. */
  #lowest = BUCKETS;
  #highest = 0;

  /** Values that count now; halved from time to time. */
  get total(): number {
    return this.#total;
  }

  /** Values that were ever observed. */
  get observations(): number {
    return this.#observations;
  }

  /** 0 without one. */
  get mean(): number {
    return this.#total === 0 ? 0 : this.#sum / this.#total;
  }

  /** What is not a number from 0 is ignored. */
  observe(value: number): void {
    if (!(value >= 0)) return;
    const index = bucketOf(value);
    this.#span(index);
    this.#counts[index] = (this.#counts[index] ?? 0) + 1;
    this.#total += 1;
    this.#sums[index] = (this.#sums[index] ?? 0) + Math.min(value, VALUE_MAX);
    this.#sum += Math.min(value, VALUE_MAX);
    this.#observations += 1;
    if (this.#total < HALVE_AT) return;
    for (let each = 0; each < BUCKETS; each += 1) {
      this.#counts[each] = (this.#counts[each] ?? 0) / 2;
      this.#sums[each] = (this.#sums[each] ?? 0) / 2;
    }
    this.#sum /= 2;
    this.#total /= 2;
  }

  /** The upper edge of the bucket in which the quantile lies: at least the part `share` of all values are no larger. */
  quantile(share: number): number {
    let above = this.#total * (1 - share);
    let index = this.#highest;
    for (; index > 0; index -= 1) {
      above -= this.#counts[index] ?? 0;
      if (above < 0) break;
    }
    return edgeOf(index);
  }

  /** What later processes begin with: each bucket that holds something. */
  kept(): KeptHistogram {
    const rows: [number, number, number][] = [];
    for (let index = 0; index < BUCKETS; index += 1)
      if (this.countIn(index) > 0) rows.push([index, this.countIn(index), this.meanIn(index)]);
    return rows;
  }

  /** Begins with what was kept, as if it were `totalMax` values at most. Once, before any value; what cannot be is left out. */
  restore(rows: KeptHistogram, totalMax: number): void {
    const possible = rows.filter(
      ([index, count, mean]) => Number.isInteger(index) && bucketOf(mean) === index && count > 0 && mean >= 0,
    );
    const total = possible.reduce((sum, [, count]) => sum + count, 0);
    const scale = Math.min(1, totalMax / total);
    for (const [index, count, mean] of possible) {
      this.#span(index);
      this.#counts[index] = count * scale;
      this.#sums[index] = count * scale * mean;
      this.#sum += count * scale * mean;
      this.#total += count * scale;
    }
    this.#observations = Math.floor(this.#total);
  }

  /** The first bucket that may hold something; beyond all buckets before any value. */
  get lowest(): number {
    return this.#lowest;
  }

  /** Values in a bucket. */
  countIn(index: number): number {
    return this.#counts[index] ?? 0;
  }

  /** Of the values in a bucket, which must not be empty. */
  meanIn(index: number): number {
    return (this.#sums[index] ?? 0) / this.countIn(index);
  }

  /** How many values are above `value`; those of its own bucket count all or not at all, as their mean is. */
  above(value: number): number {
    const own = bucketOf(value);
    const ownCount = this.#counts[own] ?? 0;
    let count = (this.#sums[own] ?? 0) > value * ownCount ? ownCount : 0;
    for (let index = own + 1; index <= this.#highest; index += 1) count += this.#counts[index] ?? 0;
    return count;
  }

  #span(index: number): void {
    if (index < this.#lowest) this.#lowest = index;
    if (index > this.#highest) this.#highest = index;
  }
}

/**
 * The value that the part `share` of all are no larger than, where of some values (`open`) is only known that they are at
 * least so large: the product-limit estimate (Kaplan and Meier 1958, "Nonparametric estimation from incomplete
 * observations"), to a bucket. When fewer than `knownMin` are known to be that large, the largest value for which as
 * many are.
 */
export function quantileOfOpen(closed: Histogram, open: Histogram, share: number, knownMin: number): number {
  let known = closed.total + open.total;
  if (known < knownMin) return 0;
  let above = 1;
  for (let index = Math.min(closed.lowest, open.lowest); index < BUCKETS; index += 1) {
    if (known < knownMin) return edgeOf(index - 1);
    const count = closed.countIn(index);
    above *= 1 - count / known;
    if (above < 1 - share) return closed.meanIn(index);
    known -= count + open.countIn(index);
  }
  return VALUE_MAX;
}

/** Bucket `k` holds values in (2^((k-1)/8), 2^(k/8)]; bucket 0 holds 0 to 1. */
function bucketOf(value: number): number {
  if (value <= 1) return 0;
  return Math.min(BUCKETS - 1, Math.ceil(Math.log2(value) * BUCKETS_PER_DOUBLING));
}

function edgeOf(index: number): number {
  return EDGES[index] as number;
}
