/**
 * What ended items of a posted task were sold for, by model, from the rows of their answers.
 *
 * A retry does not take back a refund: what was noted before it stays, and a task's refunds never fall.
 */
import { type ModelSales, refundOf, type Sale, SaleSums } from "../../price/sales.ts";
import type { EndedPosted, PostedItemReader } from "./posted_reader.ts";
import { deadlineWallMsOf, type PostedRecord, restEndedWallMs } from "./posted_record.ts";

/** Sums of a task. */
export interface PostedSales {
  readonly models: ModelSales;
  readonly refundUsd: number;
}

/** Of all its items that have ended; those that `isCounted` refuses count as no item, with what they took. */
export async function postedSales(
  reader: PostedItemReader,
  task: PostedRecord,
  isCounted: (item: number) => boolean = () => true,
): Promise<PostedSales> {
  const sums = new SaleSums();
  for await (const ended of reader.ended(task))
    sums.add(soldModel(task, ended), saleOf(task, ended, isCounted(ended.item) ? 1 : 0));
  return { models: sums.models, refundUsd: sums.refundUsd };
}

/** Whether an ended item met its deadline; undefined without one. */
export function isInTime(
  task: PostedRecord,
  { item, status, stated, isAnswered, endedWallMs }: EndedPosted,
): boolean | undefined {
  if (stated !== undefined) return stated.isMet;
  const deadlineWallMs = deadlineWallMsOf(task);
  if (deadlineWallMs === undefined) return undefined;
  const atMs = isAnswered ? endedWallMs : restEndedWallMs(task, item, status);
  return status !== "expired" && atMs <= deadlineWallMs;
}

/** The model that answered; of an item that was never sent, the only one of its task. */
function soldModel({ works }: PostedRecord, { stated }: EndedPosted): string | undefined {
  if (stated !== undefined && stated.as.model !== "") return stated.as.model;
  return works.length === 1 ? works[0]?.[0] : undefined;
}

function saleOf(task: PostedRecord, ended: EndedPosted, items: number): Sale {
  const { taken } = ended;
  const { listUsd = 0, usd = 0, billedUsd = 0, ambiguousUsd = 0 } = taken ?? {};
  const isMissed = isInTime(task, ended) === false;
  return {
    items,
    inputTokens: taken?.inputTokens ?? 0,
    outputTokens: taken?.outputTokens ?? 0,
    ...{ listUsd, usd, billedUsd, ambiguousUsd },
    refundUsd: isMissed ? refundOf(usd, task.refundShare ?? 0) : 0,
  };
}
