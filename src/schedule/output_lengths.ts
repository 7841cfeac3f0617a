/**
 * What is learnt about token counts from answers: how long outputs get, and how far input counts are off.
 *
 * Output lengths: per model a histogram over buckets `2^(k/8)` (9 % wide, 1 to 2^24 tokens); every 2,000 observations
 * all counts are halved, so the last few thousand decide. The quantile is the upper edge of its bucket, so that at
 * least 90 % of outputs fit in what is reserved.
 *
 * Limits: 1.6 KB a model, the 1,000 models last added are kept.
 */

const MODELS_MAX = 1_000;
const BUCKETS_PER_DOUBLING = 8;
const BUCKETS = 24 * BUCKETS_PER_DOUBLING + 1;
const BUCKET_EDGES: readonly number[] = Array.from(
  { length: BUCKETS },
  (_, each) => 2 ** (each / BUCKETS_PER_DOUBLING),
);
const HALVE_AT = 2_000;
const OBSERVATIONS_MIN = 20;
/** What a request without a limit of its own is taken for before anything was learnt. */
export const OUTPUT_TOKENS_DEFAULT = 512;
const QUANTILE = 0.9;

interface Histogram {
  readonly counts: Float64Array<ArrayBuffer>;
  total: number;
  /** Ever observed, up to `OBSERVATIONS_MIN`. */
  observations: number;
}

/** Learns the 90 % quantile of output tokens per model. */
export class OutputLengths {
  readonly #histograms = new Map<string, Histogram>();

  /**
   * Output tokens to reserve for one request. `maxOutputTokens` is the request's own limit, 0 for none, and caps the
   * answer. Before 20 observations: 512.
   */
  expect(model: string, maxOutputTokens: number): number {
    const histogram = this.#histograms.get(model);
    const tokens =
      histogram === undefined || histogram.observations < OBSERVATIONS_MIN
        ? OUTPUT_TOKENS_DEFAULT
        : quantileOf(histogram);
    return maxOutputTokens > 0 ? Math.min(maxOutputTokens, tokens) : tokens;
  }

  /** Mean of what the last answers had, at most 9 % high; undefined before 20 observations. */
  mean(model: string): number | undefined {
    const histogram = this.#histograms.get(model);
    if (histogram === undefined || histogram.observations < OBSERVATIONS_MIN) return undefined;
    let tokens = 0;
    for (let each = 0; each < BUCKETS; each++)
      tokens += (histogram.counts[each] ?? 0) * (BUCKET_EDGES[each] ?? 0);
    return tokens / histogram.total;
  }

  /** An answer had `outputTokens`. What is not a number from 0 is ignored. */
  observe(model: string, outputTokens: number): void {
    if (!(outputTokens >= 0)) return;
    const histogram = this.#histograms.get(model) ?? this.#added(model);
    const index = bucketOf(outputTokens);
    histogram.counts[index] = (histogram.counts[index] ?? 0) + 1;
    histogram.total += 1;
    histogram.observations = Math.min(OBSERVATIONS_MIN, histogram.observations + 1);
    if (histogram.total < HALVE_AT) return;
    for (let each = 0; each < BUCKETS; each++) histogram.counts[each] = (histogram.counts[each] ?? 0) / 2;
    histogram.total /= 2;
  }

  #added(model: string): Histogram {
    const histogram = { counts: new Float64Array(BUCKETS), total: 0, observations: 0 };
    setBounded(this.#histograms, model, histogram);
    return histogram;
  }
}

const RATIO_WEIGHT = 0.05;
const RATIO_MIN = 0.5;
const RATIO_MAX = 3;

/** Learns how a provider's count of input tokens compares with ours: moving mean (weight 0.05) of actual / counted. */
export class InputRatios {
  readonly #ratios = new Map<string, number>();

  /** Factor for our count, 0.5 to 3; 1 before the first answer; never below 1 for models that are counted exactly. */
  ratio(model: string, isEstimated: boolean): number {
    const ratio = this.#ratios.get(model) ?? 1;
    return isEstimated ? ratio : Math.max(1, ratio);
  }

  /** We counted `countedTokens`, the provider `actualTokens`. What is not above 0 is ignored. */
  observe(model: string, countedTokens: number, actualTokens: number): void {
    if (!(countedTokens > 0 && actualTokens > 0)) return;
    const ratio = Math.min(RATIO_MAX, Math.max(RATIO_MIN, actualTokens / countedTokens));
    const before = this.#ratios.get(model);
    if (before === undefined) setBounded(this.#ratios, model, 1 + (ratio - 1) * RATIO_WEIGHT);
    else this.#ratios.set(model, before + (ratio - before) * RATIO_WEIGHT);
  }
}

function setBounded<V>(map: Map<string, V>, model: string, value: V): void {
  if (map.size >= MODELS_MAX) {
    const oldest = map.keys().next();
    if (oldest.done !== true) map.delete(oldest.value);
  }
  map.set(model, value);
}

/** Bucket `k` holds counts in (2^((k-1)/8), 2^(k/8)]; bucket 0 holds 0 and 1. */
function bucketOf(tokens: number): number {
  if (tokens <= 1) return 0;
  return Math.min(BUCKETS - 1, Math.ceil(Math.log2(tokens) * BUCKETS_PER_DOUBLING));
}

function quantileOf(histogram: Histogram): number {
  let above = histogram.total * (1 - QUANTILE);
  let index = BUCKETS - 1;
  for (; index > 0; index--) {
    above -= histogram.counts[index] ?? 0;
    if (above < 0) break;
  }
  return Math.ceil(2 ** (index / BUCKETS_PER_DOUBLING));
}
