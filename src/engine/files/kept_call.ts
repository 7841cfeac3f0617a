/**
 * What is stored of a run's last call besides the terms of its task, so that `engine.retry` repeats it.
 *
 * Each option of a run is of one kind; a test compares the list with all options:
 *
 *   of the task   sla, out, id, ordered, format, model, volumeTokens: in its name or its body
 *   kept          those below
 *   of one call   listeners, signals, and what says which lines run
 */
import type { RateCard } from "../../price/factor.ts";
import type { LaneChoices, LanePolicy } from "../../queue/lane_choice.ts";
import type { JsonObject } from "../../work/json.ts";
import type { LineField } from "../../work/line_layout.ts";
import type { AnswerCacheTerms } from "../config/cache_terms.ts";
import type { CapTerms } from "./cap_terms.ts";

/** Options of a run, as they are stored. */
export interface KeptCall {
  readonly maxCostUsd?: number;
  readonly cap?: CapTerms;
  readonly maxCostUnbounded?: boolean;
  readonly hedge?: boolean;
  readonly lanes?: LaneChoices;
  readonly policy?: LanePolicy;
  readonly minOnTime?: number;
  readonly fields?: readonly LineField[];
  readonly waitMs?: number;
  readonly finish?: boolean;
  readonly receipts?: string;
  readonly project?: string;
  readonly weight?: number;
  readonly rateCard?: RateCard;
  readonly cache?: AnswerCacheTerms;
  readonly coalesce?: boolean;
  /** As providers are asked for it. */
  readonly schema?: JsonObject | boolean;
  readonly schemaTries?: number;
  /** Only to know whether the caller was to be asked before the rest. */
  readonly pilot?: number;
}

/** The largest number in place of infinity, which JSON does not have. */
const WITHOUT_END = Number.MAX_VALUE;

const NAMES = Object.keys({
  maxCostUsd: true,
  cap: true,
  maxCostUnbounded: true,
  hedge: true,
  lanes: true,
  policy: true,
  minOnTime: true,
  fields: true,
  waitMs: true,
  finish: true,
  receipts: true,
  project: true,
  weight: true,
  rateCard: true,
  cache: true,
  coalesce: true,
  schema: true,
  schemaTries: true,
  pilot: true,
} satisfies Record<keyof KeptCall, true>);

/** What is kept of these options. */
export function keptCall(options: KeptCall): KeptCall {
  const given = Object.entries(options).filter(
    ([name, value]) => NAMES.includes(name) && value !== undefined,
  );
  const kept = given.map(([name, value]) => [name, value === Number.POSITIVE_INFINITY ? WITHOUT_END : value]);
  return Object.fromEntries(kept); // of the same names, and values of the same kinds
}
