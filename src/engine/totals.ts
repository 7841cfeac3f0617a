/**
 * Running totals of one task: what its settled lines came to.
 */
import type { OutcomeRecord } from "./journal.ts";

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

  add(record: OutcomeRecord): void {
    this.#apply(record, 1);
  }

  /** Takes back what `add` did, when a step turns out to be void. */
  remove(record: OutcomeRecord): void {
    this.#apply(record, -1);
  }

  #apply(record: OutcomeRecord, sign: 1 | -1): void {
    this[record.status] += sign;
    this.inputTokens += sign * record.inputTokens;
    this.cachedTokens += sign * record.cachedTokens;
    this.outputTokens += sign * record.outputTokens;
    this.reasoningTokens += sign * record.reasoningTokens;
    this.attempts += sign * record.attempts;
    this.ambiguousAttempts += sign * record.ambiguousAttempts;
    this.listUsd += sign * record.listUsd;
    this.usd += sign * record.usd;
    if (record.isEstimated) this.isEstimated = true;
    if (record.code === undefined) return;
    const count = (this.#errors.get(record.code) ?? 0) + sign;
    if (count > 0) this.#errors.set(record.code, count);
    else this.#errors.delete(record.code);
  }
}
