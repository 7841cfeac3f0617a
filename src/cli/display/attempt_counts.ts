/**
 * What the requests of a command came to, by model: answers, failures, 429s, and how long answers take. For the display only.
 *
 * A request that failed is a retry unless its item ended with that failure. The median is of the last 256 answers of a model.
 * Limit: 50 models; those that appear later count together as `others`. Hot path: once or twice an item.
 */
import type { AttemptReport, EngineObserver, SettledReport } from "../../engine/journal/observer.ts";
import type { FailureCode } from "../../errors.ts";

const MODELS_MAX = 50;
const LATENCIES_MAX = 256;
const OTHERS = "others";

/** Of one model, or of all. */
export interface ModelCounts {
  readonly model: string;
  readonly answered: number;
  readonly failed: number;
  readonly rateLimited: number;
  /** Of the requests that failed, those whose item did not end with that failure. */
  readonly retries: number;
  /** Items that ended in an error after a request. */
  readonly errors: number;
  /** By the items that have ended after a request. */
  readonly billedUsd: number;
  /** Median of the last answers, in milliseconds; absent before the first. */
  readonly p50Ms?: number;
}

/** The last request that failed, or the last item that ended in an error without one. */
export interface LastFault {
  readonly code: FailureCode;
  readonly model?: string;
  /** Monotonic. */
  readonly atMs: number;
}

interface Counted {
  answered: number;
  failed: number;
  rateLimited: number;
  /** Items that ended with a failure of their last request. */
  endedByRequest: number;
  errors: number;
  billedUsd: number;
  /** A ring of the last latencies. */
  readonly latencies: Float64Array;
}

/** One for a command. */
export class AttemptCounts implements EngineObserver {
  readonly #nowMs: () => number;
  readonly #models = new Map<string, Counted>();
  /** Codes that requests failed with. */
  readonly #codes = new Set<FailureCode>();
  /** Items by the code that they ended with. */
  readonly #ended = new Map<FailureCode, number>();
  /** Items that ended with a failure of their last request. */
  #endedByRequest = 0;
  #last: LastFault | undefined;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  attempted({ model, code, latencyMs }: AttemptReport): void {
    const counted = this.#of(model);
    if (code === undefined) {
      counted.latencies[counted.answered % LATENCIES_MAX] = latencyMs;
      counted.answered += 1;
      return;
    }
    counted.failed += 1;
    if (code === "rate_limited") counted.rateLimited += 1;
    this.#codes.add(code);
    this.#last = { code, model, atMs: this.#nowMs() };
  }

  settled({ code, model, billedUsd }: SettledReport): void {
    const counted = model === undefined ? undefined : this.#of(model);
    if (counted !== undefined) counted.billedUsd += billedUsd;
    if (code === undefined) return;
    if (counted !== undefined) {
      counted.errors += 1;
      if (this.#codes.has(code)) counted.endedByRequest += 1;
    }
    this.#ended.set(code, (this.#ended.get(code) ?? 0) + 1);
    if (this.#codes.has(code)) this.#endedByRequest += 1;
    else this.#last = { code, atMs: this.#nowMs() };
  }

  committed(): void {
    // the display does not show it
  }

  /** In the order in which models appeared. */
  get models(): readonly ModelCounts[] {
    return Array.from(this.#models, ([model, counted]) => countsOf(model, counted));
  }

  /** Of all models together; the median is of the model that answers most. */
  get all(): ModelCounts {
    const models = this.models;
    const sum = (of: (one: ModelCounts) => number): number =>
      models.reduce((total, one) => total + of(one), 0);
    const most = models.reduce<ModelCounts | undefined>(
      (best, one) => (best === undefined || one.answered > best.answered ? one : best),
      undefined,
    );
    const failed = sum((one) => one.failed);
    return {
      model: "",
      answered: sum((one) => one.answered),
      failed,
      rateLimited: sum((one) => one.rateLimited),
      retries: Math.max(0, failed - this.#endedByRequest),
      errors: sum((one) => one.errors),
      billedUsd: sum((one) => one.billedUsd),
      ...(most?.p50Ms === undefined ? {} : { p50Ms: most.p50Ms }),
    };
  }

  /** Codes that items of this command ended with, most frequent first. */
  get ended(): readonly (readonly [FailureCode, number])[] {
    return [...this.#ended].sort((one, other) => other[1] - one[1]);
  }

  get last(): LastFault | undefined {
    return this.#last;
  }

  #of(model: string): Counted {
    const known = this.#models.get(model);
    if (known !== undefined) return known;
    if (this.#models.size >= MODELS_MAX && model !== OTHERS) return this.#of(OTHERS);
    const items = { endedByRequest: 0, errors: 0, billedUsd: 0 };
    const latencies = new Float64Array(LATENCIES_MAX);
    const made: Counted = { answered: 0, failed: 0, rateLimited: 0, ...items, latencies };
    this.#models.set(model, made);
    return made;
  }
}

function countsOf(model: string, counted: Counted): ModelCounts {
  const { answered, failed, rateLimited, endedByRequest, errors, billedUsd, latencies } = counted;
  const sorted = latencies.slice(0, Math.min(answered, LATENCIES_MAX)).sort();
  const p50Ms = sorted[Math.floor(sorted.length / 2)];
  const retries = Math.max(0, failed - endedByRequest);
  const median = p50Ms === undefined ? {} : { p50Ms };
  return { model, answered, failed, rateLimited, retries, errors, billedUsd, ...median };
}
