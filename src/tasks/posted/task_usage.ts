/**
 * What posted tasks used since their last note, from the work log.
 */

import type { PostedItemReader } from "../../engine/posted/posted_reader.ts";
import { type PostedRecord, rowToPosted } from "../../engine/posted/posted_record.ts";
import { postedSales } from "../../engine/posted/posted_sales.ts";
import type { TaskSums } from "../../log/open_work.ts";
import type { WorkLog } from "../../log/work_log.ts";
import { completeMoney, roundedMoney } from "../../price/money.ts";
import { minusUsd } from "../../price/nano.ts";
import { lessSale, NO_SALE, NO_SALES } from "../../price/sales.ts";
import {
  addUsage,
  NO_PROJECT_USAGE,
  type ProjectUsage,
  takenUsd,
  usageSince,
} from "../usage/project_usage.ts";

/** A task, and what it used since its last note. */
export interface UsedTask {
  readonly task: PostedRecord;
  readonly usage: ProjectUsage;
}

/** For a task with ended items; undefined if it was removed. */
export async function readUsed(log: WorkLog, number: number): Promise<UsedTask | undefined> {
  const row = await log.rows.loggedTask(number);
  const sums = await log.sumsOf(number);
  if (row === undefined || sums === undefined) return undefined;
  const task = rowToPosted(log, row);
  return { task, usage: usedSince(sums, task.noted) };
}

/** Like `readUsed`, with its models and refunds; for a final task. */
export async function readSold(
  log: WorkLog,
  reader: PostedItemReader,
  number: number,
): Promise<UsedTask | undefined> {
  const used = await readUsed(log, number);
  if (used === undefined) return undefined;
  const { task } = used;
  const { models, refundUsd: allUsd } = await postedSales(reader, task);
  const { models: notedModels = NO_SALES, refundUsd: notedUsd = 0 } = task.noted ?? {};
  const since = Object.entries(models).map(([model, sale]) => {
    const left = lessSale(sale, notedModels[model] ?? NO_SALE);
    return [model, { ...left, refundUsd: Math.max(0, left.refundUsd) }] as const;
  });
  const refundUsd = Math.max(0, minusUsd(allUsd, notedUsd));
  return { task, usage: { ...used.usage, models: Object.fromEntries(since), refundUsd } };
}

/** What a task with these sums used since `noted`; `open`: by items that have not ended. */
export function usedSince(sums: TaskSums, noted: PostedRecord["noted"], open?: TaskSums): ProjectUsage {
  const all = open === undefined ? usageOf(sums) : addUsage(usageOf(sums), usageOf(open));
  const usage = usageSince(all, { ...NO_PROJECT_USAGE, ...noted });
  return { ...usage, ...roundedMoney(completeMoney(usage)) };
}

/**
 * Like `readUsed`, for an open task of an earlier process, including what its open items took: requests that were under way are in
 * doubt. Undefined if nothing was used.
 */
export async function readOpenUsed(log: WorkLog, number: number): Promise<UsedTask | undefined> {
  const [open, sums, tried] = [log.task(number), await log.sumsOf(number), log.triedItems(number)];
  if (open === undefined || sums === undefined) return undefined;
  if (open.left === open.items && takenUsd(sums) === 0 && tried.size === 0) return undefined;
  const row = await log.rows.loggedTask(number);
  if (row === undefined) return undefined;
  const task = rowToPosted(log, row);
  const taken = log.takenOf(number);
  let { ambiguousUsd } = taken;
  for (const [item, { intents }] of tried)
    if (log.isOpen(number, item)) for (const { mostUsd } of intents) ambiguousUsd += mostUsd;
  return { task, usage: usedSince(sums, task.noted, { ...taken, ambiguousUsd }) };
}

function usageOf(sums: TaskSums): ProjectUsage {
  const { completed, failed, expired, cancelled, inputTokens, outputTokens } = sums;
  const { listUsd, usd, billedUsd, ambiguousUsd } = sums;
  const items = completed + failed + expired + cancelled;
  return { items, inputTokens, outputTokens, listUsd, usd, billedUsd, ambiguousUsd };
}
