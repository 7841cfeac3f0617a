/**
 * Adds up what the lines of a log used: one tally for each model, tier, price and way to wait.
 *
 * Only whole numbers are added, so the sums of a log are those of its parts in any order: parts are counted in threads and put
 * together (`addLedger`). Prices are multiplied once, at the end (`report.ts`).
 *
 * Limits: 50,000 tallies (`too_many` beyond; a month of a common log has some hundred); sums are exact up to 2^53 tokens, and
 * 9 million USD of stated cost, which is kept in nano-USD.
 *
 * Hot path: 0.5 us a request (`bench/jobs/audit.ts`).
 */
import { PerigeeError } from "../errors.ts";
import type { LoggedUsage, UsageSink, WithoutUsage } from "./logged_usage.ts";
import {
  addSums,
  emptySums,
  type LedgerTerms,
  ModelTallies,
  tallyKey,
  type UsageTally,
} from "./model_tallies.ts";

/** A ledger as plain data. */
export interface LedgerState {
  readonly tallies: ReadonlyMap<string, UsageTally>;
  readonly withoutUsage: Readonly<Record<WithoutUsage, number>>;
  /** Costs without tokens, by provider. */
  readonly costsNanoUsd: ReadonlyMap<string, number>;
  /** Unix milliseconds of the first and the last use; infinite without any. */
  readonly fromMs: number;
  readonly toMs: number;
  /** Entries without a time, sums without a number of requests, and sums at all. */
  readonly undated: number;
  readonly uncountedSums: number;
  readonly sumEntries: number;
}

const TALLIES_MAX = 50_000;
const NANO = 1e9;

export class Ledger implements UsageSink {
  readonly #terms: LedgerTerms;
  /** By provider, then by name: no key has to be put together on the hot path. */
  readonly #models = new Map<string, Map<string, ModelTallies>>();
  #tallyCount = 0;
  readonly #withoutUsage = { failed: 0, gateway_cache: 0, other_spans: 0, summing_spans: 0 };
  readonly #costsNanoUsd = new Map<string, number>();
  readonly #span = { fromMs: Number.POSITIVE_INFINITY, toMs: Number.NEGATIVE_INFINITY };
  readonly #entries = { undated: 0, uncountedSums: 0, sumEntries: 0 };

  constructor(terms: LedgerTerms) {
    this.#terms = terms;
  }

  /** What was added until now. */
  get state(): LedgerState {
    const tallies = new Map<string, UsageTally>();
    for (const models of this.#models.values())
      for (const model of models.values()) for (const tally of model.tallies()) addTally(tallies, tally);
    return {
      tallies,
      withoutUsage: { ...this.#withoutUsage },
      costsNanoUsd: new Map(this.#costsNanoUsd),
      ...this.#span,
      ...this.#entries,
    };
  }

  usage(usage: LoggedUsage): void {
    this.#noteTimes(usage.fromMs, usage.toMs);
    if (Number.isNaN(usage.fromMs)) this.#entries.undated += 1;
    if (usage.isSum) this.#entries.sumEntries += 1;
    if (usage.requests === 0) this.#entries.uncountedSums += 1;
    const { sums } = this.#modelOf(usage.provider, usage.model).tallyOf(usage);
    sums.requests += usage.requests;
    sums.inputTokens += usage.inputTokens;
    sums.cachedTokens += usage.cachedTokens;
    sums.cacheWriteTokens += usage.cacheWriteTokens;
    sums.hourWriteTokens += usage.hourWriteTokens;
    sums.outputTokens += usage.outputTokens;
    if (usage.statedUsd >= 0) sums.statedNanoUsd += Math.round(usage.statedUsd * NANO);
  }

  cost(provider: string, usd: number, fromMs: number, toMs: number): void {
    this.#noteTimes(fromMs, toMs);
    const nano = (this.#costsNanoUsd.get(provider) ?? 0) + Math.round(usd * NANO);
    this.#costsNanoUsd.set(provider, nano);
  }

  without(why: WithoutUsage): void {
    this.#withoutUsage[why] += 1;
  }

  #noteTimes(fromMs: number, toMs: number): void {
    if (fromMs < this.#span.fromMs) this.#span.fromMs = fromMs;
    if (toMs > this.#span.toMs) this.#span.toMs = toMs;
  }

  #modelOf(provider: string, name: string): ModelTallies {
    let models = this.#models.get(provider);
    if (models === undefined) {
      models = new Map();
      this.#models.set(provider, models);
    }
    const known = models.get(name);
    if (known !== undefined) return known;
    this.#countTally();
    const model = new ModelTallies(provider, name, this.#terms, () => this.#countTally());
    models.set(name, model);
    return model;
  }

  /** Models count as one, too: each takes memory before it has a tally. */
  #countTally(): void {
    this.#tallyCount += 1;
    if (this.#tallyCount > TALLIES_MAX) throw tooMany();
  }
}

/** Puts a part of a log to another; the states may be of any order. Both stay as they are. */
export function addLedger(one: LedgerState, other: LedgerState): LedgerState {
  const tallies = new Map<string, UsageTally>();
  for (const tally of [...one.tallies.values(), ...other.tallies.values()]) addTally(tallies, tally);
  if (tallies.size > TALLIES_MAX) throw tooMany();
  const costsNanoUsd = new Map(one.costsNanoUsd);
  for (const [provider, nano] of other.costsNanoUsd)
    costsNanoUsd.set(provider, (costsNanoUsd.get(provider) ?? 0) + nano);
  const [a, b] = [one.withoutUsage, other.withoutUsage];
  return {
    tallies,
    withoutUsage: {
      failed: a.failed + b.failed,
      gateway_cache: a.gateway_cache + b.gateway_cache,
      other_spans: a.other_spans + b.other_spans,
      summing_spans: a.summing_spans + b.summing_spans,
    },
    costsNanoUsd,
    fromMs: Math.min(one.fromMs, other.fromMs),
    toMs: Math.max(one.toMs, other.toMs),
    undated: one.undated + other.undated,
    uncountedSums: one.uncountedSums + other.uncountedSums,
    sumEntries: one.sumEntries + other.sumEntries,
  };
}

/** Tallies of one kind become one. */
function addTally(tallies: Map<string, UsageTally>, tally: UsageTally): void {
  const key = tallyKey(tally);
  tallies.set(key, { ...tally, sums: addSums(tallies.get(key)?.sums ?? emptySums(), tally.sums) });
}

function tooMany(): PerigeeError {
  return new PerigeeError(
    "too_many",
    `the log has more than ${TALLIES_MAX} combinations of model, tier and price: audit a part of it`,
  );
}
