/**
 * Running totals of one task: what its settled lines came to.
 */
import type { OutcomeRecord } from "./journal.ts";

/** What totals take of an outcome. */
type SettledRecord = Omit<OutcomeRecord, "lineBytes">;

/** Sums over settled lines. Money in USD, counts whole. */
export class Totals {
  completed = 0;
  failed = 0;
  expired = 0;
  cancelled = 0;
  inputTokens = 0;
  cachedTokens = 0;
  outputTokens = 0;
  reasoningTokens = 0;
  /** Requests sent for settled lines. */
  attempts = 0;
  /** Of them, those that may have been billed without an answer. */
  ambiguousAttempts = 0;
  listUsd = 0;
  usd = 0;
  isEstimated = false;
  readonly #errors = new Map<string, number>();

  /** Lines settled in any way. */
  get settled(): number {
    return this.completed + this.failed + this.expired + this.cancelled;
  }

  /** Error codes and how many lines ended with each, most frequent first. */
  get errors(): Readonly<Record<string, number>> {
    return Object.fromEntries([...this.#errors].sort((a, b) => b[1] - a[1]));
  }

  /** Hot: once per item. */
  add(record: SettledRecord): void {
    this[record.status] += 1;
    this.inputTokens += record.inputTokens;
    this.cachedTokens += record.cachedTokens;
    this.outputTokens += record.outputTokens;
    this.reasoningTokens += record.reasoningTokens;
    this.attempts += record.attempts;
    this.ambiguousAttempts += record.ambiguousAttempts;
    this.listUsd += record.listUsd;
    this.usd += record.usd;
    if (record.isEstimated) this.isEstimated = true;
    if (record.code !== undefined) this.#errors.set(record.code, (this.#errors.get(record.code) ?? 0) + 1);
  }

  /** Takes back what `add` did, when a step turns out to be void. */
  remove(record: SettledRecord): void {
    this[record.status] -= 1;
    this.inputTokens -= record.inputTokens;
    this.cachedTokens -= record.cachedTokens;
    this.outputTokens -= record.outputTokens;
    this.reasoningTokens -= record.reasoningTokens;
    this.attempts -= record.attempts;
    this.ambiguousAttempts -= record.ambiguousAttempts;
    this.listUsd -= record.listUsd;
    this.usd -= record.usd;
    if (record.code === undefined) return;
    const count = (this.#errors.get(record.code) ?? 0) - 1;
    if (count > 0) this.#errors.set(record.code, count);
    else this.#errors.delete(record.code);
  }
}
