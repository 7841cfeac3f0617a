/**
 * What each option of `engine.run`, `submit`, `retry`, `retryTask`, `quote` and `plan` must be. This file does not compile until a new
 * option is added here.
 */
import type { FactorRate, RateCard } from "../price/factor.ts";
import { LANE_POLICIES, type LaneChoices } from "../queue/lane_choice.ts";
import { parseModelId } from "../work/request.ts";
import {
  A_FUNCTION,
  A_LIST,
  A_SIGNAL,
  A_TEXT,
  A_TRUTH,
  AN_AMOUNT,
  AN_OBJECT,
  anObjectOf,
  byName,
  CHECKED_LATER,
  type OptionKind,
  type OptionSchema,
} from "./call_options.ts";
import type { AnswerCacheTerms, CacheOptions } from "./config/cache_terms.ts";
import { isAlias } from "./config/model_aliases.ts";
import type { PlanOptions } from "./plans/plan_source.ts";
import type { ProgressOptions } from "./runs/progress_feed.ts";
import type { QuoteOptions } from "./runs/quote.ts";
import type { EngineRunOptions, RunOptions } from "./runs/run_options.ts";
import type { RetryOptions, RetryTaskOptions } from "./submissions/retry.ts";
import type { SubmitOptions } from "./submissions/submissions.ts";

const A_MODEL: OptionKind = {
  expected: '"<provider>:<name>", or an alias of the configuration',
  isValid: (value) => typeof value === "string" && (parseModelId(value) !== undefined || isAlias(value)),
};

const A_WAIT: OptionKind = {
  expected: "milliseconds from 0",
  isValid: (value) => typeof value === "number" && value >= 0,
};

const CACHE: OptionSchema<CacheOptions> = {
  cache: anObjectOf<AnswerCacheTerms>({ dir: A_TEXT, ttl: CHECKED_LATER, maxBytes: CHECKED_LATER }),
  coalesce: A_TRUTH,
};

const PROGRESS: OptionSchema<ProgressOptions> = {
  onProgress: CHECKED_LATER,
  progressEveryMs: CHECKED_LATER,
};

const FACTOR_RATE: OptionSchema<FactorRate> = {
  floor: AN_AMOUNT,
  laneDiscount: AN_AMOUNT,
  laneFullMinutes: AN_AMOUNT,
  laneHalfMinutes: AN_AMOUNT,
  poolDiscount: AN_AMOUNT,
  poolFullMinutes: AN_AMOUNT,
  poolHalfMinutes: AN_AMOUNT,
  volumeFullTokens: AN_AMOUNT,
  volumeHalfTokens: AN_AMOUNT,
};

const A_POLICY: OptionKind = {
  expected: LANE_POLICIES.map((policy) => `"${policy}"`).join(" or "),
  isValid: (value) => LANE_POLICIES.some((policy) => policy === value),
};

const LANES: OptionKind = anObjectOf<LaneChoices>({ allow: A_LIST, deny: A_LIST });

/** Those of programs. */
export const RUN_OPTIONS: OptionSchema<RunOptions> = {
  ...PROGRESS,
  sla: CHECKED_LATER,
  out: A_TEXT,
  id: A_TEXT,
  ordered: A_TRUTH,
  receipts: A_TEXT,
  format: CHECKED_LATER,
  fields: CHECKED_LATER,
  hedge: A_TRUTH,
  lanes: LANES,
  policy: A_POLICY,
  minOnTime: AN_AMOUNT,
  maxCostUsd: AN_AMOUNT,
  maxCostUnbounded: A_TRUTH,
  cap: CHECKED_LATER,
  retryFailed: CHECKED_LATER,
  update: A_TRUTH,
  prune: A_TRUTH,
  model: A_MODEL,
  signal: A_SIGNAL,
  waitMs: A_WAIT,
  finish: A_TRUTH,
  detach: A_TRUTH,
  pilot: CHECKED_LATER,
  schema: CHECKED_LATER,
  schemaTries: CHECKED_LATER,
  onPilot: A_FUNCTION,
  onHeld: A_FUNCTION,
  onWarning: A_FUNCTION,
  onMissing: A_FUNCTION,
  project: CHECKED_LATER,
  weight: CHECKED_LATER,
  skip: A_FUNCTION,
  ...CACHE,
};

/** With those of the engine's own work. */
export const ENGINE_RUN_OPTIONS: OptionSchema<EngineRunOptions> = {
  ...RUN_OPTIONS,
  caps: CHECKED_LATER,
  accepted: AN_OBJECT,
  volumeTokens: AN_AMOUNT,
  rateCard: anObjectOf<RateCard>({
    standard: anObjectOf<FactorRate>(FACTOR_RATE),
    models: byName(anObjectOf<FactorRate>(FACTOR_RATE)),
    costFloors: AN_OBJECT,
  }),
  standIn: AN_OBJECT,
  keepsDamage: A_TRUTH,
  takenEarlier: A_FUNCTION,
  onStep: A_FUNCTION,
};

export const SUBMIT_OPTIONS: OptionSchema<SubmitOptions> = {
  ...PROGRESS,
  onChunk: A_FUNCTION,
  ...CACHE,
  signal: A_SIGNAL,
  id: A_TEXT,
  schema: CHECKED_LATER,
  schemaTries: CHECKED_LATER,
  retentionDays: AN_AMOUNT,
};

export const RETRY_OPTIONS: OptionSchema<RetryOptions> = {
  ...PROGRESS,
  maxCostUsd: AN_AMOUNT,
  signal: A_SIGNAL,
  codes: CHECKED_LATER,
};

export const RETRY_TASK_OPTIONS: OptionSchema<RetryTaskOptions> = {
  ...PROGRESS,
  signal: A_SIGNAL,
  codes: CHECKED_LATER,
};

export const QUOTE_OPTIONS: OptionSchema<QuoteOptions> = {
  schema: CHECKED_LATER,
  schemaTries: CHECKED_LATER,
  slas: A_LIST,
  model: A_MODEL,
  project: CHECKED_LATER,
  lanes: LANES,
  policy: A_POLICY,
  minOnTime: AN_AMOUNT,
  isPosted: A_TRUTH,
  sizeBytes: AN_AMOUNT,
  modelsMax: AN_AMOUNT,
  onWarning: A_FUNCTION,
  onMissing: A_FUNCTION,
  signal: A_SIGNAL,
};

export const PLAN_OPTIONS: OptionSchema<PlanOptions> = {
  schema: CHECKED_LATER,
  schemaTries: CHECKED_LATER,
  sla: CHECKED_LATER,
  model: A_MODEL,
  project: CHECKED_LATER,
  lanes: LANES,
  policy: A_POLICY,
  minOnTime: AN_AMOUNT,
  maxCostUsd: AN_AMOUNT,
  signal: A_SIGNAL,
};
