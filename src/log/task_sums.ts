/**
 * Sums of what items of a task took. Money in whole nano-USD, each item's rounded once (price/nano.ts), stored as USD.
 */
import { minusUsd, plusUsd } from "../price/nano.ts";
import type { EndedStatus, FieldsOf } from "./records.ts";

/** What the ended items of a task took together; `completed` to `cancelled` count them. */
export type TaskSums = Omit<FieldsOf<"sums">, "task">;

export const NO_SUMS: TaskSums = {
  completed: 0,
  failed: 0,
  expired: 0,
  cancelled: 0,
  outBytes: 0,
  attempts: 0,
  ambiguousAttempts: 0,
  inputTokens: 0,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
  listUsd: 0,
  usd: 0,
  billedUsd: 0,
  ambiguousUsd: 0,
};

type Taken = Omit<TaskSums, EndedStatus | "outBytes">;

/** Without what it took `before`. Hot. Names each part, because V8 is slow to spread objects with fractions. */
export function addedSums(
  sums: TaskSums,
  taken: Taken | undefined,
  status: EndedStatus,
  items: number,
  before?: Taken,
): TaskSums {
  return {
    completed: sums.completed + (status === "completed" ? items : 0),
    failed: sums.failed + (status === "failed" ? items : 0),
    expired: sums.expired + (status === "expired" ? items : 0),
    cancelled: sums.cancelled + (status === "cancelled" ? items : 0),
    outBytes: sums.outBytes,
    attempts: sums.attempts + (taken?.attempts ?? 0) - (before?.attempts ?? 0),
    ambiguousAttempts:
      sums.ambiguousAttempts + (taken?.ambiguousAttempts ?? 0) - (before?.ambiguousAttempts ?? 0),
    inputTokens: sums.inputTokens + (taken?.inputTokens ?? 0) - (before?.inputTokens ?? 0),
    cachedTokens: sums.cachedTokens + (taken?.cachedTokens ?? 0) - (before?.cachedTokens ?? 0),
    cacheWriteTokens:
      sums.cacheWriteTokens + (taken?.cacheWriteTokens ?? 0) - (before?.cacheWriteTokens ?? 0),
    outputTokens: sums.outputTokens + (taken?.outputTokens ?? 0) - (before?.outputTokens ?? 0),
    reasoningTokens: sums.reasoningTokens + (taken?.reasoningTokens ?? 0) - (before?.reasoningTokens ?? 0),
    listUsd: minusUsd(plusUsd(sums.listUsd, taken?.listUsd ?? 0), before?.listUsd ?? 0),
    usd: minusUsd(plusUsd(sums.usd, taken?.usd ?? 0), before?.usd ?? 0),
    billedUsd: minusUsd(plusUsd(sums.billedUsd, taken?.billedUsd ?? 0), before?.billedUsd ?? 0),
    ambiguousUsd: minusUsd(plusUsd(sums.ambiguousUsd, taken?.ambiguousUsd ?? 0), before?.ambiguousUsd ?? 0),
  };
}
