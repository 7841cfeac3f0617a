/**
 * What an attempt to deliver a webhook came to, and when the next one is. Pure.
 *
 *   2xx -> delivered       410 -> gone, the endpoint wants no more       else -> retry, until the schedule ends: failed
 *
 * Attempts: at once, then after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 10 h (the schedule of Svix, docs.svix.com/retries,
 * 2026-11-21), each up to a tenth longer, so that what failed together does not come back together. A longer wait that
 * the receiver asks for by Retry-After is kept, up to 24 h.
 */
import type { GuardedResult } from "../egress/egress.ts";
import { retryAfterMs } from "../providers/retry_after.ts";

const SECOND_MS = 1_000;
const HOUR_MS = 3_600_000;

/** Before the first attempt, the second, and so on. */
const DELAYS_MS: readonly number[] = [
  0,
  5 * SECOND_MS,
  300 * SECOND_MS,
  1_800 * SECOND_MS,
  2 * HOUR_MS,
  5 * HOUR_MS,
  10 * HOUR_MS,
  10 * HOUR_MS,
];
const JITTER = 0.1;

export type Attempted =
  | { readonly kind: "delivered" }
  | { readonly kind: "gone" }
  | { readonly kind: "retry"; readonly delayMs: number }
  | { readonly kind: "failed" };

/** `attempts` made so far, this one included; `random` in [0, 1). */
export function decide(
  result: GuardedResult,
  {
    attempts,
    wallMs,
    random,
  }: { readonly attempts: number; readonly wallMs: number; readonly random: number },
): Attempted {
  if (result.ok && result.status >= 200 && result.status < 300) return { kind: "delivered" };
  if (result.ok && result.status === 410) return { kind: "gone" };
  const delayMs = DELAYS_MS[attempts];
  if (delayMs === undefined) return { kind: "failed" };
  const askedMs = result.ok ? (retryAfterMs(result.headers, wallMs) ?? 0) : 0;
  return { kind: "retry", delayMs: Math.max(Math.ceil(delayMs * (1 + JITTER * random)), askedMs) };
}
