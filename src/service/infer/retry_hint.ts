/**
 * Says why a retry of a task runs no item again, for the answer with `retried: 0`.
 */
import type { TaskCounts } from "../../work/task.ts";

/** `counts` are those of the task; `codes` are those of the request, undefined without any. */
export function retryHint(
  { failed, expired, cancelled, submitted }: TaskCounts,
  codes: readonly string[] | undefined,
): string {
  const open = submitted === 0 ? "" : `; ${submitted} are not final yet`;
  if (failed + expired + cancelled === 0) return `no item ended in an error${open}`;
  if (codes !== undefined) return `no item that may run again ended with ${codes.join(" or ")}${open}`;
  if (failed + expired === 0) return `cancelled items run again only with the code "cancelled"${open}`;
  return `no error of the items is marked retryable; to run them again all the same, name their codes, as {"codes": ["filtered"]}${open}`;
}
