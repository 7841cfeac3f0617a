/**
 * The plan of what a source holds: its items as groups, what is sold for them, and what the planner makes of both (queue/plan).
 *
 *   a group = the items of one model: one sla holds for all of a call
 *
 * What waits in the engine already and is due by then is before them, and batches that run use what their providers take.
 */
import { Z95 } from "../../price/band.ts";
import type { ModelTotals } from "../../price/quote.ts";
import { planWork, type WorkPlan } from "../../queue/plan/plan.ts";
import type { PlanGroup, PlanOffer } from "../../queue/plan/plan_input.ts";
import type { LaneRules } from "../config/lane_rules.ts";
import type { EngineCore } from "../core.ts";
import type { LaneShares } from "../lanes/work_times.ts";
import type { ExpectedUsage, ModelWork } from "../learnt/expected_usage.ts";
import { planOffers } from "./plan_offers.ts";

const MINUTE_MS = 60_000;
/** The distance of a 90th percentile, in standard deviations; that of the ends of a learnt band is `Z95`. */
const Z90 = 1.2815515655446004;

/** What a plan is made for. */
export interface PlanTerms {
  readonly slaMinutes: number | undefined;
  readonly rules: LaneRules;
  readonly project?: string;
  readonly maxCostUsd?: number;
}

/** Plans what was counted, from now on. Sends nothing. */
export function planUsage(core: EngineCore, usage: ExpectedUsage, terms: PlanTerms): WorkPlan {
  const { slaMinutes, rules, project = "default", maxCostUsd } = terms;
  const nowMs = core.storage.clock.nowMs();
  const deadlineMs = slaMinutes === undefined ? Number.POSITIVE_INFINITY : nowMs + slaMinutes * MINUTE_MS;
  const works = usage.works();
  const rows = rowsByModel(usage.totals());
  const shares = sharesOf(core, works);
  const offers = new Map<string, readonly PlanOffer[]>();
  const groups: PlanGroup[] = [];
  for (const work of works) {
    const { model, items, inputTokens, outputTokens } = work;
    const own = rows.get(model) ?? [];
    const share = shares.get(model) ?? WHOLE;
    offers.set(model, planOffers(core, { work, rows: own, shares: share, rules, deadlineMs }));
    const outputTokens90 = output90(own);
    groups.push({ id: model, model, project, deadlineMs, items, inputTokens, outputTokens, outputTokens90 });
  }
  return planWork({
    nowMs,
    groups: groups.filter(({ items }) => items > 0),
    offers,
    policy: rules.policy,
    minOnTime: rules.minOnTime,
    ...(maxCostUsd === undefined ? {} : { moneyLeftUsd: maxCostUsd }),
  });
}

const WHOLE: LaneShares = { items: 1, inputTokens: 1, outputTokens: 1 };

function rowsByModel(totals: readonly ModelTotals[]): ReadonlyMap<string, readonly ModelTotals[]> {
  const rows = new Map<string, ModelTotals[]>();
  for (const row of totals) rows.set(row.model, [...(rows.get(row.model) ?? []), row]);
  return rows;
}

/** The 90th percentile of all output: what is learnt errs independently, and otherwise the limits count. */
function output90(rows: readonly ModelTotals[]): number {
  let [expected, squares, others] = [0, 0, 0];
  for (const { expectedOutputTokens, outputTokensHigh, basis } of rows) {
    expected += expectedOutputTokens;
    const above = outputTokensHigh - expectedOutputTokens;
    if (basis === "default") others += above;
    else squares += above ** 2;
  }
  return expected + (Math.sqrt(squares) * Z90) / Z95 + others;
}

/** The part of limits that each model's work has beside the others that are in its lane, or share its provider's limits. */
function sharesOf(core: EngineCore, works: readonly ModelWork[]): ReadonlyMap<string, LaneShares> {
  const { lanes, sender } = core.sending;
  const placeOf = ({ model }: ModelWork): string => {
    const { provider, key } = sender.models.of(model);
    return lanes.sharesLimits(provider) ? provider : key;
  };
  const sums = new Map<string, { items: number; inputTokens: number; outputTokens: number }>();
  for (const work of works) {
    const sum = sums.get(placeOf(work)) ?? { items: 0, inputTokens: 0, outputTokens: 0 };
    sum.items += work.requests;
    sum.inputTokens += work.inputTokens;
    sum.outputTokens += work.outputTokens;
    sums.set(placeOf(work), sum);
  }
  return new Map(
    works.map((work) => {
      const own = { ...work, items: work.requests };
      const sum = sums.get(placeOf(work)) ?? own;
      const share = (name: keyof LaneShares): number => (sum[name] > 0 ? own[name] / sum[name] : 1);
      return [
        work.model,
        { items: share("items"), inputTokens: share("inputTokens"), outputTokens: share("outputTokens") },
      ];
    }),
  );
}
