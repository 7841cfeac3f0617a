/**
 * What posted tasks used since it was noted of them last, as the work log says.
 */
import { madeOf } from "../../engine/posted/tried_items.ts";
import type { TaskSums } from "../../log/open_work.ts";
import type { WorkLog } from "../../log/work_log.ts";
import { completeMoney, roundedMoney } from "../../price/money.ts";
import { NO_PROJECT_USAGE, type ProjectUsage, takenUsd, usageSince } from "../usage/project_usage.ts";
import { type PostedRecord, rowToPosted } from "./posted_record.ts";

/** A task, and what it used since it was noted last. */
export interface UsedTask {
  readonly task: PostedRecord;
  readonly usage: ProjectUsage;
}

/** Of a task with ended items; undefined when it was removed. */
export async function readUsed(log: WorkLog, number: number): Promise<UsedTask | undefined> {
  const row = await log.rows.loggedTask(number);
  const sums = await log.sumsOf(number);
  if (row === undefined || sums === undefined) return undefined;
  const task = rowToPosted(log, row);
  return { task, usage: usedSince(sums, task.noted) };
}

/** What a task with these sums used since that was noted. */
export function usedSince(sums: TaskSums, noted: PostedRecord["noted"]): ProjectUsage {
  const { completed, failed, expired, cancelled, inputTokens, outputTokens } = sums;
  const items = completed + failed + expired + cancelled;
  const { listUsd, usd, billedUsd, ambiguousUsd } = sums;
  const all = { items, inputTokens, outputTokens, listUsd, usd, billedUsd, ambiguousUsd };
  const usage = usageSince(all, { ...NO_PROJECT_USAGE, ...noted });
  return { ...usage, ...roundedMoney(completeMoney(usage)) };
}

/** As `readUsed`, of an open task; undefined when none of its items has ended. */
export async function readOpenUsed(log: WorkLog, number: number): Promise<UsedTask | undefined> {
  const [open, sums] = [log.task(number), await log.sumsOf(number)];
  const hasEnded = open !== undefined && sums !== undefined && (open.left < open.items || takenUsd(sums) > 0);
  return hasEnded ? readUsed(log, number) : undefined;
}

/** What an open task took that was not noted, in USD: by its ended items, and by the attempts of the others. */
export async function openUsdOf(log: WorkLog, number: number): Promise<number> {
  const ended = await readOpenUsed(log, number);
  let usd = ended === undefined ? 0 : takenUsd(ended.usage);
  for (const [item, tried] of log.triedItems(number))
    if (log.isOpen(number, item))
      usd += takenUsd(madeOf(tried).spent) - takenUsd(tried.before ?? NO_PROJECT_USAGE);
  return usd;
}
