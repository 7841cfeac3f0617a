/**
 * How long ago a recorded moment was, for a process that is not the one that recorded it.
 *
 *   same boot            the difference of the times since boot; the wall clock is not read
 *   another boot         the difference on the wall clock, at least 0 and at most the time since the later boot: the
 *                        earlier moment was before that boot, so on one machine this is never too long
 *   boots not known      the smaller of the two, where both can be
 *
 * So on one machine no jump of its wall clock makes a moment seem older than it is. Only a folder that moves to
 * another machine is measured by the wall clocks of both.
 */
import type { Moment } from "../clock.ts";

/** Milliseconds that have passed at least between two moments, the earlier one first; 0 or more. */
export function leastMsBetween(earlier: Moment, later: Moment): number {
  const tickedMs = later.sinceBootMs - earlier.sinceBootMs;
  const isKnown = earlier.bootId !== undefined && later.bootId !== undefined;
  if (isKnown && earlier.bootId === later.bootId) return Math.max(0, tickedMs);
  const bootedMs = Math.max(0, Math.min(later.wallMs - earlier.wallMs, later.sinceBootMs));
  return isKnown || tickedMs < 0 ? bootedMs : Math.min(tickedMs, bootedMs);
}

const DAY_MS = 86_400_000;

/** Jumps of the wall clock up to this are believed: time servers slew a clock by less between two checks. */
export const SLEW_MS_MAX = 60_000;

/**
 * Milliseconds by which the wall clock moved between two moments beyond the time that passed; positive if it was set forward.
 * Within one boot this is exact. Over another boot the machine may have been off for up to a day: only more than that counts.
 */
export function wallJumpMs(earlier: Moment, later: Moment): number {
  const wallMs = later.wallMs - earlier.wallMs;
  if (isSameBoot(earlier, later)) return wallMs - (later.sinceBootMs - earlier.sinceBootMs);
  const offMs = wallMs - later.sinceBootMs;
  return offMs < 0 || offMs > DAY_MS ? offMs : 0;
}

/** Wall times are rounded down to it: what is carried over many boots would become earlier by up to this at each. */
const WALL_STEP_MS = 1;

/**
 * Milliseconds by which a wall time moves that was right at the earlier moment, so that it is never too early at the later one:
 * as far as the wall clock was set between two moments of one boot, positive if forward; over another boot, by what rounding
 * may have taken. 0 without an earlier moment.
 */
export function jumpMsSince(earlier: Moment | undefined, later: Moment): number {
  if (earlier === undefined) return 0;
  return isSameBoot(earlier, later) ? wallJumpMs(earlier, later) : WALL_STEP_MS;
}

/** Whether both were taken since the machine was booted for the last time. */
function isSameBoot(earlier: Moment, later: Moment): boolean {
  return earlier.bootId !== undefined && earlier.bootId === later.bootId;
}
