/**
 * What is learnt about token counts from answers: how long outputs get, and how far input counts are off.
 *
 * Output lengths: per model a histogram (histogram.ts). The quantile is the upper edge of its bucket, so that at least
 * 90 % of outputs fit in what is reserved.
 *
 * Limits: 3.2 KB a model, the 1,000 models last added are kept.
 */
import { Histogram, type KeptHistogram } from "./histogram.ts";

const MODELS_MAX = 1_000;
const OBSERVATIONS_MIN = 20;
/** The assumed output of a request without a limit before anything was learnt. */
const OUTPUT_TOKENS_DEFAULT = 512;
/** The output tokens of a request without an output limit, before anything was learnt. */
const UNKNOWN_OUTPUT_TOKENS = 4_096;
/** After so many answers the limit counts a quarter. */
const DOUBT_ANSWERS = 3;
const QUANTILE = 0.9;
/** Answers of an earlier process that count, at most. */
const RESTORED_MAX = 200;

/** Learns how many output tokens the answers of each model have. */
export class OutputLengths {
  readonly #histograms = new Map<string, Histogram>();
  /** Models that have changed since the last call of `changes`. */
  readonly #changed = new Set<string>();

  /**
   * Output tokens to reserve for one request. `maxOutputTokens` is the request's own limit, 0 without one, and caps the
   * answer. Before 20 observations: 512.
   */
  expect(model: string, maxOutputTokens: number): number {
    const histogram = this.#histograms.get(model);
    const tokens =
      histogram === undefined || histogram.observations < OBSERVATIONS_MIN
        ? OUTPUT_TOKENS_DEFAULT
        : Math.ceil(histogram.quantile(QUANTILE));
    return maxOutputTokens > 0 ? Math.min(maxOutputTokens, tokens) : tokens;
  }

  /**
   * Output tokens to count against limits for one request: the mean of the answers so far. The unknown counts as one answer more
   * (the request's own limit, 4,096 without one), and as less of one the more arrived: first answers are let in slowly.
   */
  reserve(model: string, maxOutputTokens: number): number {
    const most = maxOutputTokens > 0 ? maxOutputTokens : UNKNOWN_OUTPUT_TOKENS;
    const histogram = this.#histograms.get(model);
    if (histogram === undefined) return most;
    const { total, mean } = histogram;
    const doubt = 1 / (1 + total / DOUBT_ANSWERS) ** 2;
    const tokens = Math.ceil((most * doubt + mean * total) / (doubt + total));
    return maxOutputTokens > 0 ? Math.min(maxOutputTokens, tokens) : tokens;
  }

  /** Mean of what the last answers had; undefined before 20 observations. */
  mean(model: string): number | undefined {
    const histogram = this.#histograms.get(model);
    if (histogram === undefined || histogram.observations < OBSERVATIONS_MIN) return undefined;
    return histogram.mean;
  }

  /** An answer had `outputTokens`. What is not a number from 0 is ignored. */
  observe(model: string, outputTokens: number): void {
    if (!(outputTokens >= 0)) return;
    let histogram = this.#histograms.get(model);
    if (histogram === undefined) {
      histogram = new Histogram();
      setBounded(this.#histograms, model, histogram);
    }
    histogram.observe(outputTokens);
    this.#changed.add(model);
  }

  /** The models that have changed since the last call, with what is known of each. */
  *changes(): Generator<readonly [string, KeptHistogram]> {
    const changed = [...this.#changed];
    this.#changed.clear();
    for (const model of changed) {
      const histogram = this.#histograms.get(model);
      if (histogram !== undefined) yield [model, histogram.kept()];
    }
  }

  /** Begins with what an earlier process knew of a model. Impossible values are ignored. */
  restore(model: string, kept: KeptHistogram): void {
    const histogram = new Histogram();
    histogram.restore(kept, RESTORED_MAX);
    if (histogram.total > 0) setBounded(this.#histograms, model, histogram);
  }
}

const RATIO_WEIGHT = 0.05;
const RATIO_MIN = 0.5;
const RATIO_MAX = 3;

/** Learns how a provider's count of input tokens compares with perigee's: moving mean (weight 0.05) of actual / counted. */
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
