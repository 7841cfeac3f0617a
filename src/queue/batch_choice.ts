/**
 * Whether an item may go with a batch, and when a batch is left. Pure.
 *
 *   last   = deadline - (drain - ahead) - rescue    drain: what realtime needs for all work that is due by then, what is with
 *                                                   batches included; ahead: the part of it that realtime does first, which is what
 *                                                   waits and what batches hold that are left before; rescue: one answer that may
 *                                                   fail once (offer_choice.ts)
 *   switch = last - cancel - collect
 *
 *   now + median of the batch <= switch --> the batch: until then it is probably done, and if it is not, realtime still can
 *   otherwise ---------------------------> realtime, or what else is cheaper
 *
 * What is ahead does not count, because realtime does it anyway, from now on and without a pause: leaving a batch earlier would only
 * let its rest wait behind that. So batches are left one by one, each just before realtime has nothing else to do that is due by then;
 * and work that could be done just in time is divided: batches get what realtime could still do behind the rest.
 *
 * The policy `balanced` gives batches half of the time: they are taken and left as if realtime began at the middle between their creation
 * and the deadline. Where realtime is overloaded, all of the time is needed.
 *
 * That a batch may take far longer than its median endangers no deadline, because its rest is sent in realtime from the switch on.
 * A batch that is cancelled has cost only what it finished, so a try that fails costs its share of finished work at the batch's
 * price, which counts.
 *
 * Overloaded: now > deadline - drain - rescue by more than a moment. Realtime cannot do all of it by the deadline, and a batch has no such limits:
 *
 *   p90 of the batch <= an eighth of the time left --> all of it goes with batches
 *   what waits needs longer than the time left -----> what is beyond it does, if a batch is probably done by the deadline
 *
 *   a batch is left while others are waited for:  realtime has work for longer than a cancel --> waits
 *                                                 p90 is within an eighth of the time left,
 *                                                 and less than what is late anyway ---------> waits until then
 *                                                 the next to be left -----------------------> left, and realtime does what it can of it
 *                                                 the end is near: as much as is kept for it --> left
 *   realtime has work until the end: a batch is cancelled in time to collect what it has finished, if that is more than it can be
 *   expected to give by ending within its cancel
 *
 * So realtime stands still for an eighth of the time at most, if no batch ends at all, and otherwise does what slow batches have left.
 */

import type { LanePolicy } from "./lane_choice.ts";
import type { LatencyPrior } from "./lane_priors.ts";
import { rescueMs } from "./offer_choice.ts";
import { curveOf, doneShareAfter } from "./plan/latency_curve.ts";

/** What is known of a batch's time. All in milliseconds, times monotonic. */
export interface BatchOutlook {
  readonly deadlineMs: number;
  /** What realtime needs for all that is not answered and due by the deadline, with batches included. */
  readonly drainMs: number;
  /** Of that, what realtime needs for what it does first: what waits, and what batches hold that are left before this one. */
  readonly aheadMs: number;
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
/** So late a last moment may be seen: timers and forecasts are not exact, and a lane is not overloaded for that. */
const LATE_MS = 30_000;
/** Of the time from a batch's creation to the deadline, kept for a rescue where realtime is overloaded. */
const RESCUED_SHARE_MAX = 1 / 4;
/** Of the time from a batch's creation to the deadline, what `balanced` gives it. */
const BALANCED_SHARE = 1 / 2;
const NEVER_MS = Number.POSITIVE_INFINITY;
/** A cancel takes as long as this, or as a slow batch if that is shorter. */
const CANCEL_MS_MAX = 600_000;

/** Whether realtime can do all that is due by the deadline, if it begins now or began a moment ago. */
export function isFeasible({ deadlineMs, drainMs, realtimeP99Ms }: BatchOutlook, nowMs: number): boolean {
  return nowMs - LATE_MS <= deadlineMs - drainMs - rescueMs(realtimeP99Ms);
}

/** The last moment at which a batch can be left, and its rest be answered in time; monotonic. */
export function batchLastMs({ deadlineMs, drainMs, aheadMs, realtimeP99Ms }: BatchOutlook): number {
  return deadlineMs - Math.max(0, drainMs - aheadMs) - rescueMs(realtimeP99Ms);
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
  /** What it needs for that and for what is with other batches that are being left. */
  readonly busyMs: number;
  /** Whether it is the first to be left of all batches of its lane that are not being left. */
  readonly isNext: boolean;
  /** Whether what it has finished is kept when it is cancelled. */
  readonly keepsOnCancel: boolean;
  /** Of its items, those that are known to be finished; 0 to 1. */
  readonly finishedShare: number;
  readonly policy: LanePolicy;
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
  if (!isFeasible(outlook, outlook.nowMs)) return overloadedTimes(outlook);
  const { nowMs, ageMs, policy } = outlook;
  return {
    switchMs: Math.min(batchSwitchMs(outlook), batchesEndMs(outlook, nowMs - ageMs, policy)),
    lastMs: batchLastMs(outlook),
  };
}

/** Until when a batch that is created at `fromMs` may be waited for by its policy. */
function batchesEndMs(
  { deadlineMs, cancelMs, items }: BatchOutlook,
  fromMs: number,
  policy: LanePolicy,
): number {
  if (policy !== "balanced") return NEVER_MS;
  return fromMs + (deadlineMs - fromMs) * BALANCED_SHARE - cancelMs - collectMsOf(items);
}

function overloadedTimes(outlook: OpenOutlook): LeavingTimes {
  const { nowMs, ageMs, deadlineMs, waitingMs, busyMs, latency, isNext, keepsOnCancel } = outlook;
  // In a window that is shorter than a rescue, most of it is for batches and realtime all the same.
  const windowMs = deadlineMs - nowMs + ageMs;
  const rescuedMs = deadlineMs - Math.min(rescueMs(outlook.realtimeP99Ms), windowMs * RESCUED_SHARE_MAX);
  // Realtime has enough to do: a batch that is left would not be done there.
  if (nowMs + waitingMs >= rescuedMs) return { switchMs: collectingMs(outlook), lastMs: NEVER_MS };
  // At the end all of them are left, and realtime does what it can: what fits is not known better.
  const ownMs = Math.max(0, outlook.drainMs - waitingMs);
  const lastMs = rescuedMs - Math.min(ownMs, windowMs * GAMBLED_SHARE);
  if (!keepsOnCancel) return { switchMs: lastMs, lastMs };
  const leavingMs = outlook.cancelMs + collectMsOf(outlook.items);
  const hopeMs = latency.p90 - ageMs;
  const lateMs = nowMs + outlook.drainMs - rescuedMs;
  let switchMs = isNext ? nowMs : NEVER_MS;
  if (busyMs > leavingMs) switchMs = nowMs + busyMs - leavingMs;
  else if (hopeMs > 0 && hopeMs <= lateMs && isShort(hopeMs, deadlineMs - nowMs)) switchMs = nowMs + hopeMs;
  return { switchMs: Math.min(switchMs, lastMs - leavingMs), lastMs };
}

/** When a batch is cancelled for what it has finished, of which everything would be late after the deadline; Infinity: it is not. */
function collectingMs({
  nowMs,
  ageMs,
  deadlineMs,
  cancelMs,
  items,
  latency,
  keepsOnCancel,
  finishedShare,
}: OpenOutlook): number {
  if (!keepsOnCancel) return NEVER_MS;
  const atMs = deadlineMs - cancelMs - collectMsOf(items);
  const ageThenMs = ageMs + atMs - nowMs;
  const ending = doneShareAfter(curveOf(latency), ageThenMs, ageThenMs + cancelMs);
  return finishedShare > ending ? atMs : NEVER_MS;
}

/** Whether an item of a lane that cannot do all its work in realtime may go with a batch; only what waits is `aheadMs` of its outlook. */
function mayBatchBeyond(outlook: BatchOutlook, nowMs: number): boolean {
  const { deadlineMs, latency } = outlook;
  const leftMs = deadlineMs - nowMs;
  if (isShort(latency.p90, leftMs)) return true;
  const isInTime = latency.p50 + outlook.cancelMs + collectMsOf(outlook.items) <= leftMs;
  return isInTime && outlook.aheadMs + rescueMs(outlook.realtimeP99Ms) > leftMs;
}

/** Whether realtime may stand still for so long. */
function isShort(ms: number, leftMs: number): boolean {
  return ms <= leftMs * GAMBLED_SHARE;
}

/** Of an item that waits. */
export interface WaitingItem {
  readonly policy: LanePolicy;
  /** Whether a batch was left that had it. */
  readonly isAgain?: boolean;
  /** Whether its model costs nothing: then a batch saves nothing, and has only what realtime cannot do. */
  readonly isFree?: boolean;
}

/**
 * Whether an item that waits may go with a batch, of whose outlook `aheadMs` is what waits. What a batch was left with is for realtime in an
 * overloaded lane, and under `balanced`.
 */
export function mayBatch(
  outlook: BatchOutlook,
  nowMs: number,
  { policy, isAgain = false, isFree = false }: WaitingItem,
): boolean {
  if (outlook.deadlineMs === Number.POSITIVE_INFINITY) return false;
  const isOverloaded = !isFeasible(outlook, nowMs);
  if (isFree && !isOverloaded) return false;
  if (isAgain && (isOverloaded || policy === "balanced")) return false;
  const endMs = Math.min(batchSwitchMs(outlook), batchesEndMs(outlook, nowMs, policy));
  return nowMs + outlook.latency.p50 <= endMs || (isOverloaded && mayBatchBeyond(outlook, nowMs));
}

/** What a cancel takes, where providers say up to ten minutes, and batches that take seconds are not cancelled for longer. */
export function cancelMsOf({ p90 }: LatencyPrior): number {
  return Math.min(CANCEL_MS_MAX, p90);
}
