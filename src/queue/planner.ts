/**
 * Where an item goes, and how long work takes. `place` is the one decision; its callers ask it again whenever a ticket or an item
 * is about to wait somewhere. Pure; lanes are data.
 *
 *   its model is held  --> the lane that holds the model
 *   it has one lane    --> that lane
 *   it has several     --> the cheapest that finishes by the deadline, ties to the faster; if none does, the fastest
 *   without a deadline --> the fastest: it wants to run at once
 *
 *   finish = now + need(work, capacity)
 *   need   = waiting + max over quotas of (amount / rate) , ceil(items / concurrency) * itemMs   [at least one itemMs]
 *   places = items * itemMs / concurrency; where each answer adds `gain` places (work/limits.ts) from `concurrencyNow` on,
 *            no less than the rounds up to the last request: itemMs * log(gain * items / concurrencyNow + 1) / log(1 + gain) - itemMs
 */
import { slowStartGain, type TimeBound } from "../work/limits.ts";
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
  /** Places in flight to begin with, which grow with each answer; absent: `concurrency`. */
  readonly concurrencyNow?: number | undefined;
  /** Milliseconds that one item takes. */
  readonly itemMs: number;
  /** Milliseconds of work that already waits there; 0. */
  readonly waitingMs?: number | undefined;
}

/** What is placed: a ticket, or an item of one. */
export interface Placeable {
  readonly items: number;
  readonly inputTokens: number;
  readonly expectedOutputTokens: number;
  /** Monotonic; Infinity without one. */
  readonly deadlineMs: number;
}

/** The lanes of a model at this moment. */
export interface ModelWays {
  /** Of its family. */
  readonly lanes: readonly [LaneTerms, ...LaneTerms[]];
  /** While its provider refuses the model: the lane that holds all of it. */
  readonly held?: LaneTerms | undefined;
}

/** What lanes can do at this moment; read only where there is a choice. */
export interface LanesNow {
  /** Monotonic. */
  nowMs(): number;
  capacityOf(lane: LaneTerms): Capacity;
}

/** The lane that a ticket, or an item of one, belongs in. */
export function place(ticket: Placeable, { lanes, held }: ModelWays, now: LanesNow): LaneTerms {
  if (held !== undefined) return held;
  if (lanes.length === 1) return lanes[0];
  const work = workOf(ticket);
  const nowMs = now.nowMs();
  const timed = (lane: LaneTerms): TimedLane => ({
    lane,
    finishMs: nowMs + needMs(work, now.capacityOf(lane)),
  });
  const best = lanes
    .map(timed)
    .reduce((before, next) => (isBetter(next, before, ticket.deadlineMs) ? next : before));
  return best.lane;
}

/** A ticket as work. */
export function workOf({
  items,
  inputTokens,
  expectedOutputTokens,
}: Placeable): Omit<PlannedWork, "deadlineMs"> {
  return { items, inputTokens, outputTokens: expectedOutputTokens };
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
  const gain = slowStartGain(itemMs);
  const growing = Math.min(items, (most - concurrencyNow) / gain); // are answered until there are as many places as may be
  const growingMs = (itemMs * Math.log((growing * gain) / concurrencyNow + 1)) / Math.log(1 + gain);
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

interface TimedLane {
  readonly lane: LaneTerms;
  /** Monotonic; Infinity when the lane never gets there. */
  readonly finishMs: number;
}

function isBetter(timed: TimedLane, than: TimedLane, deadlineMs: number): boolean {
  const isInTime = timed.finishMs <= deadlineMs;
  if (isInTime !== than.finishMs <= deadlineMs) return isInTime;
  const isCheaper = timed.lane.priceFactor < than.lane.priceFactor;
  const isCheapestFirst = isInTime && deadlineMs !== Number.POSITIVE_INFINITY;
  if (isCheapestFirst && timed.lane.priceFactor !== than.lane.priceFactor) return isCheaper;
  return timed.finishMs === than.finishMs ? isCheaper : timed.finishMs < than.finishMs;
}

function minutesMs(amount: number, perMinute: number | undefined): number {
  return perMinute === undefined || amount === 0 ? 0 : (amount / perMinute) * 60_000;
}
