/**
 * Which lane to run work in: the cheapest one that still meets the deadline. Pure; lanes are data.
 *
 *   finish = max(now, opens) + turnaround + need(work, capacity)
 *   need   = waiting + max over quotas of (amount / rate) , ceil(items / concurrency) * itemMs   [at least one itemMs]
 *   places = items * itemMs / concurrency; where places double with each round of answers from `concurrencyNow` on,
 *            no less than the rounds up to the last request: itemMs * log2(items / concurrencyNow + 1) - itemMs
 *
 * Without a deadline the work wants to run at once, and the lane that finishes first is taken.
 */
import type { TimeBound } from "../work/limits.ts";
import type { LaneTerms } from "./lanes.ts";

/** Work to be placed. Counts are whole; `deadlineMs` is monotonic, Infinity without one. */
export interface PlannedWork {
  readonly items: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly deadlineMs: number;
}

/** What a lane can do per minute and at once; absent means unlimited. */
export interface Capacity {
  readonly requestsPerMinute?: number | undefined;
  readonly tokensPerMinute?: number | undefined;
  readonly inputTokensPerMinute?: number | undefined;
  readonly outputTokensPerMinute?: number | undefined;
  readonly concurrency?: number | undefined;
  /** Places in flight to begin with, which double with each round of answers; absent: `concurrency`. */
  readonly concurrencyNow?: number | undefined;
  /** Milliseconds that one item takes. */
  readonly itemMs: number;
  /** Milliseconds of work that already waits there; 0. */
  readonly waitingMs?: number | undefined;
}

/** A lane in its present state. */
export interface LaneOffer {
  readonly lane: LaneTerms;
  readonly capacity: Capacity;
  /** Monotonic time at which it opens (off-peak); absent: now. */
  readonly opensAtMs?: number;
  /** Milliseconds from submission to results beyond the need (native batches); 0. */
  readonly turnaroundMs?: number;
}

export interface LanePlan {
  readonly lane: LaneTerms;
  /** Monotonic; Infinity when the lane never gets there. */
  readonly finishMs: number;
  /** False when no lane meets the deadline; the plan is then the fastest one. */
  readonly isInTime: boolean;
}

/** The cheapest lane that finishes by the deadline, ties to the faster; else the fastest; undefined without lanes. */
export function planLane(
  lanes: readonly LaneOffer[],
  work: PlannedWork,
  nowMs: number,
): LanePlan | undefined {
  let best: { readonly offer: LaneOffer; readonly plan: LanePlan } | undefined;
  for (const offer of lanes) {
    const finishMs = finishOf(offer, work, nowMs);
    const plan = { lane: offer.lane, finishMs, isInTime: finishMs <= work.deadlineMs };
    if (best === undefined || isBetter(offer, plan, best.offer, best.plan, work)) best = { offer, plan };
  }
  return best?.plan;
}

/** Milliseconds that `work` takes at `capacity`, what waits there included; Infinity at a rate of 0. */
export function needMs(work: Omit<PlannedWork, "deadlineMs">, capacity: Capacity): number {
  if (work.items <= 0) return capacity.waitingMs ?? 0;
  const rounds = Math.ceil(work.items / (capacity.concurrency ?? Number.POSITIVE_INFINITY));
  const roundsMs = Math.max(1, rounds) * capacity.itemMs;
  return (capacity.waitingMs ?? 0) + Math.max(roundsMs, ratesMs(work, capacity));
}

/** Milliseconds for which the rates keep `work`. */
export function ratesMs(work: Omit<PlannedWork, "deadlineMs">, capacity: Capacity): number {
  return Math.max(
    minutesMs(work.items, capacity.requestsPerMinute),
    minutesMs(work.inputTokens + work.outputTokens, capacity.tokensPerMinute),
    minutesMs(work.inputTokens, capacity.inputTokensPerMinute),
    minutesMs(work.outputTokens, capacity.outputTokensPerMinute),
  );
}

/** Milliseconds for which the places in flight are taken by so many items. */
export function placesMs(items: number, { itemMs, concurrency, concurrencyNow }: Capacity): number {
  const most = concurrency ?? Number.POSITIVE_INFINITY;
  const steadyMs = (items * itemMs) / most;
  if (concurrencyNow === undefined || concurrencyNow >= most) return steadyMs;
  const growing = Math.min(items, most - concurrencyNow); // are answered until there are as many places as may be
  const growingMs = itemMs * Math.log2(growing / concurrencyNow + 1);
  return Math.max(steadyMs, growingMs + ((items - growing) * itemMs) / most - itemMs);
}

/** Which limit keeps `work` for longest. */
export function boundOf(work: Omit<PlannedWork, "deadlineMs">, capacity: Capacity): TimeBound {
  if (work.items <= 0) return "nothing";
  const times: [TimeBound, number][] = [
    ["latency", capacity.itemMs],
    ["concurrency", placesMs(work.items, capacity)],
    ["requests_per_minute", minutesMs(work.items, capacity.requestsPerMinute)],
    ["tokens_per_minute", minutesMs(work.inputTokens + work.outputTokens, capacity.tokensPerMinute)],
    ["input_tokens_per_minute", minutesMs(work.inputTokens, capacity.inputTokensPerMinute)],
    ["output_tokens_per_minute", minutesMs(work.outputTokens, capacity.outputTokensPerMinute)],
  ];
  return times.reduce((longest, next) => (next[1] > longest[1] ? next : longest))[0];
}

function finishOf(offer: LaneOffer, work: PlannedWork, nowMs: number): number {
  const startMs = Math.max(nowMs, offer.opensAtMs ?? nowMs);
  return startMs + (offer.turnaroundMs ?? 0) + needMs(work, offer.capacity);
}

function isBetter(
  offer: LaneOffer,
  plan: LanePlan,
  than: LaneOffer,
  thanPlan: LanePlan,
  work: PlannedWork,
): boolean {
  if (plan.isInTime !== thanPlan.isInTime) return plan.isInTime;
  const isCheapestFirst = plan.isInTime && work.deadlineMs !== Number.POSITIVE_INFINITY;
  if (isCheapestFirst && offer.lane.priceFactor !== than.lane.priceFactor)
    return offer.lane.priceFactor < than.lane.priceFactor;
  if (plan.finishMs !== thanPlan.finishMs) return plan.finishMs < thanPlan.finishMs;
  return offer.lane.priceFactor < than.lane.priceFactor;
}

function minutesMs(amount: number, perMinute: number | undefined): number {
  return perMinute === undefined || amount === 0 ? 0 : (amount / perMinute) * 60_000;
}
