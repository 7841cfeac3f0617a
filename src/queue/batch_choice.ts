/**
 * Whether an item may go with a batch, and until when a batch is waited for. Pure.
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

/** Whether an item may go with a batch. */
export function mayBatch(outlook: BatchOutlook, nowMs: number): boolean {
  if (outlook.deadlineMs === Number.POSITIVE_INFINITY) return false;
  return nowMs + outlook.latency.p50 <= batchSwitchMs(outlook);
}

/** What a cancel takes, where providers say up to ten minutes, and batches that take seconds are not cancelled for longer. */
export function cancelMsOf({ p90 }: LatencyPrior): number {
  return Math.min(CANCEL_MS_MAX, p90);
}
