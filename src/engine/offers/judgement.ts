/**
 * What the end of an attempt in a cheaper tier means: whether the tier or the item is to blame.
 *
 *   refused for want of capacity (429 without a named limit, 498, 503, 529)   the tier's: costs nothing, counts nothing
 *   not answered in its time                                                  the tier's: in doubt, repeated at once
 *   400, 403, 404, 422                                                        perhaps the tier's: asked again in realtime, for nothing
 *   everything else                                                           as in realtime
 */
import type { AttemptResult } from "../../dispatch/attempt.ts";

/** Where the tier is to blame: `shed` for want of capacity, `slow`, or `unknown` to the model or the item, as far as one answer can tell. */
export type TierFailure = "shed" | "slow" | "unknown";

const UNKNOWN_CODES: ReadonlySet<string> = new Set([
  "invalid_request",
  "authentication_failed",
  "model_not_found",
]);

/** Undefined where the tier is not to blame. */
export function tierFailureOf(result: AttemptResult): TierFailure | undefined {
  const { class: kind, code = "", scope } = result;
  if (code === "timeout") return "slow";
  if (kind === "refused" && result.isRateLimit === true && result.isLimitNamed !== true) return "shed";
  if (kind === "refused" && code === "overloaded") return "shed";
  const isUnknown = kind === "permanent" && scope !== "provider" && UNKNOWN_CODES.has(code);
  return isUnknown ? "unknown" : undefined;
}

/** Whether the next attempt is to be in realtime, after one in a tier that is not to blame. */
export function goesToRealtime({ class: kind, isRateLimit }: AttemptResult): boolean {
  return isRateLimit !== true && kind !== "not_sent" && kind !== "unfit";
}

/** `openai answered 429 (code): ...` in words that say that nothing is wrong. */
function messageOf(message: string, failure: TierFailure, tier: string): string {
  if (failure !== "shed") return `${message} (in the tier ${tier})`;
  return `${message.split(":", 1)[0]}: the tier ${tier} has no capacity now, which costs nothing`;
}

/** The same attempt, as one whose tier is to blame: it is free to repeat, but what may have been billed stays in doubt. */
export function blamedOnTier(result: AttemptResult, failure: TierFailure, tier: string): AttemptResult {
  const { retryAfterMs: _wait, isRateLimit: _limit, isRampLimit: _ramp, learnt: _learnt, ...rest } = result;
  return {
    ...rest,
    class: failure === "slow" ? "ambiguous" : "refused",
    code: failure === "unknown" ? "overloaded" : (result.code ?? "overloaded"),
    message: messageOf(result.message, failure, tier),
    scope: "item",
    isOverload: true,
    ofTier: failure,
  };
}
