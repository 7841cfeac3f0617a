/**
 * What one attempt of an item cost in its run, and which price says so.
 *
 *   an answer with usage           -> billed, at the tier that was served
 *   an answer without usage        -> billed as estimated, and the rest of the most that it may have cost is in doubt
 *   a failure after which work     -> nothing billed unless its usage is known, the most that it may have cost is in doubt:
 *   may have been done                an unknown end, an answer that is filtered, empty or unreadable, a failure of the server
 *   refused, or never sent         -> nothing
 *
 * Hot path, once an attempt: its parts are named, because V8 takes 0.6 us to spread an object with fractions in it.
 */
import { type AttemptResult, isUsageUnknown } from "../../dispatch/attempt.ts";
import { costOf, isCharged } from "../../price/cost.ts";
import type { ModelPrice, PriceBook } from "../../price/price_book.ts";
import { type Cost, NO_USAGE, type Usage } from "../../work/outcome.ts";
import type { ClosedRecord, Spent } from "./journal.ts";
import type { PriceTable } from "./price_table.ts";

/** How a run reckons. */
export interface CostTerms {
  /** The price factor of a model in this run, or of one of its lines, frozen when it was accepted. */
  readonly factorOf: (model: string, line?: number) => number;
  /** Numbers the prices that were used. */
  readonly prices: PriceTable;
}

/** Money, and the number of its price in the run's table. */
export interface PricedCost extends Cost {
  readonly priceNumber: number;
}

/** Real usage at list price, what a service charges for it, and what the provider bills. */
export function priced(
  book: PriceBook,
  terms: CostTerms,
  model: string,
  usage: Usage,
  { wallMs, servedTier }: { readonly wallMs: number; readonly servedTier?: string | undefined },
): PricedCost {
  const known = book.priceOf(model, wallMs);
  const { factor: laneFactor, cachedFactor: laneCachedFactor } = book.laneFactorOf(
    known.provider,
    servedTier,
  );
  const factor = terms.factorOf(model);
  const { listUsd, usd, billedUsd, isEstimated } = costOf(usage, known.price, {
    factor,
    laneFactor,
    laneCachedFactor,
  });
  return { listUsd, usd, billedUsd, isEstimated, priceNumber: numberIn(terms, model, known, usage) };
}

function numberIn({ prices }: CostTerms, model: string, { price }: ModelPrice, usage: Usage): number {
  return prices.numberOf(model, isCharged(usage) ? "charged" : price);
}

/** An attempt of a model, as it ended. */
export interface EndedAttempt {
  readonly model: string;
  readonly result: Pick<AttemptResult, "class" | "usage" | "servedTier"> &
    Partial<Pick<AttemptResult, "scope" | "status">>;
  /** Of the item. */
  readonly line: number;
  /** The most that it may have cost. */
  readonly mostUsd: number;
  readonly wallMs: number;
}

/** What one attempt took. */
export function spentBy(
  book: PriceBook,
  terms: CostTerms,
  { model, line, result, mostUsd, wallMs }: EndedAttempt,
): Spent {
  const { usage = NO_USAGE, servedTier } = result;
  const known = book.priceOf(model, wallMs);
  const { factor: laneFactor, cachedFactor: laneCachedFactor } = book.laneFactorOf(
    known.provider,
    servedTier,
  );
  const factor = terms.factorOf(model, line);
  const cost = costOf(usage, known.price, { factor, laneFactor, laneCachedFactor });
  const isOpen = mayBeBilled(result) && isUsageUnknown(usage);
  const isUnpriced = mostUsd === 0;
  return {
    isEstimated:
      (isOpen && (isUnpriced || isAnswer(result.status))) ||
      usage.isEstimated ||
      (cost.isEstimated && usage !== NO_USAGE),
    inputTokens: usage.inputTokens,
    cachedTokens: usage.cachedTokens,
    cacheWriteTokens: usage.cacheWriteTokens,
    outputTokens: usage.outputTokens,
    reasoningTokens: usage.reasoningTokens,
    listUsd: cost.listUsd,
    usd: cost.usd,
    billedUsd: cost.billedUsd,
    ambiguousUsd: isOpen ? Math.max(0, mostUsd - cost.billedUsd) : 0,
    priceNumber: numberIn(terms, model, known, usage),
  };
}

/** Whether work may have been done: a permanent failure says whether to repeat an item, and not what it cost. */
function mayBeBilled({ class: kind, scope, status = 0 }: EndedAttempt["result"]): boolean {
  if (kind !== "permanent") return kind === "ambiguous" || kind === "success" || kind === "unfit";
  return scope === "item" && (isAnswer(status) || isServerFailure(status));
}

function isAnswer(status = 0): boolean {
  return status >= 200 && status <= 299;
}

/** The statuses that are ambiguous (`providers/refusals.ts`), and permanent where the provider forbids to repeat them. */
function isServerFailure(status: number): boolean {
  return status === 424 || status === 499 || (status >= 500 && status !== 503 && status !== 529);
}

/** The largest numbers that a record can hold: 16 bits for attempts, 32 for each kind of tokens (journal_rows.ts). */
const ATTEMPTS_MAX = 0xffff;
const TOKENS_MAX = 0xffff_ffff;

/** Adds `last` to the usage of lines from before they were opened again or removed, in as few records as can hold it. */
export function addGone(records: ClosedRecord[], last: ClosedRecord): void {
  const before = records.at(-1);
  const attempts = (before?.attempts ?? 0) + last.attempts;
  const sum = before === undefined ? last : addSpent(before, last);
  const { inputTokens, cachedTokens, outputTokens, reasoningTokens } = sum;
  const tokensMost = Math.max(inputTokens, cachedTokens, outputTokens, reasoningTokens);
  if (before === undefined || attempts > ATTEMPTS_MAX || tokensMost > TOKENS_MAX) {
    records.push(last);
    return;
  }
  records[records.length - 1] = {
    ...sum,
    line: last.line,
    attempts,
    ambiguousAttempts: before.ambiguousAttempts + last.ambiguousAttempts,
    uncounted: before.uncounted + last.uncounted,
    uncountedAmbiguous: before.uncountedAmbiguous + last.uncountedAmbiguous,
    unusableAnswers: 0,
  };
}

/** With a request whose end is not known, and which may have cost `mostUsd`: estimated if its price is not known either. */
export function addDoubt(before: Spent, mostUsd: number): Spent {
  return {
    ...before,
    isEstimated: before.isEstimated || mostUsd === 0,
    ambiguousUsd: before.ambiguousUsd + mostUsd,
  };
}

/** What an item took in earlier runs: its line has it, the sums of this run do not. */
export type TakenEarlier = Spent & Pick<ClosedRecord, "attempts" | "ambiguousAttempts">;

/** The sum of an item's attempts, with the price of the last one. */
export function addSpent(before: Spent, last: Spent): Spent {
  return {
    isEstimated: before.isEstimated || last.isEstimated,
    inputTokens: before.inputTokens + last.inputTokens,
    cachedTokens: before.cachedTokens + last.cachedTokens,
    cacheWriteTokens: before.cacheWriteTokens + last.cacheWriteTokens,
    outputTokens: before.outputTokens + last.outputTokens,
    reasoningTokens: before.reasoningTokens + last.reasoningTokens,
    listUsd: before.listUsd + last.listUsd,
    usd: before.usd + last.usd,
    billedUsd: before.billedUsd + last.billedUsd,
    ambiguousUsd: before.ambiguousUsd + last.ambiguousUsd,
    priceNumber: last.priceNumber,
  };
}
