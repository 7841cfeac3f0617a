/**
 * The moment at which batches that run must be left, and what to do then. Pure.
 *
 *   send   = latest start in realtime of all that may be unfinished (latest_starts.ts), one rescue before its deadline (offer_choice.ts)
 *   switch = send - cancel - collect        results can be fetched once it was cancelled
 *          = send                           they cannot: then cancelling tells nothing
 *
 *   running    --before the switch--> wait
 *              --at it--> cancel, collect, send the rest; or wait until `send`, if that is expected to cost less
 *   cancelling --before `send`--> wait
 *   either     --at `send`--> send all that is not known to be finished, most urgent first; what was finished is paid twice
 *
 * Work that runs in realtime beside it need not be known here: see latest_starts.ts. Batches of one model are given together,
 * because they are rescued by one lane; each keeps its place behind those that are due before it, so they are left one by one.
 */

import type { DueLoad } from "../../../src/queue/due_work.ts";
import { rescueMs } from "../../../src/queue/offer_choice.ts";
import { doneShareAfter, type LatencyCurve } from "../../../src/queue/plan/latency_curve.ts";
import { growthMs, LatestStarts } from "../../../src/queue/plan/latest_starts.ts";
import type { BatchResults } from "../../../src/queue/plan/plan_input.ts";
import type { Capacity } from "../../../src/queue/planner.ts";

/** A batch whose results have not been fetched. */
export interface RunningBatch {
  readonly id: string;
  /** Of its earliest item that is not known to be finished. */
  readonly deadlineMs: number;
  /** All that is not fetched. Counts of finished items do not make it less: a cancel may be slow, and they do not say which. */
  readonly unfinished: DueLoad;
  /** The 99th percentile from asking for a cancel until it has ended; what is left of it, once asked. */
  readonly cancelMs: number;
  readonly collectMs: number;
  readonly results: BatchResults;
  /** The chance that it ends soon, in [0, 1]; of equal deadlines, the likelier are left later. 0. */
  readonly chance?: number;
}

/** Where the rest is sent. */
export interface RescueLane {
  readonly capacity: Capacity;
  /** Of its answers; absent while too few were measured. */
  readonly latencyP99Ms?: number;
}

/** When a batch is left at the latest, and when its items must be sent. */
export interface SwitchTimes {
  readonly switchMs: number;
  readonly sendMs: number;
}

/** The times of all batches of a model, by id. */
export function switchTimes(
  batches: readonly RunningBatch[],
  { capacity, latencyP99Ms }: RescueLane,
): ReadonlyMap<string, SwitchTimes> {
  const starts = new LatestStarts(capacity);
  const keptMs = rescueMs(latencyP99Ms) + growthMs(sumOf(batches), capacity);
  const times = new Map<string, SwitchTimes>();
  for (const batch of batches.toSorted(leftLast)) {
    const sendMs = starts.add(batch.unfinished, batch.deadlineMs - keptMs);
    const leavingMs = batch.results === "ended" ? 0 : batch.cancelMs + batch.collectMs;
    times.set(batch.id, { switchMs: sendMs - leavingMs, sendMs });
  }
  return times;
}

/** What is known of a batch at a moment. */
export interface BatchOdds {
  readonly nowMs: number;
  readonly createdMs: number;
  /** `cancelling`: a cancel was asked for, or it has ended; until its results are fetched. */
  readonly phase: "running" | "cancelling";
  readonly results: BatchResults;
  /** From its creation to its end. */
  readonly latency: LatencyCurve;
  readonly collectMs: number;
  /** The share of `unfinished` that is finished, where the wire shows it. */
  readonly finishedShare?: number;
  /** Of all of `unfinished`. */
  readonly batchUsd: number;
  readonly realtimeUsd: number;
}

/** What to do with a batch. USD are of all of `unfinished`: `expectedUsd` with what is paid twice, `twiceUsd` that part of it. */
export interface SwitchDecision {
  /** `cancel`: then collect, and send the rest. `send_all`: what is not known to be finished, now. */
  readonly action: "wait" | "cancel" | "send_all";
  /** Decide again then at the latest; what the provider says may come before. */
  readonly untilMs: number;
  readonly expectedUsd: number;
  readonly twiceUsd: number;
}

/** Decides for one batch at a moment. */
export function decideSwitch(odds: BatchOdds, { switchMs, sendMs }: SwitchTimes): SwitchDecision {
  const { nowMs, phase, results, batchUsd, realtimeUsd } = odds;
  const finished = odds.finishedShare ?? unseenShare(odds);
  const cancelled = { expectedUsd: finished * batchUsd + (1 - finished) * realtimeUsd, twiceUsd: 0 };
  if (nowMs >= sendMs) {
    const twiceUsd = finished * batchUsd;
    return { action: "send_all", untilMs: sendMs, expectedUsd: realtimeUsd + twiceUsd, twiceUsd };
  }
  if (phase === "cancelling") return { action: "wait", untilMs: sendMs, ...cancelled };
  const waited = waitedUntilSending(odds, sendMs, finished);
  if (results === "ended") return { action: "wait", untilMs: sendMs, ...waited };
  if (nowMs < switchMs) return { action: "wait", untilMs: switchMs, ...cancelled };
  if (waited.expectedUsd < cancelled.expectedUsd) return { action: "wait", untilMs: sendMs, ...waited };
  return { action: "cancel", untilMs: sendMs, ...cancelled };
}

/** It ends by itself before its items must be sent, or all of them are sent and what is finished then is paid twice. */
function waitedUntilSending(
  { nowMs, createdMs, latency, collectMs, batchUsd, realtimeUsd }: BatchOdds,
  sendMs: number,
  finished: number,
): Pick<SwitchDecision, "expectedUsd" | "twiceUsd"> {
  const ends = doneShareAfter(latency, nowMs - createdMs, sendMs - collectMs - createdMs);
  const twiceUsd = (1 - ends) * finished * batchUsd;
  return { expectedUsd: ends * batchUsd + (1 - ends) * realtimeUsd + twiceUsd, twiceUsd };
}

/** Durations by which the progress of a batch that shows none is estimated. */
const PROGRESS_POINTS = 20;

/**
 * The expected share that is finished of a batch that has not ended: it progresses evenly to its end, which is drawn from what
 * is left of its distribution; one that never ends may have stopped anywhere.
 */
function unseenShare({ nowMs, createdMs, latency }: BatchOdds): number {
  const elapsedMs = Math.max(0, nowMs - createdMs);
  const already = latency.doneShare(elapsedMs);
  let sum = 0;
  for (let point = 0; point < PROGRESS_POINTS; point += 1) {
    const share = already + (1 - already) * ((point + 0.5) / PROGRESS_POINTS);
    const endMs = latency.quantileMs(share);
    sum += endMs === Number.POSITIVE_INFINITY ? 0.5 : Math.min(1, elapsedMs / endMs);
  }
  return sum / PROGRESS_POINTS;
}

/** The last to be left first. */
function leftLast(one: RunningBatch, other: RunningBatch): number {
  const [chance, otherChance] = [one.chance ?? 0, other.chance ?? 0];
  return other.deadlineMs - one.deadlineMs || otherChance - chance || (one.id < other.id ? 1 : -1);
}

function sumOf(batches: readonly RunningBatch[]): DueLoad {
  let [items, inputTokens, outputTokens] = [0, 0, 0];
  for (const { unfinished } of batches) {
    items += unfinished.items;
    inputTokens += unfinished.inputTokens;
    outputTokens += unfinished.outputTokens;
  }
  return { items, inputTokens, outputTokens };
}
