/**
 * A plan as its callers see it: which lane answers what, from when until when, why, what that costs, and what each other lane would
 * cost. Plain data with the names of the interface; `perigee plan --json` prints it.
 *
 * Times are seconds from `planned_at`; null stands for never, or not at all.
 */
import { roundedUsd } from "../../price/cost.ts";
import type { PriceChange } from "../../price/price_change.ts";
import type { QuoteFault } from "../../price/quote.ts";
import type { LanePolicy } from "../../queue/lane_choice.ts";
import type { GroupPlan, PlanReason, PlanShare } from "../../queue/plan/group_plan.ts";
import type { PlanFinish as FinishTimes, LaneOutcome, PlanCost } from "../../queue/plan/lane_outcome.ts";
import type { WorkPlan } from "../../queue/plan/plan.ts";

/** When work is expected to be done; in 80 of 100 cases between `early_seconds` and `late_seconds`. */
export interface PlannedFinish {
  readonly expected_seconds: number | null;
  readonly early_seconds: number | null;
  readonly late_seconds: number | null;
}

/** A part of a model's items in one lane. */
export interface PlannedShare {
  /** `<provider>:<kind>`; null: it waits, for the reason that `why` names. */
  readonly lane: string | null;
  readonly items: number;
  readonly why: PlanReason;
  readonly start_seconds: number;
  /** When realtime takes over what is not done; null where nothing does. */
  readonly switch_seconds: number | null;
  /** The part of it that the lane is expected to have done by then, 0 to 1. */
  readonly done_share: number;
  /** The chance that an item is on time, 0 to 1. */
  readonly on_time: number;
  /** Null without a known price. */
  readonly expected_usd: number | null;
  /** Not exceeded in 90 of 100 cases. */
  readonly usd_90: number | null;
  readonly finish: PlannedFinish;
}

/** All items of a model in one lane. */
export interface PlannedLane {
  readonly lane: string;
  readonly done_share: number;
  readonly on_time: number;
  readonly expected_usd: number | null;
  readonly usd_90: number | null;
  readonly switch_seconds: number | null;
  readonly finish: PlannedFinish;
}

/** What becomes of the items of a model. */
export interface PlannedModel {
  readonly model: string;
  readonly items: number;
  readonly input_tokens: number;
  readonly expected_output_tokens: number;
  readonly on_time: number;
  readonly expected_usd: number | null;
  readonly usd_90: number | null;
  readonly finish: PlannedFinish;
  readonly shares: readonly PlannedShare[];
  /** What all of it would be in each lane that it may use; realtime first. */
  readonly lanes: readonly PlannedLane[];
}

/** What becomes of all items. Sums are of models with a known price. */
export interface Plan {
  readonly object: "plan";
  readonly currency: "usd";
  /** ISO time. */
  readonly planned_at: string;
  readonly sla_minutes: number | null;
  readonly policy: LanePolicy;
  readonly min_on_time: number;
  readonly items: number;
  /** Lines that would fail before anything is sent; not among the items. */
  readonly rejected_lines: number;
  /** The first of them; absent without any. */
  readonly first_fault?: QuoteFault;
  readonly expected_usd: number;
  readonly usd_90: number;
  /** All of it in realtime. */
  readonly realtime_usd: number;
  /** `learnt n=<answers>` or `ceiling`: what the expected output is based on. */
  readonly basis: string;
  /** Of the model with the least. */
  readonly on_time: number;
  readonly finish: PlannedFinish;
  /** The first moment at which realtime may take something over; null without one. */
  readonly next_switch_seconds: number | null;
  /** Of prices that are known to change until the deadline, the next of each model first. */
  readonly price_changes: readonly PriceChange[];
  readonly unpriced_models: readonly string[];
  readonly models: readonly PlannedModel[];
}

/** What a plan does not say itself. */
export interface PlanFrame
  extends Pick<
    Plan,
    "planned_at" | "sla_minutes" | "policy" | "min_on_time" | "rejected_lines" | "basis" | "price_changes"
  > {
  readonly first_fault?: QuoteFault;
  readonly unpriced: ReadonlySet<string>;
}

/** A plan as data. */
export function shownPlan(plan: WorkPlan, { unpriced, ...frame }: PlanFrame): Plan {
  const { nowMs } = plan.input;
  const models = plan.groups.map((group) => shownModel(group, nowMs, !unpriced.has(group.group.model)));
  const sum = (of: (model: PlannedModel) => number | null): number =>
    roundedUsd(models.reduce((total, model) => total + (of(model) ?? 0), 0));
  return {
    object: "plan",
    currency: "usd",
    ...frame,
    items: models.reduce((total, { items }) => total + items, 0),
    expected_usd: sum((model) => model.expected_usd),
    usd_90: sum((model) => model.usd_90),
    realtime_usd: sum((model) => model.lanes[0]?.expected_usd ?? null),
    on_time: plan.onTime,
    finish: shownFinish(plan.finish, nowMs),
    next_switch_seconds: secondsAt(plan.nextSwitchMs, nowMs),
    unpriced_models: [...unpriced],
    models,
  };
}

function shownModel(planned: GroupPlan, nowMs: number, isPriced: boolean): PlannedModel {
  const { group, shares, lanes, onTime, cost, finish } = planned;
  return {
    model: group.model,
    items: group.items,
    input_tokens: Math.round(group.inputTokens),
    expected_output_tokens: Math.round(group.outputTokens),
    on_time: onTime,
    ...shownCost(cost, isPriced),
    finish: shownFinish(finish, nowMs),
    shares: shares.map((share) => shownShare(share, group.items, nowMs, isPriced)),
    lanes: lanes.map((lane) => shownLane(lane, nowMs, isPriced)),
  };
}

function shownShare(share: PlanShare, items: number, nowMs: number, isPriced: boolean): PlannedShare {
  return {
    lane: share.offer?.name ?? null,
    items: Math.round(share.share * items),
    why: share.why,
    start_seconds: secondsAt(share.startMs, nowMs) ?? 0,
    switch_seconds: secondsAt(share.switchMs, nowMs),
    done_share: share.doneShare,
    on_time: share.onTime,
    ...shownCost(share.cost, isPriced),
    finish: shownFinish(share.finish, nowMs),
  };
}

function shownLane(lane: LaneOutcome, nowMs: number, isPriced: boolean): PlannedLane {
  return {
    lane: lane.offer.name,
    done_share: lane.doneShare,
    on_time: lane.onTime,
    ...shownCost(lane.cost, isPriced),
    switch_seconds: secondsAt(lane.switchMs, nowMs),
    finish: shownFinish(lane.finish, nowMs),
  };
}

function shownCost({ expectedUsd, usd90 }: PlanCost, isPriced: boolean) {
  return {
    expected_usd: isPriced ? roundedUsd(expectedUsd) : null,
    usd_90: isPriced ? roundedUsd(usd90) : null,
  };
}

/** Of a plan's times. */
export function shownFinish({ expectedMs, earlyMs, lateMs }: FinishTimes, nowMs: number): PlannedFinish {
  return {
    expected_seconds: secondsAt(expectedMs, nowMs),
    early_seconds: secondsAt(earlyMs, nowMs),
    late_seconds: secondsAt(lateMs, nowMs),
  };
}

/** Tenths of a second from now; null for what is not finite. */
function secondsAt(atMs: number, nowMs: number): number | null {
  return Number.isFinite(atMs) ? Math.ceil(Math.max(0, atMs - nowMs) / 100) / 10 : null;
}
