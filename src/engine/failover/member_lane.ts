/**
 * A model's lane as failover sees it.
 */
import type { LaneLimits } from "../../limits/limits.ts";
import type { MemberTrouble } from "../../queue/failover.ts";
import type { Trouble } from "../items/holds.ts";

/** What is known of the lane of a model. */
export interface MemberLane {
  readonly trouble: MemberTrouble | undefined;
  /** Why, in words; empty without trouble. */
  readonly reason: string;
  /** Milliseconds that an answer takes. */
  readonly itemMs: number;
  /** Whether it may send a probe now, and nothing waits for it or is in flight. */
  readonly isFree: boolean;
  /** Whether something waits in it. */
  readonly hasWaiting: boolean;
}

/** The parts of a lane that are asked. */
interface AskedLane {
  readonly health: { readonly trouble: Trouble | undefined };
  readonly limits: LaneLimits;
  readonly itemMs: number;
  waiting(): Generator<unknown>;
}

/** Of a model that was never asked. */
const UNKNOWN: MemberLane = { trouble: undefined, reason: "", itemMs: 0, isFree: true, hasWaiting: false };

/** `keyMissing`: what to do about it, where its provider has no key. */
export function memberLane(
  lane: AskedLane | undefined,
  keyMissing: string | undefined,
  nowMs: number,
): MemberLane {
  if (keyMissing !== undefined) {
    const trouble = { kind: "caller", sinceMs: nowMs, waitMs: 0 } as const;
    return { ...UNKNOWN, trouble, reason: `key_missing: ${keyMissing}`, isFree: false };
  }
  if (lane === undefined) return UNKNOWN;
  const { limits, itemMs, health } = lane;
  const hasWaiting = lane.waiting().next().done !== true;
  const isFree = !hasWaiting && limits.retryMs(nowMs) === 0 && limits.snapshot(nowMs).inFlight === 0;
  const { trouble } = health;
  const known = { itemMs, isFree, hasWaiting };
  if (trouble === undefined) return { ...known, trouble: undefined, reason: "" };
  const reason = `${trouble.reason}: ${trouble.message}`;
  return { ...known, reason, trouble: { ...kindOf(trouble, limits, nowMs), sinceMs: trouble.sinceMs } };
}

/** A key or a model that was accepted is waited for while probes ask whether an item is refused for its own sake. */
function kindOf(
  { reason }: Trouble,
  limits: LaneLimits,
  nowMs: number,
): Pick<MemberTrouble, "kind" | "waitMs"> {
  const { cooldownMs: waitMs } = limits.snapshot(nowMs);
  const isStopped = limits.isPaused && (reason === "quota" || !limits.paused.isAsking);
  if (isStopped) return { kind: reason === "model_unavailable" ? "caller" : "account", waitMs };
  const isLimit = reason === "rate_limited" || (reason === "overloaded" && waitMs > 0);
  return { kind: isLimit ? "limit" : "outage", waitMs };
}
