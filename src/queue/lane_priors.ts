/**
 * How long answers of lanes take before any was measured, as data.
 *
 * Tiny jobs that others measured in August and September 2026; tails are heavy, and the next job may take ten times as long:
 *
 *   batch   Anthropic  2 min / 5 min / 21 min          Gemini   3 min / 5 min / 8 min
 *           OpenAI     2.6 min / 35 min / 6.1 h        of 22 jobs 3 had not ended when the watch did
 *           Mistral    1 min / 15.7 h / 20 h           all others: assumed as OpenAI's, nothing was measured
 *   flex    half within 2.8 s, 95 % within 12.3 s; 5 % refused (37 % of one model's). The p99 is assumed.
 *
 * A guess, because nobody has published a figure:
 *
 *   slow       DashScope's Batch Chat may take up to an hour
 *   deferred   Gemini answers within 24 hours
 */

/** Quantiles of what answers take, in milliseconds. */
export interface LatencyPrior {
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
}

/** The same in seconds, as the configuration has them: positive, p50 <= p90 <= p99. */
export interface PriorSeconds {
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
}

/** Kinds of lanes whose answers take a time of their own. */
export const PRIOR_KINDS = ["flex", "slow", "batch", "deferred"] as const;
export type PriorKind = (typeof PRIOR_KINDS)[number];

/** By kind, or by `<provider>:<kind>`, which wins. */
export type LanePriors = Readonly<Record<string, PriorSeconds>>;

const PRIORS: Readonly<Record<PriorKind, PriorSeconds>> = {
  flex: { p50: 2.8, p90: 9.5, p99: 60 },
  slow: { p50: 60, p90: 600, p99: 3_000 },
  batch: { p50: 156, p90: 2_100, p99: 21_960 },
  deferred: { p50: 600, p90: 21_600, p99: 86_400 },
};

const OF_PROVIDERS: Readonly<Record<string, PriorSeconds>> = {
  "anthropic:batch": { p50: 120, p90: 300, p99: 1_260 },
  "gemini:batch": { p50: 180, p90: 300, p99: 480 },
  "mistral:batch": { p50: 60, p90: 56_520, p99: 72_000 },
};

/** Whether a text names a kind whose answers take a time of their own, at all providers or at one. */
export function isPriorName(name: string): boolean {
  return PRIOR_KINDS.some(
    (kind) => name === kind || (name.endsWith(`:${kind}`) && name.length > kind.length + 1),
  );
}

/** What answers of a provider's lane take, until they are measured. `configured` wins over what is known here. */
export function latencyPrior(provider: string, kind: PriorKind, configured: LanePriors = {}): LatencyPrior {
  const name = `${provider}:${kind}`;
  const { p50, p90, p99 } = configured[name] ?? configured[kind] ?? OF_PROVIDERS[name] ?? PRIORS[kind];
  return { p50: p50 * 1_000, p90: p90 * 1_000, p99: p99 * 1_000 };
}

/** What a lane's answers take: as measured, and until then as `prior` says. `quantileMs`: undefined while too few were measured. */
export function learntLatency(
  quantileMs: (share: number) => number | undefined,
  prior: LatencyPrior,
): LatencyPrior {
  const [p50 = prior.p50, p90 = prior.p90, p99 = prior.p99] = [0.5, 0.9, 0.99].map(quantileMs);
  return { p50, p90: Math.max(p50, p90), p99: Math.max(p50, p90, p99) };
}

/** How long batches take, and which share of them did not end. */
export interface BatchPrior extends LatencyPrior {
  /** In [0, 1): of the measured batches, those without an end while they were watched. */
  readonly unendedShare: number;
}

/** By provider, of those whose batches others have measured. */
const UNENDED_SHARES: ReadonlyMap<string, number> = new Map([
  ["anthropic", 0],
  ["gemini", 0],
  ["openai", 3 / 22],
  ["mistral", 0],
]);

/** Of requests in a flex tier, the share that is refused, without charge. */
export const FLEX_REFUSED_SHARE = 0.05;

/**
 * Models without a flex tier, by provider. OpenAI's guide (https://platform.openai.com/docs/guides/flex-processing, from memory)
 * lists o3, o4-mini and GPT-5; so names of earlier families are left out. No list of Gemini's was found.
 */
const WITHOUT_FLEX: ReadonlyMap<string, RegExp> = new Map([
  ["openai", /^(?:ft:|gpt-3|gpt-4|chatgpt-|o1|text-|davinci|babbage)/i],
]);
const EMBEDDING = /embed/i;

/** Undefined where nobody has measured the provider's batches. */
export function batchPrior(provider: string): BatchPrior | undefined {
  const unendedShare = UNENDED_SHARES.get(provider);
  return unendedShare === undefined ? undefined : { ...latencyPrior(provider, "batch"), unendedShare };
}

/** The share of a provider's batches that do not end, until any was measured; 0 where `configured` says how long its batches take. */
export function unendedShare(provider: string, configured: LanePriors): number {
  const isConfigured = [`${provider}:batch`, "batch"].some((name) => Object.hasOwn(configured, name));
  return isConfigured ? 0 : (UNENDED_SHARES.get(provider) ?? 0);
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
