/**
 * What an attempt says to the limits: what became of it, and how many tokens it took.
 */
import type { AttemptResult } from "../../dispatch/attempt.ts";
import type { Signal } from "../../limits/limits.ts";
import type { TokenLoad } from "../../work/limits.ts";
import { NO_USAGE } from "../../work/outcome.ts";
import type { EngineObserver } from "../journal/observer.ts";
import type { ItemCall } from "./item_call.ts";

/** Tokens to count instead of the reserved ones; undefined when nobody knows, and the reserved ones stay. */
export function tokensTaken(result: AttemptResult): TokenLoad | undefined {
  if (result.usage !== undefined) return result.usage;
  if (result.ofTier !== undefined && result.class === "refused") return NO_USAGE;
  return isUnsent(result) ? NO_USAGE : undefined;
}

/** Whether no whole request left this machine. */
export function isUnsent({ class: kind, code }: AttemptResult): boolean {
  return kind === "not_sent" || code === "media_unreadable";
}

/** What a failed attempt may speak of: a wait that the provider imposes, its item, or either of item and lane. */
export function suspectsOf(result: AttemptResult): "provider" | "item" | "either" {
  switch (result.class) {
    case "success":
    case "unfit":
      return "item";
    case "permanent":
      if (result.scope === "item") return "item";
      return result.code === "quota_exceeded" ? "provider" : "either";
    case "refused":
      return result.isRateLimit === true || result.isOverload === true ? "provider" : "either";
    case "ambiguous":
      if (result.code === "cancelled") return "provider"; // cut by ourselves
      return result.code === "empty_output" || result.code === "response_too_large" ? "item" : "either";
    case "not_sent":
      return "either";
  }
}

const SUCCESS: Signal = { kind: "success" };

/** How an attempt ended, for the gate and the places in flight. */
export function signalOf(result: AttemptResult): Signal {
  switch (result.class) {
    case "success":
    case "unfit":
      return SUCCESS;
    case "not_sent":
      return { kind: "not_sent" };
    case "refused":
      return refusalSignal(result);
    case "ambiguous":
      return result.code === "empty_output" || result.code === "response_too_large"
        ? { kind: "other" }
        : { kind: "failed" };
    case "permanent":
      return { kind: "other" };
  }
}

function refusalSignal({ retryAfterMs, isRateLimit, isRampLimit }: AttemptResult): Signal {
  const asked = retryAfterMs === undefined ? {} : { retryAfterMs };
  return isRateLimit === true
    ? { kind: "rate_limited", ...asked, isRampLimit }
    : { kind: "overloaded", ...asked };
}

/** Tells the observer of an attempt that has ended. */
export function tellAttempt(
  observer: EngineObserver | undefined,
  { owner, lane, model }: ItemCall,
  { code, usage, latencyMs }: AttemptResult,
): void {
  observer?.attempted({ project: owner.settings.project, lane: lane.key, model, code, usage, latencyMs });
}
