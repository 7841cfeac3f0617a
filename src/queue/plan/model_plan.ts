/**
 * The plan of one model: its groups in the order of their deadlines, forwards and then backwards. Pure.
 *
 *   forwards    what realtime can do of each group by its deadline, after all that is due before it
 *   backwards   from the last deadline: as much of that as may wait for a cheaper lane, so that realtime can still do all of it
 *               (latest_starts.ts); the rest stays in realtime from now on
 *
 * Backwards, the latest deadlines have the first choice: a gamble is worth the more, the longer it may last.
 */

import type { DueLoad } from "../due_work.ts";
import { rescueMs } from "../offer_choice.ts";
import {
  type GroupPlan,
  joined,
  type PlanReason,
  type PlanShare,
  realtimeShare,
  shareIn,
} from "./group_plan.ts";
import { compareOutcomes, isWorthTheWait } from "./lane_order.ts";
import {
  costAt,
  costIn,
  doneIn,
  firstDoneTimes,
  type LaneOutcome,
  laneOutcome,
  overloadedOutcome,
  partlyRescued,
  type RescueTimes,
  realtimeOutcome,
} from "./lane_outcome.ts";
import { LaneStock } from "./lane_stock.ts";
import { EarliestEnds, growthMs, LatestStarts, partOf } from "./latest_starts.ts";
import type { PlanGroup, PlanInput, PlanOffer } from "./plan_input.ts";
import { type PlanTotals, totalsOf } from "./plan_totals.ts";

/** What becomes of a model's groups. */
export interface ModelPlan {
  /** What it was made from. */
  readonly groups: readonly PlanGroup[];
  /** By the id of their groups. */
  readonly plans: ReadonlyMap<string, GroupPlan>;
  readonly totals: PlanTotals;
}

/** Work in so many batches moves to realtime one batch at a time. */
const STAGES_MIN = 4;
const STAGE_ROUNDS = 4;
/** Where so much is done before the first batch is left, the later ones add little. */
const SURE = 0.9;
const MIN_ON_TIME = 0.99;
const NEVER = Number.POSITIVE_INFINITY;

/** Plans the groups of a model; a lane that would have fewer than its least items is not used. */
export function planModel(input: PlanInput, groups: readonly PlanGroup[], model: string): ModelPlan {
  let offers = input.offers.get(model) ?? [];
  for (;;) {
    const planner = new ModelPlanner(input, groups, offers);
    const plans = planner.plan();
    const short = planner.offerWithTooFew();
    if (short === undefined) return { groups, plans, totals: totalsOf(plans.values()) };
    offers = offers.filter((offer) => offer !== short);
  }
}

class ModelPlanner {
  readonly #input: PlanInput;
  /** By deadline. */
  readonly #groups: readonly PlanGroup[];
  readonly #realtime: PlanOffer | undefined;
  readonly #cheaper: readonly PlanOffer[];
  readonly #stock = new LaneStock();
  /** Of each group: all work that is due by its deadline, itself included. */
  readonly #due: readonly DueLoad[];
  /** What may wait, laid backwards. */
  readonly #starts: LatestStarts;
  /** Kept behind the last request, and before a capacity that has to grow first. */
  readonly #rescueMs: number;
  readonly #growthMs: number;

  constructor(input: PlanInput, groups: readonly PlanGroup[], offers: readonly PlanOffer[]) {
    this.#input = input;
    this.#groups = groups.toSorted(
      (left, right) => compare(left.deadlineMs, right.deadlineMs) || compare(left.id, right.id),
    );
    this.#realtime = offers
      .filter(({ kind }) => kind === "realtime")
      .reduce<PlanOffer | undefined>(
        (best, offer) => (best === undefined || offer.priceFactor < best.priceFactor ? offer : best),
        undefined,
      );
    this.#cheaper = offers.filter(({ kind }) => kind !== "realtime");
    let sum: DueLoad = { items: 0, inputTokens: 0, outputTokens: 0 };
    this.#due = this.#groups.map(({ items, inputTokens, outputTokens }) => {
      sum = {
        items: sum.items + items,
        inputTokens: sum.inputTokens + inputTokens,
        outputTokens: sum.outputTokens + outputTokens,
      };
      return sum;
    });
    const capacity = this.#realtime?.capacity ?? { itemMs: 0 };
    this.#starts = new LatestStarts(capacity);
    this.#rescueMs = rescueMs(this.#realtime?.latency.quantileMs(0.99));
    this.#growthMs = growthMs(sum, capacity);
  }

  plan(): ReadonlyMap<string, GroupPlan> {
    const sent = this.#forwards();
    const plans = new Map<string, GroupPlan>();
    for (let index = this.#groups.length - 1; index >= 0; index -= 1) {
      const group = this.#groups[index] as PlanGroup;
      plans.set(group.id, this.#planGroup(group, index, sent[index] as SentInRealtime));
    }
    return plans;
  }

  /** The first lane that was given less than its least. */
  offerWithTooFew(): PlanOffer | undefined {
    return this.#cheaper.find((offer) => {
      const items = this.#stock.itemsIn(offer);
      return items > 0 && items < (offer.batch?.minItems ?? 1);
    });
  }

  /** What realtime can do, were it all sent there by earliest deadline. */
  #forwards(): readonly SentInRealtime[] {
    const realtime = this.#realtime;
    if (realtime === undefined) return this.#groups.map(() => ({ fits: 0, sentMs: NEVER, allMs: NEVER }));
    const ends = new EarliestEnds(realtime.capacity, this.#input.nowMs + this.#growthMs);
    const answerMs = realtime.latency.quantileMs(0.5);
    return this.#groups.map((group) => {
      const by = ends.shareBy(group, group.deadlineMs - answerMs);
      const fits = by >= 1 || this.#cheaper.length === 0 ? 1 : wholeItems(by, group);
      return { fits, allMs: ends.endOf(group), sentMs: ends.add(partOf(group, fits)) };
    });
  }

  #planGroup(group: PlanGroup, index: number, { fits, sentMs, allMs }: SentInRealtime): GroupPlan {
    const { nowMs, policy = "cheapest" } = this.#input;
    const shares: PlanShare[] = [];
    const realtime = this.#realtime && realtimeOutcome(this.#realtime, group, sentMs);
    const best = this.#cheaper.map((offer) => this.#bestShare(offer, group, index, fits));
    const lanes = this.#cheaper.map(
      (offer, lane) => best[lane]?.outcome ?? this.#outcomeIn(offer, group, index, fits),
    );
    const all = this.#inEachLane(group, index, { fits, allMs, realtime, lanes });
    let left = 1 - fits;
    for (const { outcome, share } of this.#beyondRealtime(group, index, left)) {
      shares.push(
        shareIn(outcome, share, nowMs, realtime === undefined ? policyReason(policy) : "beyond_realtime"),
      );
      left -= share;
    }
    let stays = fits;
    let why: PlanReason = "no_deadline";
    if (realtime !== undefined && fits > 0 && group.deadlineMs !== Number.POSITIVE_INFINITY) {
      const worth = lanes
        .filter((lane) => isWorthTheWait(lane, realtime, policy))
        .toSorted((one, other) => compareOutcomes(one, other, policy));
      for (const { offer } of worth) {
        const taken = this.#gamble(offer, group, index, stays, stays === fits ? best : []);
        if (taken === undefined) continue;
        shares.push(shareIn(taken.outcome, taken.share, nowMs, policyReason(policy)));
        stays = Math.max(0, stays - taken.share);
      }
      why = this.#whyRealtime(worth, shares, policy);
    }
    const open = wholeItems(stays + left + 1e-9, group);
    if (open > 0) shares.push(realtimeShare(realtime, open, nowMs, left > 1e-9 ? "beyond_realtime" : why));
    return joined(group, shares, all);
  }

  /** All of a group in each lane: for the explanation. Realtime cannot do all of an overload in time, nor rescue all of it. */
  #inEachLane(
    group: PlanGroup,
    index: number,
    { fits, allMs, realtime, lanes }: InEachLane,
  ): readonly LaneOutcome[] {
    if (realtime === undefined) return lanes;
    if (fits >= 1) return [realtime, ...lanes];
    return [
      overloadedOutcome(realtime, group, fits, allMs),
      ...lanes.map((lane) => partlyRescued(lane, this.#alone(lane.offer, group, index), fits)),
    ];
  }

  /** All of a group in a cheaper lane that realtime would take over from at once, or before. */
  #outcomeIn(offer: PlanOffer, group: PlanGroup, index: number, fits: number): LaneOutcome {
    const part = partOf(group, fits);
    const startMs = this.#starts.startMs(part, this.#rescueEndMs(group));
    return this.#rescued(offer, group, index, { startMs, part });
  }

  /** Lets as much of a group wait in a lane as saves most and can be rescued, and as the lane takes. */
  #gamble(
    offer: PlanOffer,
    group: PlanGroup,
    index: number,
    stays: number,
    known: readonly (TakenShare | undefined)[],
  ): TakenShare | undefined {
    const left = this.#stock.shareLeft(offer, group);
    const whole = left >= stays ? known.find((taken) => taken?.outcome.offer === offer) : undefined;
    const best = whole ?? this.#bestShare(offer, group, index, Math.min(stays, left));
    if (best === undefined) return undefined;
    this.#stock.take(offer, group, best.share);
    this.#starts.add(partOf(group, best.share), this.#rescueEndMs(group));
    return best;
  }

  /** The less waits, the longer it may: of a few such shares of a group, up to `most`, the one that saves most. */
  #bestShare(offer: PlanOffer, group: PlanGroup, index: number, most: number): TakenShare | undefined {
    const endMs = this.#rescueEndMs(group);
    const load = partOf(group, most);
    let best: TakenShare | undefined;
    let bestUsd = 0;
    for (const earliestMs of firstDoneTimes(offer, this.#input.nowMs)) {
      const possible = this.#starts.shareFrom(load, endMs, earliestMs + this.#growthMs);
      const share = wholeItems(most * Math.min(1, possible), group);
      if (share <= 0 || share <= (best?.share ?? 0)) continue;
      const part = partOf(group, share);
      const startMs = this.#starts.startMs(part, endMs);
      const outcome = this.#rescued(offer, group, index, { startMs, part });
      const savedUsd = share * (this.#realtimeUsd(group) - outcome.cost.expectedUsd);
      if (best === undefined || savedUsd > bestUsd) [best, bestUsd] = [{ outcome, share }, savedUsd];
      if (possible >= 1) break;
    }
    return best;
  }

  #realtimeUsd(group: PlanGroup): number {
    return this.#realtime === undefined ? 0 : costAt(this.#realtime, group).expectedUsd;
  }

  /** What realtime cannot do in time: the likeliest lanes first. Nothing rescues it. */
  #beyondRealtime(group: PlanGroup, index: number, beyond: number): readonly TakenShare[] {
    if (beyond <= 0) return [];
    const { minOnTime = MIN_ON_TIME, policy = "cheapest" } = this.#input;
    const alone = this.#cheaper
      .map((offer) => this.#alone(offer, group, index))
      .filter(({ onTime }) => this.#realtime === undefined || onTime > 0)
      .toSorted((one, other) => {
        const isLikely = (outcome: LaneOutcome): boolean => outcome.onTime >= minOnTime;
        if (isLikely(one) !== isLikely(other)) return isLikely(one) ? -1 : 1;
        return isLikely(one) ? compareOutcomes(one, other, policy) : other.onTime - one.onTime;
      });
    const taken: TakenShare[] = [];
    let left = beyond;
    for (const outcome of alone) {
      const share = wholeItems(Math.min(left, this.#stock.shareLeft(outcome.offer, group)) + 1e-9, group);
      if (share <= 0) continue;
      this.#stock.take(outcome.offer, group, share);
      taken.push({ outcome, share });
      left -= share;
    }
    return taken;
  }

  /** All of a group in a cheaper lane that has until the deadline, because realtime takes nothing over. */
  #alone(offer: PlanOffer, group: PlanGroup, index: number): LaneOutcome {
    const { deadlineMs } = group;
    const times = {
      nowMs: this.#input.nowMs,
      switchMs: deadlineMs,
      rescuedMs: deadlineMs,
      due: this.#due[index] as DueLoad,
      realtime: undefined,
      isBlind: false,
    };
    const doneShare = doneIn(offer, deadlineMs, times);
    return { ...laneOutcome(offer, group, { ...times, doneShare }), switchMs: NEVER };
  }

  /** A lane that realtime takes over from at `startMs`: after a cancel, or without one if that is expected to cost less. */
  #rescued(offer: PlanOffer, group: PlanGroup, index: number, rescue: Rescue): LaneOutcome {
    const { batch } = offer;
    const held = this.#left(offer, group, index, rescue, 0);
    if (batch === undefined || batch.results === "ended") return laneOutcome(offer, group, held);
    const cancelled = this.#left(offer, group, index, rescue, batch.cancelMs + batch.collectMs);
    const isHeld = costIn(offer, group, held) < costIn(offer, group, cancelled);
    return laneOutcome(offer, group, isHeld ? held : cancelled);
  }

  /** A lane that is left so long before realtime takes over, a batch at a time where there are several. */
  #left(offer: PlanOffer, group: PlanGroup, index: number, rescue: Rescue, leavingMs: number): RescueTimes {
    const { nowMs } = this.#input;
    const { startMs, part } = rescue;
    const rescuedMs = this.#rescueEndMs(group);
    const firstMs = startMs - this.#growthMs - leavingMs;
    const times = {
      nowMs,
      switchMs: firstMs,
      rescuedMs,
      due: this.#dueWith(group, index, part),
      realtime: this.#realtime,
      isBlind: leavingMs === 0,
    };
    let doneShare = doneIn(offer, firstMs, times);
    if (offer.batch !== undefined && doneShare < SURE && stagesOf(offer, part) >= STAGES_MIN) {
      const lastMs = rescuedMs - leavingMs - this.#growthMs;
      for (let round = 0; round < STAGE_ROUNDS; round += 1)
        doneShare = doneIn(offer, firstMs + doneShare * (lastMs - firstMs), times);
    }
    return { ...times, doneShare };
  }

  /** All that is due by a group's deadline, with a part of the group. */
  #dueWith(group: PlanGroup, index: number, part: DueLoad): DueLoad {
    const { items, inputTokens, outputTokens } = this.#due[index] as DueLoad;
    return {
      items: items - group.items + part.items,
      inputTokens: inputTokens - group.inputTokens + part.inputTokens,
      outputTokens: outputTokens - group.outputTokens + part.outputTokens,
    };
  }

  /** When the last request of a group's rescue must be sent; the policy `balanced` gives cheaper lanes half of the time. */
  #rescueEndMs({ deadlineMs }: PlanGroup): number {
    const { nowMs, policy } = this.#input;
    const timeMs = (deadlineMs - nowMs) * (policy === "balanced" ? 0.5 : 1);
    return nowMs + timeMs - this.#rescueMs;
  }

  #whyRealtime(worth: readonly LaneOutcome[], shares: readonly PlanShare[], policy: string): PlanReason {
    if (this.#cheaper.length === 0) return "no_cheaper_lane";
    if (shares.length > 0) return "realtime_reserved";
    if (worth.length > 0) return "deadline_too_near";
    return policy === "fastest" ? "earliest_finish" : "no_cheaper_lane";
  }
}

interface SentInRealtime {
  /** The part of the group, in [0, 1]. */
  readonly fits: number;
  /** When its last request is sent. */
  readonly sentMs: number;
  /** When that of the whole group would be. */
  readonly allMs: number;
}

interface InEachLane extends Omit<SentInRealtime, "sentMs"> {
  /** As far as it is sent there in time. */
  readonly realtime: LaneOutcome | undefined;
  /** As far as realtime takes over from them. */
  readonly lanes: readonly LaneOutcome[];
}

/** What realtime would take over, and when. */
interface Rescue {
  readonly startMs: number;
  readonly part: DueLoad;
}

interface TakenShare {
  readonly outcome: LaneOutcome;
  readonly share: number;
}

function stagesOf({ batch }: PlanOffer, { items }: DueLoad): number {
  if (batch === undefined) return 1;
  return Math.min(
    batch.openBatchesLeft ?? Number.POSITIVE_INFINITY,
    Math.floor(items / Math.max(1, batch.minItems ?? 1)),
  );
}

function policyReason(policy: string): PlanReason {
  return policy === "fastest" ? "earliest_finish" : "cheapest";
}

/** A share that is a whole number of items, rounded down. */
function wholeItems(share: number, { items }: PlanGroup): number {
  return Math.min(1, Math.floor(share * items + 1e-6) / items);
}

function compare<T extends string | number>(left: T, right: T): number {
  return left < right ? -1 : left > right ? 1 : 0;
}
