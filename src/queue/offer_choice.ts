/**
 * Where an item that could be sent now goes: to a cheaper offer of its lane, or to realtime. Pure.
 *
 *   rescue = 2 x quantile of realtime + 5 s            one answer in realtime that may fail once; quantile: `minOnTime`, 99 %
 *   switch = deadline - drain - rescue                 drain: what realtime needs for all work that is due by then
 *
 *   now + p90 of the offer <= switch --the offer has a place--> the offer, until deadline - rescue - what is there
 *                                    --it has none------------> waits, until then or until there is one
 *   otherwise -----------------------------------------------> realtime
 *
 * The policy `balanced` puts the p99 of the offer in place of its p90; `fastest` never gets here.
 *
 * While the offer makes progress as fast as realtime would, the drain falls as fast as the time does, and nothing switches.
 * Where it does not, items are sent in realtime as fast as is needed, and the offer takes what it can beside them.
 */
import type { LanePolicy } from "./lane_choice.ts";
import type { TierOffer } from "./offers.ts";

const RESCUES = 2;
const SPARE_MS = 5_000;
/** Of an answer in realtime, while none was measured. */
export const REALTIME_P99_MS = 30_000;

/** What is known of an item's time. All in milliseconds, times monotonic. */
export interface OfferTimes {
  readonly nowMs: number;
  readonly deadlineMs: number;
  /** What realtime needs for all that is not answered and due by the deadline. */
  readonly drainMs: number;
  /** What it needs for what is under way at the offer. */
  readonly ownDrainMs: number;
  /** What the wanted share of answers in realtime take at most; undefined while too few were measured. */
  readonly realtimeMs: number | undefined;
  /** What `offerShareOf` of the offer's answers take at most; undefined while too few were measured. */
  readonly offerMs: number | undefined;
  readonly policy: LanePolicy;
}

/** An offer that may be taken. */
export interface Chosen {
  /** Milliseconds that the attempt may take. */
  readonly attemptMsMax: number;
  /** From when on the item is sent in realtime if it could not be sent; monotonic. */
  readonly switchMs: number;
}

/** What is kept for an answer in realtime. */
export function rescueMs(realtimeMs: number = REALTIME_P99_MS): number {
  return RESCUES * realtimeMs + SPARE_MS;
}

/** The share of an offer's answers that must have time before the switch. */
export function offerShareOf(policy: LanePolicy): 0.9 | 0.99 {
  return policy === "balanced" ? 0.99 : 0.9;
}

/** Whether an item may be sent to an offer; undefined for realtime. */
export function chooseOffer(offer: TierOffer, times: OfferTimes): Chosen | undefined {
  const { nowMs, deadlineMs, policy } = times;
  if (deadlineMs === Number.POSITIVE_INFINITY) return undefined;
  const keptMs = rescueMs(times.realtimeMs);
  const offerMs = times.offerMs ?? (policy === "balanced" ? offer.prior.p99 : offer.prior.p90);
  const switchMs = deadlineMs - times.drainMs - keptMs - offerMs;
  if (!(nowMs <= switchMs)) return undefined;
  const leftMs = deadlineMs - times.ownDrainMs - keptMs - nowMs;
  return { attemptMsMax: Math.min(offer.attemptMsMax, leftMs), switchMs };
}
