/**
 * Whether an item may go with a batch, and when a batch is left. Pure.
 *
 *   last   = deadline - drain - rescue              drain: what realtime needs for all work that is due by then, what is with
 *                                                   batches included; rescue: one answer that may fail once (offer_choice.ts)
 *   switch = last - cancel - collect
 *
 *   now + median of the batch <= switch --> the batch: until then it is probably done, and if it is not, realtime still can
 *   otherwise ---------------------------> realtime, or what else is cheaper
 *
 * That a batch may take far longer than its median endangers no deadline, because its rest is sent in realtime from the switch on.
 * A batch that is cancelled has cost only what it finished, so a try that fails costs its share of finished work at the batch's
 * price, which counts.
 *
 * Overloaded: now > last before the switch came. Realtime cannot do all of it by the deadline, and a batch has no such limits:
 *
 *   p90 of the batch <= an eighth of the time left --> all of it goes with batches
 *   what waits needs longer than the time left -----> what is beyond it does, if a batch is probably done by the deadline
 *
 *   a batch is left while others are waited for:  realtime has work for longer than a cancel --> waits
 *                                                 p90 is within an eighth of the time left ---> waits until then
 *                                                 the next to be left, none is being left ----> left, and realtime does what it can of it
 *                                                 the end is near: as much as is kept for it --> left
 *
 * So realtime stands still for an eighth of the time at most, if no batch ends at all, and otherwise does what slow batches have left.
 */

import type { LatencyPrior } from "./lane_priors.ts";
import { rescueMs } from "./offer_choice.ts";

/** What is known of a batch's time. All in milliseconds, times monotonic. */
export interface BatchOutlook {
  readonly deadlineMs: number;
  /** What realtime needs for all that is not answered and due by the deadline, with batches included. */
  readonly drainMs: number;
  /** The 99th percentile of answers in realtime; undefined while too few were measured. */
  readonly realtimeP99Ms: number | undefined;
  /** What a batch takes, as it was measured, or as others did. */
  readonly latency: LatencyPrior;
  /** What a cancel takes. */
  readonly cancelMs: number;
  /** Items whose results are collected. */
  readonly items: number;
}

/** Results are collected at least so fast, in items a second, after a poll. */
const COLLECTED_PER_SECOND = 5_000;
/** Of the time left, in which an overloaded lane waits for batches and does nothing. */
const GAMBLED_SHARE = 1 / 8;
const NEVER_MS = Number.POSITIVE_INFINITY;
/** A cancel takes as long as this, or as a slow batch if that is shorter. */
const CANCEL_MS_MAX = 600_000;

/** The last moment at which a batch can be left, and its rest be answered in time; monotonic. */
export function batchLastMs({ deadlineMs, drainMs, realtimeP99Ms }: BatchOutlook): number {
  return deadlineMs - drainMs - rescueMs(realtimeP99Ms);
}

/** When a batch is cancelled if it has not ended; monotonic. */
export function batchSwitchMs(outlook: BatchOutlook): number {
  return batchLastMs(outlook) - outlook.cancelMs - collectMsOf(outlook.items);
}

/** What it takes to collect the results of so many items. */
export function collectMsOf(items: number): number {
  return (items / COLLECTED_PER_SECOND) * 1_000;
}

/** What is known of a batch that is open. */
export interface OpenOutlook extends BatchOutlook {
  readonly nowMs: number;
  /** Since it was created; 0 before. */
  readonly ageMs: number;
  /** What realtime needs for what waits and is due by the deadline, without what is with batches. */
  readonly waitingMs: number;
  /** Whether it is the first to be left of all batches of its lane, and none is being left. */
  readonly isNext: boolean;
  /** Whether what it has finished is kept when it is cancelled. */
  readonly keepsOnCancel: boolean;
}

/** When a batch is left; monotonic, Infinity: not as far as is known now. */
export interface LeavingTimes {
  /** From then on it is cancelled. */
  readonly switchMs: number;
  /** From then on it is not waited for, not even for its cancel. */
  readonly lastMs: number;
}

/** When a batch is left, as things stand. */
export function leavingTimes(outlook: OpenOutlook): LeavingTimes {
  const lastMs = batchLastMs(outlook);
  if (outlook.nowMs <= lastMs) return { switchMs: batchSwitchMs(outlook), lastMs };
  return overloadedTimes(outlook);
}

function overloadedTimes(outlook: OpenOutlook): LeavingTimes {
  const { nowMs, ageMs, deadlineMs, waitingMs, latency, isNext, keepsOnCancel } = outlook;
  const rescuedMs = deadlineMs - rescueMs(outlook.realtimeP99Ms);
  // Realtime has enough to do: a batch that is left would not be done there.
  if (nowMs + waitingMs >= rescuedMs) return { switchMs: NEVER_MS, lastMs: NEVER_MS };
  // At the end all of them are left, and realtime does what it can: what fits is not known better.
  const ownMs = Math.max(0, outlook.drainMs - waitingMs);
  const lastMs = rescuedMs - Math.min(ownMs, (deadlineMs - nowMs + ageMs) * GAMBLED_SHARE);
  if (!keepsOnCancel) return { switchMs: lastMs, lastMs };
  const leavingMs = outlook.cancelMs + collectMsOf(outlook.items);
  const hopeMs = latency.p90 - ageMs;
  let switchMs = isNext ? nowMs : NEVER_MS;
  if (waitingMs > leavingMs) switchMs = nowMs + waitingMs - leavingMs;
  else if (hopeMs > 0 && isShort(hopeMs, deadlineMs - nowMs)) switchMs = nowMs + hopeMs;
  return { switchMs: Math.min(switchMs, lastMs - leavingMs), lastMs };
}

/** Whether an item of a lane that cannot do all its work in realtime may go with a batch. `waitingMs` as in `OpenOutlook`. */
export function mayBatchBeyond(outlook: BatchOutlook, nowMs: number, waitingMs: () => number): boolean {
  const { deadlineMs, latency } = outlook;
  if (deadlineMs === Number.POSITIVE_INFINITY || nowMs <= batchLastMs(outlook)) return false;
  const leftMs = deadlineMs - nowMs;
  if (isShort(latency.p90, leftMs)) return true;
  const isInTime = latency.p50 + outlook.cancelMs + collectMsOf(outlook.items) <= leftMs;
  return isInTime && waitingMs() + rescueMs(outlook.realtimeP99Ms) > leftMs;
}

/** Whether realtime may stand still for so long. */
function isShort(ms: number, leftMs: number): boolean {
  return ms <= leftMs * GAMBLED_SHARE;
}

/** Whether an item may go with a batch. */
export function mayBatch(outlook: BatchOutlook, nowMs: number): boolean {
  if (outlook.deadlineMs === Number.POSITIVE_INFINITY) return false;
  return nowMs + outlook.latency.p50 <= batchSwitchMs(outlook);
}

/** What a cancel takes, where providers say up to ten minutes, and batches that take seconds are not cancelled for longer. */
export function cancelMsOf({ p90 }: LatencyPrior): number {
  return Math.min(CANCEL_MS_MAX, p90);
}
