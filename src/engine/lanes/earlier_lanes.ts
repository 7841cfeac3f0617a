/**
 * What the journal and the work log say of the lanes of earlier processes: limits count what these sent within the last
 * window, and lanes continue with what held them back, however long ago that was.
 */
import type { Clock } from "../../clock.ts";
import type { SentLoad } from "../../limits/quotas.ts";
import type { Store } from "../../store/store.ts";
import { recentSteps } from "../journal/recent.ts";
import { type Lanes, LIMITS_WINDOW_MS } from "./lanes.ts";

/** Sent `ageMs` ago. */
interface EarlierLoad extends Omit<SentLoad, "atMs"> {
  readonly lane: string;
  readonly ageMs: number;
}

/** As the journal says. Once, before anything is sent. */
export async function restoreLanes(lanes: Lanes, store: Store, clock: Clock): Promise<void> {
  const sent: EarlierLoad[] = [];
  let isHeldKnown = false;
  for await (const { step, ageMs } of recentSteps(store, clock.moment())) {
    if (!isHeldKnown && step.lanes !== undefined) {
      isHeldKnown = true;
      for (const record of step.lanes) lanes.goOn(record, ageMs);
    }
    if (ageMs > LIMITS_WINDOW_MS && isHeldKnown) break;
    if (ageMs > LIMITS_WINDOW_MS) continue; // only steps of recovery so far, which say nothing of lanes
    sent.push(...step.sent.map((load) => ({ ...load, ageMs })));
  }
  countSent(lanes, sent, clock.nowMs());
}

/** Counts in the limits what earlier processes sent; once, before anything is sent. */
export function countSent(lanes: Lanes, sent: Iterable<EarlierLoad>, nowMs: number): void {
  const byLane = new Map<string, SentLoad[]>();
  for (const { lane, ageMs, ...load } of sent) {
    const loads = byLane.get(lane) ?? [];
    loads.push({ ...load, atMs: nowMs - ageMs });
    byLane.set(lane, loads);
  }
  for (const [key, loads] of byLane) lanes.of(key).limits.restore(nowMs, loads);
}
