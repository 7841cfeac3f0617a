/**
 * The answer of a lane's limits to a request: the right to send it, or how long to wait.
 */
import type { TokenLoad } from "../work/limits.ts";
import type { DrawnMarks } from "./shared/drawn_load.ts";

/** Where a request was counted. */
export interface CountedIn {
  /** The same slot in all four quotas. */
  readonly slot: number;
  /** In the quotas that processes share. */
  readonly drawn: DrawnMarks | undefined;
}

/** The right to send one request. Its state belongs to the LaneLimits that granted it. */
export interface Permit {
  /** The one request that tests a paused lane or an outage. */
  readonly isProbe: boolean;
  /** When it was granted. */
  readonly atMs: number;
  /** When its request is sent: at `atMs`, or later (`postpone`). */
  sentAtMs: number;
  /** Tokens reserved, whole numbers. */
  readonly load: TokenLoad;
  /** Where the quotas counted it. */
  counted: CountedIn;
  /** The permit of the shared limits. */
  readonly shared: Permit | undefined;
  /** Whether it counts for an unknown limit. */
  isHidden: boolean;
  /** Its number among those that count. */
  index: number;
  /** Whether its tokens are followed until they are used. */
  readonly isFollowed: boolean;
  /** Whether the first part of its answer has arrived, which counted as a success for the places. */
  isBegun: boolean;
  isSettled: boolean;
  isReleased: boolean;
}

/** The cause of a refusal: a quota, the places in flight, the gate, or a pause. */
export type RefusalReason = "requests" | "tokens" | "concurrency" | "cooldown" | "outage" | "paused";

/**
 * A permit, or how long to wait before asking again: above 0; Infinity if only an event helps (a release for `concurrency`, a resume
 * for `paused` without probes).
 */
export type Reservation =
  | { readonly ok: true; readonly permit: Permit }
  | { readonly ok: false; readonly waitMs: number; readonly reason: RefusalReason };

/** Whole, finite and not negative, so that a bucket counts without drift. */
export function wholeLoad(load: TokenLoad): TokenLoad {
  if (isWhole(load.inputTokens) && isWhole(load.outputTokens)) return load;
  return { inputTokens: wholeTokens(load.inputTokens), outputTokens: wholeTokens(load.outputTokens) };
}

function wholeTokens(tokens: number): number {
  return tokens > 0 && tokens < Number.POSITIVE_INFINITY ? Math.ceil(tokens) : 0;
}

function isWhole(tokens: number): boolean {
  return tokens >= 0 && Number.isInteger(tokens);
}
