/**
 * The receipt of an item that has ended, from its record. Its money is rounded here, once (price/nano.ts).
 */
import type { Receipt } from "../../jsonl/receipts.ts";
import { nanoOf } from "../../price/nano.ts";
import { type UsedPrice, versionText } from "../../price/used_prices.ts";
import { parseModelId } from "../../work/request.ts";
import type { OutcomeRecord, Spent } from "../journal/journal.ts";
import type { SentFacts } from "../journal/sent_rows.ts";

/** What an item took, as its record has it. */
export type TakenByItem = Pick<
  Spent,
  | ("inputTokens" | "cachedTokens" | "cacheWriteTokens" | "outputTokens")
  | ("listUsd" | "billedUsd" | "ambiguousUsd")
> & { readonly attempts: number };

/** Of a line of a run. `prices`: its table, in the order of the numbers from 1. */
export function runReceipt(outcome: OutcomeRecord, keyJson: string, prices: readonly UsedPrice[]): Receipt {
  const price = prices[outcome.priceNumber - 1];
  const priceVersion = price === undefined ? null : versionText(price);
  return receiptOf(keyJson, outcome, { sent: outcome.sent, priceVersion, model: price?.model });
}

/** Of any item; `model` is used where it was not stated how the item was sent. */
export function receiptOf(
  keyJson: string,
  taken: TakenByItem,
  {
    sent,
    priceVersion,
    model: named,
  }: {
    readonly sent: Partial<SentFacts> | undefined;
    readonly priceVersion: string | null;
    readonly model?: string | undefined;
  },
): Receipt {
  const { as, startedWallMs, endedWallMs, isMet } = sent ?? {};
  const model = (as?.model ?? "") === "" ? (named ?? null) : (as?.model ?? null);
  return {
    keyJson,
    lane: as?.lane ?? null,
    provider: model === null ? null : (parseModelId(model)?.provider ?? null),
    model,
    tierAsked: as?.tierAsked ?? null,
    tier: as?.tier ?? null,
    batch: as?.batch ?? null,
    inputTokens: taken.inputTokens,
    cachedTokens: taken.cachedTokens,
    cacheWriteTokens: taken.cacheWriteTokens,
    outputTokens: taken.outputTokens,
    priceVersion,
    listNano: nanoOf(taken.listUsd),
    billedNano: nanoOf(taken.billedUsd),
    ambiguousNano: nanoOf(taken.ambiguousUsd),
    attempts: taken.attempts,
    startedWallMs,
    endedWallMs,
    deadlineWallMs: as?.deadlineWallMs ?? null,
    isMet,
  };
}
