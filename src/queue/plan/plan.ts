/**
 * Which share of each group of items is answered by which lane, and when. Pure and deterministic; `planner.ts` chooses the lane of
 * one ticket, this decides for all that is known.
 *
 *   a group without a deadline     realtime
 *   a group with one               the lane with the least expected cost (or as the policy says) for as much of it as realtime can
 *                                  still do if that lane has done nothing when it has to take over, and realtime for the rest
 *   what realtime cannot do in time   the lane that is likeliest to be in time, beside it
 *
 *   switch = latest start in realtime, all that may be unfinished included (latest_starts.ts)
 *            - rescue (one answer that may fail once, offer_choice.ts) - cancel and collect
 *
 * So nothing is missed that realtime could do: a batch is a gamble whose stake is time that realtime does not need. Heavy tails
 * cost money only. See docs/decisions/0030-planner.md.
 *
 * Limits: one realtime lane of a model rescues (the cheapest, ties to the first); shares of one group are in at most four lanes.
 * 10,000 groups take some 0.2 s of processor time (`npm run bench -- plan`).
 */
import { type GroupPlan, unsentShare } from "./group_plan.ts";
import { costOf } from "./lane_outcome.ts";
import { type ModelPlan, planModel } from "./model_plan.ts";
import type { PlanGroup, PlanInput } from "./plan_input.ts";
import { joinedTotals, type PlanTotals, totalsOf } from "./plan_totals.ts";

/** What becomes of all groups. */
export interface WorkPlan extends PlanTotals {
  /** What it was made from. */
  readonly input: PlanInput;
  /** In the order of the input. */
  readonly groups: readonly GroupPlan[];
  /** The plans of models, before it is known what there is money for. */
  readonly models: ReadonlyMap<string, ModelPlan>;
}

const NEVER = Number.POSITIVE_INFINITY;

/** Plans all groups. Throws nothing: a model without lanes has shares without an offer. */
export function planWork(input: PlanInput): WorkPlan {
  const models = new Map<string, ModelPlan>();
  for (const [model, groups] of byModel(input.groups)) models.set(model, planModel(input, groups, model));
  return planOf(input, models);
}

/** Groups by their model, in the order of the input. */
export function byModel(groups: readonly PlanGroup[]): ReadonlyMap<string, readonly PlanGroup[]> {
  const models = new Map<string, PlanGroup[]>();
  for (const group of groups) {
    const own = models.get(group.model);
    if (own === undefined) models.set(group.model, [group]);
    else own.push(group);
  }
  return models;
}

/** Joins the plans of models, and leaves waiting what there is no money for: the latest deadlines. */
export function planOf(input: PlanInput, models: ReadonlyMap<string, ModelPlan>): WorkPlan {
  const unpaid = unpaidShares(input, models);
  const groups = input.groups.map((group) => {
    const planned = plannedIn(models, group);
    const share = unpaid.get(group.id);
    return share === undefined ? planned : withoutMoney(planned, share, input.nowMs);
  });
  const totals = [...models.values()].map((model) => model.totals);
  return {
    input,
    groups,
    models,
    ...joinedTotals(unpaid.size === 0 ? totals : groups.map((planned) => totalsOf([planned]))),
  };
}

function plannedIn(models: ReadonlyMap<string, ModelPlan>, group: PlanGroup): GroupPlan {
  const planned = models.get(group.model)?.plans.get(group.id);
  if (planned === undefined) throw new Error(`group ${group.id} was not planned`);
  return planned;
}

/** The part of each group that the money does not reach, where it is above 0. */
function unpaidShares(input: PlanInput, models: ReadonlyMap<string, ModelPlan>): ReadonlyMap<string, number> {
  const unpaid = new Map<string, number>();
  if (input.moneyLeftUsd === undefined) return unpaid;
  let leftUsd = input.moneyLeftUsd;
  for (const group of input.groups.toSorted((left, right) => (left.deadlineMs < right.deadlineMs ? -1 : 1))) {
    const { usd90 } = plannedIn(models, group).cost;
    const paid = usd90 <= leftUsd ? group.items : Math.floor((group.items * leftUsd) / usd90);
    if (paid < group.items) unpaid.set(group.id, 1 - paid / group.items);
    leftUsd = Math.max(0, leftUsd - (usd90 * paid) / group.items);
  }
  return unpaid;
}

function withoutMoney(planned: GroupPlan, unpaid: number, nowMs: number): GroupPlan {
  const paid = 1 - unpaid;
  const waits = unsentShare(unpaid, nowMs, "no_money");
  const kept = planned.shares.map((share) => ({
    ...share,
    share: share.share * paid,
    cost: costOf(share.cost, paid),
  }));
  return {
    ...planned,
    shares: paid > 0 ? [...kept, waits] : [waits],
    onTime: planned.onTime * paid,
    cost: costOf(planned.cost, paid),
    finish: { ...planned.finish, lateMs: NEVER },
  };
}
