/**
 * The receipt of one item of a posted task, from the row of its answer.
 */
import type { PostedItemReader } from "../../engine/posted/posted_reader.ts";
import { deadlineWallMsOf, type PostedRecord, restEndedWallMs } from "../../engine/posted/posted_record.ts";
import { isInTime } from "../../engine/posted/posted_sales.ts";
import { receiptOf } from "../../engine/receipts/receipt_of.ts";
import type { Receipt } from "../../jsonl/receipts.ts";
import type { WorkLog } from "../../log/work_log.ts";
import { objectId } from "../../work/object_id.ts";

const NOTHING_TAKEN = {
  inputTokens: 0,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  outputTokens: 0,
  listUsd: 0,
  billedUsd: 0,
  ambiguousUsd: 0,
  attempts: 0,
};

/** `item`: its number, from 0. Undefined while it has not ended. */
export async function postedReceipt(
  reader: PostedItemReader,
  log: Pick<WorkLog, "text">,
  task: PostedRecord,
  item: number,
): Promise<Receipt | undefined> {
  for await (const ended of reader.ended(task, item, item + 1)) {
    const { status, taken, stated, endedWallMs, isAnswered } = ended;
    const deadlineWallMs = deadlineWallMsOf(task);
    const restMs = isAnswered ? endedWallMs : restEndedWallMs(task, item, status);
    const [model] = task.works.length === 1 ? (task.works[0] ?? []) : [];
    const rest = {
      endedWallMs: restMs,
      isMet: isInTime(task, ended),
      as: { ...UNSTATED, deadlineWallMs: deadlineWallMs ?? null },
    };
    const priceVersion = stated?.priceVersion ?? log.text(taken?.price ?? 0) ?? null;
    const facts = { sent: stated ?? rest, priceVersion, model };
    return receiptOf(JSON.stringify(objectId(task.id, item + 1)), taken ?? NOTHING_TAKEN, facts);
  }
  return undefined;
}

const UNSTATED = { model: "", lane: null, tierAsked: null, tier: null, batch: null };
