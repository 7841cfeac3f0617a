/**
 * What the items of a lot were sold for, by model, from the journal of its run: read once, when the run has ended.
 */
import { settledLines } from "../../engine/files/settled_lines.ts";
import { decodeBody } from "../../engine/files/task_body.ts";
import type { OutcomeRecord } from "../../engine/journal/journal.ts";
import type { EngineStorage } from "../../engine/journal/storage.ts";
import { type ModelSales, refundOf, type Sale, SaleSums } from "../../price/sales.ts";
import { type LotRecord, lotRunName } from "./lot_record.ts";

/** Sums of its items. Empty for a lot whose run is not there any more. */
export async function lotSales(
  { store }: Pick<EngineStorage, "store">,
  { id, refundShare = 0 }: Pick<LotRecord, "id" | "refundShare">,
): Promise<{ readonly models: ModelSales; readonly refundUsd: number }> {
  const sums = new SaleSums();
  const run = await store.taskByName(lotRunName(id));
  if (run !== undefined)
    for await (const { outcome } of settledLines(store, run.id, decodeBody(run.body))) {
      const model = outcome.sent?.as.model;
      sums.add(model === "" ? undefined : model, saleOf(outcome, refundShare));
    }
  return { models: sums.models, refundUsd: sums.refundUsd };
}

function saleOf(outcome: OutcomeRecord, refundShare: number): Sale {
  const { inputTokens, outputTokens, listUsd, usd, billedUsd, ambiguousUsd, sent } = outcome;
  const refundUsd = sent?.isMet === false ? refundOf(usd, refundShare) : 0;
  return { items: 1, inputTokens, outputTokens, listUsd, usd, billedUsd, ambiguousUsd, refundUsd };
}
