/**
 * What a plan says of one model, as a quote takes it: prices relative to realtime, and when the model's items are done.
 */
import type { LanePlan } from "../../price/quote_sla.ts";
import type { GroupPlan } from "../../queue/plan/group_plan.ts";
import { costAt } from "../../queue/plan/lane_outcome.ts";
import type { WorkPlan } from "../../queue/plan/plan.ts";
import { shownFinish } from "./plan.ts";

/** Undefined for a model without items or without realtime. */
export function lanePlanOf(plan: WorkPlan | undefined, model: string): LanePlan | undefined {
  const planned = plan?.groups.find(({ group }) => group.model === model);
  const realtime = planned?.lanes[0];
  if (plan === undefined || planned === undefined || realtime === undefined) return undefined;
  const { group, shares, cost, finish } = planned;
  const full = costAt(realtime.offer, group);
  const part = (usd: number, of: number): number => (of > 0 ? usd / of : 1);
  const lowUsd = shares.reduce(
    (sum, { offer, share }) => sum + share * (offer === undefined ? 0 : costAt(offer, group).expectedUsd),
    0,
  );
  return {
    expectedShare: part(cost.expectedUsd, full.expectedUsd),
    lowShare: part(lowUsd, full.expectedUsd),
    highShare: part(cost.usd90, full.usd90),
    lanes: lanesOf(planned),
    isRealtime: shares.every(({ offer }) => offer?.kind === "realtime"),
    finish: shownFinish(finish, plan.input.nowMs),
  };
}

/** Each lane once: what is rescued and what is not may go in the same one. */
function lanesOf({ group, shares }: GroupPlan): LanePlan["lanes"] {
  const items = new Map<string, number>();
  for (const { offer, share } of shares)
    if (offer !== undefined)
      items.set(offer.name, (items.get(offer.name) ?? 0) + Math.round(share * group.items));
  return [...items].map(([lane, count]) => ({ lane, items: count }));
}
