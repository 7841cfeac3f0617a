/**
 * A model's lane as failover sees it.
 */
import type { LaneLimits } from "../../limits/limits.ts";
import type { MemberTrouble } from "../../queue/failover.ts";
import type { LaneKey } from "../../queue/lanes.ts";
import type { Trouble } from "../items/holds.ts";

/** What is known of the lane of a model. */
export interface MemberLane {
  readonly key: LaneKey;
  readonly trouble: MemberTrouble | undefined;
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
const UNKNOWN = { trouble: undefined, itemMs: 0, isFree: true, hasWaiting: false } as const;

/** `lane` is undefined before it is needed; `lacksKey`: its provider has no key. */
export function memberLane(
  key: LaneKey,
  lane: AskedLane | undefined,
  lacksKey: boolean,
  nowMs: number,
): MemberLane {
  if (lacksKey) {
    const trouble = { kind: "caller", sinceMs: nowMs, waitMs: 0 } as const;
    return { ...UNKNOWN, key, trouble, isFree: false };
  }
  if (lane === undefined) return { ...UNKNOWN, key };
  const { limits, itemMs, health } = lane;
  const hasWaiting = lane.waiting().next().done !== true;
  const isFree = !hasWaiting && limits.retryMs(nowMs) === 0 && limits.inFlight === 0;
  const { trouble } = health;
  const known = { key, itemMs, isFree, hasWaiting };
  if (trouble === undefined) return { ...known, trouble };
  return { ...known, trouble: { ...kindOf(trouble, limits, nowMs), sinceMs: trouble.sinceMs } };
}

/** A key or a model that was accepted is waited for while probes ask whether an item is refused for its own sake. */
function kindOf(
  { reason }: Trouble,
  limits: LaneLimits,
  nowMs: number,
): Pick<MemberTrouble, "kind" | "waitMs"> {
  const waitMs = limits.cooldownMs(nowMs);
  const isStopped = limits.isPaused && (reason === "quota" || !limits.paused.isAsking);
  if (isStopped) return { kind: reason === "model_unavailable" ? "caller" : "account", waitMs };
  const isLimit = reason === "rate_limited" || (reason === "overloaded" && waitMs > 0);
  return { kind: isLimit ? "limit" : "outage", waitMs };
}
