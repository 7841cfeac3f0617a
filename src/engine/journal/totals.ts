/**
 * Running totals of one task: the sums of its settled lines. A plain record, one field a sum.
 *
 * Money is summed in whole nano-USD, each line's rounded once (price/nano.ts): the sums equal those of the receipts.
 */
import { nanoOf, usdOfNano } from "../../price/nano.ts";
import { countedAs, warningsIn } from "../../work/warning.ts";
import type { ClosedRecord, Spent, StagedOutcome } from "./journal.ts";

/** Counted as a list of warnings, which each step has with its number of lines; the lines themselves say it as their `finish_reason`. */
export const CUT_ANSWER: string = '[{"code":"cut"}]';

/** Sums over settled lines. Counts whole. */
export class Totals {
  completed = 0;
  failed = 0;
  expired = 0;
  cancelled = 0;
  /** Of the completed ones, those that were answered from a cache, which no request was sent for. */
  cached = 0;
  inputTokens = 0;
  cachedTokens = 0;
  cacheWriteTokens = 0;
  outputTokens = 0;
  reasoningTokens = 0;
  /** Of settled lines; see Failure. */
  attempts = 0;
  /** Of them, those that may have been billed without an answer. */
  ambiguousAttempts = 0;
  listNano = 0;
  chargedNano = 0;
  billedNano = 0;
  ambiguousNano = 0;
  isEstimated = false;
  readonly #errors = new Map<string, number>();
  /** Lists of warnings as JSON, and how many lines have each. */
  readonly #warnings = new Map<string, number>();

  /** Lines settled in any way. */
  get settled(): number {
    return this.completed + this.failed + this.expired + this.cancelled;
  }

  /** At list price. */
  get listUsd(): number {
    return usdOfNano(this.listNano);
  }

  /** What a service charges its callers. */
  get usd(): number {
    return usdOfNano(this.chargedNano);
  }

  /** What providers bill. */
  get billedUsd(): number {
    return usdOfNano(this.billedNano);
  }

  /** The most that attempts of unknown end may have cost besides. */
  get ambiguousUsd(): number {
    return usdOfNano(this.ambiguousNano);
  }

  /** Error codes and how many lines ended with each, most frequent first. */
  get errors(): Readonly<Record<string, number>> {
    return Object.fromEntries([...this.#errors].sort((a, b) => b[1] - a[1]));
  }

  /** Warnings, and how many lines have each: `{ "dropped:temperature": 12 }`. */
  get warnings(): Readonly<Record<string, number>> {
    const counts: Record<string, number> = {};
    for (const [list, lines] of this.#warnings) {
      if (list === CUT_ANSWER) continue;
      for (const warning of warningsIn(list)) {
        const name = countedAs(warning);
        counts[name] = (counts[name] ?? 0) + lines;
      }
    }
    return counts;
  }

  /** Of the completed lines, those whose answer was cut at its limit. */
  get cut(): number {
    return this.#warnings.get(CUT_ANSWER) ?? 0;
  }

  /** So many lines more, or fewer, have this list of warnings. */
  warn(list: string, lines: number): void {
    const sum = (this.#warnings.get(list) ?? 0) + lines;
    if (sum > 0) this.#warnings.set(list, sum);
    else this.#warnings.delete(list);
  }

  /** Hot: once per item. */
  add(record: StagedOutcome): void {
    this[record.status] += 1;
    if (isCached(record)) this.cached += 1;
    this.carry(record);
    if (record.code !== undefined) this.#errors.set(record.code, (this.#errors.get(record.code) ?? 0) + 1);
  }

  /** What a line took; by itself of lines that were removed from the input. */
  carry(record: Spent & Pick<ClosedRecord, "attempts" | "ambiguousAttempts">): void {
    this.inputTokens += record.inputTokens;
    this.cachedTokens += record.cachedTokens;
    this.cacheWriteTokens += record.cacheWriteTokens;
    this.outputTokens += record.outputTokens;
    this.reasoningTokens += record.reasoningTokens;
    this.attempts += record.attempts;
    this.ambiguousAttempts += record.ambiguousAttempts;
    this.listNano += nanoOf(record.listUsd);
    this.chargedNano += nanoOf(record.usd);
    this.billedNano += nanoOf(record.billedUsd);
    this.ambiguousNano += nanoOf(record.ambiguousUsd);
    if (record.isEstimated) this.isEstimated = true;
  }

  /** Takes back what `add` did, when a step turns out to be void. */
  remove(record: StagedOutcome): void {
    this[record.status] -= 1;
    if (isCached(record)) this.cached -= 1;
    this.inputTokens -= record.inputTokens;
    this.cachedTokens -= record.cachedTokens;
    this.cacheWriteTokens -= record.cacheWriteTokens;
    this.outputTokens -= record.outputTokens;
    this.reasoningTokens -= record.reasoningTokens;
    this.attempts -= record.attempts;
    this.ambiguousAttempts -= record.ambiguousAttempts;
    this.listNano -= nanoOf(record.listUsd);
    this.chargedNano -= nanoOf(record.usd);
    this.billedNano -= nanoOf(record.billedUsd);
    this.ambiguousNano -= nanoOf(record.ambiguousUsd);
    if (record.code === undefined) return;
    const count = (this.#errors.get(record.code) ?? 0) - 1;
    if (count > 0) this.#errors.set(record.code, count);
    else this.#errors.delete(record.code);
  }
}

/** Whether an item was answered from a cache: every other answer took an attempt. */
export function isCached({ status, attempts }: Pick<StagedOutcome, "status" | "attempts">): boolean {
  return status === "completed" && attempts === 0;
}
