/**
 * Which errors of items a retry runs again: those marked retryable and those that expired, or those with the named codes.
 */
import type { FailureCode } from "../../errors.ts";
import type { Failure } from "../../work/outcome.ts";
import type { RetryFailed } from "./reopen.ts";

/** Why a line makes no object. */
export const UNREADABLE: ReadonlySet<FailureCode> = new Set([
  "invalid_json",
  "invalid_line",
  "invalid_utf8",
  "line_too_long",
  "too_deep",
  "duplicate_member",
  "invalid_key",
]);

/** Whether an item with this error runs again. */
export function isWanted(
  { code, retryable, ambiguous_attempts }: Failure,
  retry: RetryFailed,
  isAtMostOnce: boolean,
): boolean {
  if (UNREADABLE.has(code as FailureCode)) return false; // concerns lines that tasks write themselves
  if (retry !== true) return (retry as readonly string[]).includes(code);
  if (isAtMostOnce && ambiguous_attempts > 0) return false; // it may run twice only if the caller names its code
  return (retryable && code !== "cancelled") || code === "expired"; // the caller cancelled it on purpose
}
