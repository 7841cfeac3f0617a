/**
 * A plan that follows what happens: only models that changed by more than 5 % are planned again. Pure.
 *
 * Changes are counted against what the plan was made from, so many small ones add up. A new group, another deadline, another lane, price
 * or chance of a latency, and a switch that has come are changes however small: they decide where items go.
 */

import { type ModelPlan, planModel } from "../../../src/queue/plan/model_plan.ts";
import { byModel, planOf, type WorkPlan } from "../../../src/queue/plan/plan.ts";
import type { PlanGroup, PlanInput, PlanOffer } from "../../../src/queue/plan/plan_input.ts";

const CHANGE_MIN = 0.05;
/** At which a latency's distribution is compared. */
const COMPARED_SHARES = [0.5, 0.9, 0.99] as const;

/**
 * The plan for `input`: the same object where nothing changed by more than 5 %, and groups that are gone are left in it until then.
 * Plans of models that did not change are kept.
 */
export function replan(plan: WorkPlan, input: PlanInput): WorkPlan {
  const isOther =
    input.policy !== plan.input.policy ||
    input.minOnTime !== plan.input.minOnTime ||
    isChanged(plan.input.moneyLeftUsd, input.moneyLeftUsd);
  if (isOther) return withModels(plan, input, byModel(input.groups), () => true);
  const now = byModel(input.groups);
  const changed = new Set<string>();
  for (const model of new Set([...plan.models.keys(), ...now.keys()])) {
    const before = plan.models.get(model);
    if (
      input.nowMs >= (before?.totals.nextSwitchMs ?? Number.POSITIVE_INFINITY) ||
      areOtherOffers(plan.input.offers.get(model), input.offers.get(model)) ||
      areOtherGroups(before, now.get(model) ?? [])
    )
      changed.add(model);
  }
  return changed.size === 0 ? plan : withModels(plan, input, now, (model) => changed.has(model));
}

/** Of models that are not planned again, groups that are new in the input cannot be: they would have changed it. */
function withModels(
  plan: WorkPlan,
  input: PlanInput,
  now: ReadonlyMap<string, readonly PlanGroup[]>,
  isPlanned: (model: string) => boolean,
): WorkPlan {
  const models = new Map<string, ModelPlan>();
  for (const [model, groups] of now) {
    const kept = isPlanned(model) ? undefined : plan.models.get(model);
    models.set(model, kept ?? planModel(input, groups, model));
  }
  return planOf(input, models);
}

function areOtherGroups(before: ModelPlan | undefined, now: readonly PlanGroup[]): boolean {
  if (before === undefined) return true;
  let [total, left, moved] = [0, 0, 0];
  for (const { items } of before.groups) total += items;
  for (const group of now) {
    const old = before.plans.get(group.id)?.group;
    if (old === undefined || old.deadlineMs !== group.deadlineMs) return true;
    left += old.items;
    if (old === group) continue;
    moved += Math.abs(group.items - old.items);
    if (areOtherTokens(old, group)) return true;
  }
  return moved + (total - left) > CHANGE_MIN * total;
}

/** Tokens of an item. */
function areOtherTokens(before: PlanGroup, now: PlanGroup): boolean {
  return (
    isChanged(before.inputTokens / before.items, now.inputTokens / now.items) ||
    isChanged(before.outputTokens / before.items, now.outputTokens / now.items)
  );
}

function areOtherOffers(before: readonly PlanOffer[] = [], now: readonly PlanOffer[] = []): boolean {
  if (before === now) return false;
  if (before.length !== now.length) return true;
  return now.some((offer, index) => isOtherOffer(before[index] as PlanOffer, offer));
}

function isOtherOffer(before: PlanOffer, now: PlanOffer): boolean {
  if (before === now) return false;
  if (before.name !== now.name || before.priceFactor !== now.priceFactor) return true;
  if (before.usdPerInputToken !== now.usdPerInputToken) return true;
  if (before.usdPerOutputToken !== now.usdPerOutputToken) return true;
  if (before.hours?.fromMs !== now.hours?.fromMs || before.hours?.untilMs !== now.hours?.untilMs) return true;
  if (
    COMPARED_SHARES.some((share) =>
      isChanged(before.latency.quantileMs(share), now.latency.quantileMs(share)),
    )
  )
    return true;
  return areOtherNumbers(before.capacity, now.capacity) || areOtherNumbers(before.batch, now.batch);
}

/** Of two objects of numbers and texts. */
function areOtherNumbers(before: object | undefined, now: object | undefined): boolean {
  const old = new Map<string, unknown>(Object.entries(before ?? {}));
  const names = new Set([...old.keys(), ...Object.keys(now ?? {})]);
  const read = new Map<string, unknown>(Object.entries(now ?? {}));
  return [...names].some((name) => {
    const [was, is] = [old.get(name), read.get(name)];
    return typeof was === "number" && typeof is === "number" ? isChanged(was, is) : was !== is;
  });
}

function isChanged(before: number | undefined, now: number | undefined): boolean {
  if (before === now) return false;
  if (before === undefined || now === undefined) return true;
  return !(Math.abs(now - before) <= CHANGE_MIN * Math.abs(before));
}
