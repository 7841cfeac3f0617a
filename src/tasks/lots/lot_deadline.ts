/**
 * When the sla of a lot starts and ends, whatever the wall clock does until its run begins.
 */
import type { Clock, Moment } from "../../clock.ts";
import { jumpMsSince } from "../../work/moment.ts";
import { overAtMs } from "../../work/sla.ts";
import type { LotRecord } from "./lot_record.ts";

/** Monotonic: when the sla of a lot ends; now for a lot without one, which runs at once. */
export function deadlineMsOf({ slaMinutes, ...record }: LotRecord, clock: Clock): number {
  if (slaMinutes === null) return clock.nowMs();
  const jumpMs = jumpMsSince(record.acceptedAt, clock.moment());
  return overAtMs(clock, record.acceptedWallMs + jumpMs + slaMinutes * 60_000);
}

/** When its sla starts. If an earlier version accepted it, only the wall time is known. */
export function acceptanceOf({ acceptedAt, acceptedWallMs }: LotRecord): Moment {
  return acceptedAt ?? { wallMs: acceptedWallMs, bootId: undefined, sinceBootMs: 0 };
}

/** A moment by the wall clock at the lot's acceptance, so that times of its tasks are consistent. Unix time. */
export function shownWallMs({ acceptedAt }: Pick<LotRecord, "acceptedAt">, at: Moment): number {
  return Math.round(at.wallMs - jumpMsSince(acceptedAt, at));
}
