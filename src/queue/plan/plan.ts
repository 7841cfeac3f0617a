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
 * 10,000 groups take some 100 ms (`npm run bench -- plan`).
 */
import type { GroupPlan, PlanShare } from "./group_plan.ts";
import { costOf, type PlanCost, type PlanFinish } from "./lane_outcome.ts";
import { type ModelShares, planModel } from "./model_plan.ts";
import type { PlanGroup, PlanInput } from "./plan_input.ts";

/** What becomes of all groups. */
export interface WorkPlan {
  /** What it was made from. */
  readonly input: PlanInput;
  /** In the order of the input. */
  readonly groups: readonly GroupPlan[];
  readonly cost: PlanCost;
  /** Everything in realtime, where there is realtime. */
  readonly realtimeUsd: number;
  /** The least of all groups. */
  readonly onTime: number;
  /** Of the group that ends last. */
  readonly finish: PlanFinish;
  /** The first moment at which realtime may have to take over something; Infinity without one. */
  readonly nextSwitchMs: number;
}

const NEVER = Number.POSITIVE_INFINITY;

/** Plans all groups. Throws nothing: a model without lanes has shares without an offer. */
export function planWork(input: PlanInput): WorkPlan {
  return planOf(
    input,
    new Map([...byModel(input.groups)].map(([model, groups]) => [model, planModel(input, groups, model)])),
  );
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
export function planOf(input: PlanInput, models: ReadonlyMap<string, ModelShares>): WorkPlan {
  const unpaid = input.moneyLeftUsd === undefined ? undefined : unpaidShares(input, models);
  const groups = input.groups.map((group) => {
    const planned = models.get(group.model)?.get(group.id);
    if (planned === undefined) throw new Error(`group ${group.id} was not planned`);
    const share = unpaid?.get(group.id);
    return share === undefined ? planned : withoutMoney(planned, share, input.nowMs);
  });
  return { input, groups, ...totalsOf(groups) };
}

function totalsOf(groups: readonly GroupPlan[]): Omit<WorkPlan, "input" | "groups"> {
  let [expectedUsd, usd90, realtimeUsd, onTime] = [0, 0, 0, 1];
  let [expectedMs, earlyMs, lateMs] = [0, 0, 0];
  let nextSwitchMs = Number.POSITIVE_INFINITY;
  for (const { cost, onTime: chance, finish, lanes, shares } of groups) {
    expectedUsd += cost.expectedUsd;
    usd90 += cost.usd90;
    realtimeUsd += lanes.find(({ offer }) => offer.kind === "realtime")?.cost.expectedUsd ?? 0;
    onTime = Math.min(onTime, chance);
    expectedMs = Math.max(expectedMs, finish.expectedMs);
    earlyMs = Math.max(earlyMs, finish.earlyMs);
    lateMs = Math.max(lateMs, finish.lateMs);
    for (const { switchMs } of shares) nextSwitchMs = Math.min(nextSwitchMs, switchMs);
  }
  return {
    cost: { expectedUsd, usd90 },
    realtimeUsd,
    onTime,
    finish: { expectedMs, earlyMs, lateMs },
    nextSwitchMs,
  };
}

/** The part of each group that the money does not reach, where it is above 0. */
function unpaidShares(
  input: PlanInput,
  models: ReadonlyMap<string, ModelShares>,
): ReadonlyMap<string, number> {
  const unpaid = new Map<string, number>();
  let leftUsd = input.moneyLeftUsd ?? Number.POSITIVE_INFINITY;
  for (const group of input.groups.toSorted((left, right) => left.deadlineMs - right.deadlineMs)) {
    const usd90 = models.get(group.model)?.get(group.id)?.cost.usd90 ?? 0;
    const paid = usd90 <= leftUsd ? group.items : Math.floor((group.items * leftUsd) / usd90);
    if (paid < group.items) unpaid.set(group.id, 1 - paid / group.items);
    leftUsd = Math.max(0, leftUsd - (usd90 * paid) / group.items);
  }
  return unpaid;
}

function withoutMoney(planned: GroupPlan, unpaid: number, nowMs: number): GroupPlan {
  const paid = 1 - unpaid;
  const waits: PlanShare = {
    offer: undefined,
    share: unpaid,
    startMs: nowMs,
    switchMs: NEVER,
    doneShare: 0,
    onTime: 0,
    cost: { expectedUsd: 0, usd90: 0 },
    finish: { expectedMs: NEVER, earlyMs: NEVER, lateMs: NEVER },
    why: "no_money",
  };
  return {
    ...planned,
    shares: [
      ...(paid > 0
        ? planned.shares.map((share) => ({
            ...share,
            share: share.share * paid,
            cost: costOf(share.cost, paid),
          }))
        : []),
      waits,
    ],
    onTime: planned.onTime * paid,
    cost: costOf(planned.cost, paid),
    finish: { ...planned.finish, lateMs: NEVER },
  };
}
