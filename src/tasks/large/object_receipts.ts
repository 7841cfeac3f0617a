/**
 * The receipt of one object of a large task, from the journals of the lots that have its line: it is at the lot that has its present
 * end, and what earlier lots took before a retry is added.
 *
 * Each journal is read once, about 2 us a line of the lot.
 */
import type { EngineCore } from "../../engine/core.ts";
import { type SettledLine, settledLines } from "../../engine/files/settled_lines.ts";
import { decodeBody } from "../../engine/files/task_body.ts";
import { runReceipt } from "../../engine/receipts/receipt_of.ts";
import type { Receipt } from "../../jsonl/receipts.ts";
import type { UsedPrice } from "../../price/used_prices.ts";
import { objectNumber } from "../../work/object_id.ts";
import { lotRunName } from "../lots/lot_record.ts";
import type { Lots } from "../lots/lots.ts";
import type { TaskRecord } from "../lots/task_record.ts";
import { placeOf } from "../shapes/ids.ts";
import { layersOf } from "./part_layers.ts";

/** Of an object that exists; undefined while it has not ended. */
export async function objectReceipt(
  { store }: Pick<EngineCore["storage"], "store">,
  lots: Lots,
  task: TaskRecord,
  id: string,
): Promise<Receipt | undefined> {
  const { part: base, line: number } = placeOf(objectNumber(task.id, id));
  let sum: Receipt | undefined;
  for (const { lot, part, stands } of await layersOf(lots, task, base)) {
    const found = await findLine(store, lot.record.id, part.firstLine + number - 1);
    const prices = found?.prices ?? [];
    const own = found && runReceipt(found.outcome, JSON.stringify(id.toLowerCase()), prices);
    sum = own === undefined || sum === undefined ? (own ?? sum) : added(sum, own);
    if (stands(number)) return own === undefined ? undefined : sum;
  }
  return undefined;
}

async function findLine(
  store: EngineCore["storage"]["store"],
  lotId: string,
  line: number,
): Promise<{ readonly outcome: SettledLine["outcome"]; readonly prices: readonly UsedPrice[] } | undefined> {
  const run = await store.taskByName(lotRunName(lotId));
  if (run === undefined) return undefined;
  const prices: UsedPrice[] = [];
  const lines = settledLines(store, run.id, decodeBody(run.body), (step) => void prices.push(...step.prices));
  for await (const { outcome } of lines) if (outcome.line === line) return { outcome, prices };
  return undefined;
}

/** The last receipt of an item with what it took before. */
function added(before: Receipt, last: Receipt): Receipt {
  return {
    ...last,
    inputTokens: before.inputTokens + last.inputTokens,
    cachedTokens: before.cachedTokens + last.cachedTokens,
    cacheWriteTokens: before.cacheWriteTokens + last.cacheWriteTokens,
    outputTokens: before.outputTokens + last.outputTokens,
    listNano: before.listNano + last.listNano,
    billedNano: before.billedNano + last.billedNano,
    ambiguousNano: before.ambiguousNano + last.ambiguousNano,
    attempts: before.attempts + last.attempts,
    startedWallMs: before.startedWallMs ?? last.startedWallMs,
  };
}
