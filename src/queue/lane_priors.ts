/**
 * What is assumed of lanes that are cheaper than realtime, until they are measured. Pure data and its look-up.
 *
 * The figures are of tiny jobs that others measured in August and September 2026: one batch of a few requests each, 22 at
 * OpenAI, of which 3 had no end while they were watched; single requests in flex, of which 5 % were refused (37 % of one
 * model's). Tails are heavy and large jobs may take longer: a median promises nothing.
 */
import type { LatencyPrior } from "./offers.ts";

/** How long batches take, and which share of them did not end. */
export interface BatchPrior extends LatencyPrior {
  /** In [0, 1): of the measured batches, those without an end while they were watched. */
  readonly unendedShare: number;
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

const BATCH_PRIORS: ReadonlyMap<string, BatchPrior> = new Map([
  ["anthropic", { p50: 2 * MINUTE_MS, p90: 5 * MINUTE_MS, p99: 21 * MINUTE_MS, unendedShare: 0 }],
  ["gemini", { p50: 3 * MINUTE_MS, p90: 5 * MINUTE_MS, p99: 8 * MINUTE_MS, unendedShare: 0 }],
  ["openai", { p50: 2.6 * MINUTE_MS, p90: 35 * MINUTE_MS, p99: 6.1 * HOUR_MS, unendedShare: 3 / 22 }],
  ["mistral", { p50: MINUTE_MS, p90: 15.7 * HOUR_MS, p99: 20 * HOUR_MS, unendedShare: 0 }],
]);

/** Of requests in a flex tier, the share that is refused, without charge. */
export const FLEX_REFUSED_SHARE = 0.05;

/**
 * Models without a flex tier, by provider. OpenAI's guide (https://platform.openai.com/docs/guides/flex-processing, read in
 * November 2026) lists o3, o4-mini and GPT-5; so names of earlier families are left out. No list of Gemini's was found.
 */
const WITHOUT_FLEX: ReadonlyMap<string, RegExp> = new Map([
  ["openai", /^(?:ft:|gpt-3|gpt-4|chatgpt-|o1|text-|davinci|babbage)/i],
]);
const EMBEDDING = /embed/i;

/** Undefined where nobody has measured the provider's batches. */
export function batchPrior(provider: string): BatchPrior | undefined {
  return BATCH_PRIORS.get(provider);
}

/** Whether a model of a provider with a flex tier may have it, as far as is known. */
export function mayHaveFlex(provider: string, model: string): boolean {
  return !EMBEDDING.test(model) && WITHOUT_FLEX.get(provider)?.test(model) !== true;
}

/** The share of answers that take longer than `ms`, by the next lower quantile: never below 1 %, which the priors say nothing about. */
export function lateShare(prior: LatencyPrior, ms: number): number {
  if (ms >= prior.p99) return 0.01;
  if (ms >= prior.p90) return 0.1;
  return ms >= prior.p50 ? 0.5 : 1;
}
