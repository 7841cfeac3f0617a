/**
 * Progress and summary of a run: what a caller sees while it works and when it is over.
 */

import type { FailureCode } from "../../errors.ts";
import type { Oversized } from "../../limits/limits_snapshot.ts";
import type { QuoteOutcome } from "../../price/planned_quote.ts";
import type { UsedPrice } from "../../price/used_prices.ts";
import type { Hold } from "./holds.ts";
import type { OfferStatus } from "./taken_offer.ts";

/** The state of one lane's limits, shares in [0, 1]. */
export interface LaneProgress {
  /** `<provider>:<tier>:<family>`. */
  readonly lane: string;
  readonly state: "open" | "cooldown" | "outage" | "paused";
  readonly inFlight: number;
  /** At least `inFlight`: a maximum that falls leaves requests that are under way. */
  readonly inFlightMax: number;
  readonly requestsShare?: number;
  readonly tokensShare?: number;
  /** An item that is larger than a limit on tokens waits for an empty minute, to be sent by itself. */
  readonly oversized?: Oversized;
  /** What is cheaper than realtime; absent where nothing is, or may be used. */
  readonly cheaper?: OfferStatus;
}

/** What a run has with batches. */
export interface BatchesProgress {
  /** Items in batches, also those that are not submitted yet. */
  readonly items: number;
  /** Of them, those that their providers said to have finished when they were asked last; absent where none shows counts. */
  readonly finished?: number;
  /** Until a provider is asked for one of them; absent while that is under way, and before a batch exists. */
  readonly nextPollInMs?: number;
  /** Items whose batches wait to be created, without a failure to hold them: the first reason. */
  readonly waits?: { readonly items: number; readonly message: string };
}

/** The state of a run at one moment; counts are lines of the input. */
export interface Progress {
  readonly state: "reading" | "running" | "paused" | "stopping" | "done";
  /** Why nothing is sent at the moment. */
  readonly pausedBy?: string;
  /** Items that wait, by what holds them; empty while nothing does. */
  readonly held: readonly Hold[];
  /** Lines of the input, known once it was read through. */
  readonly linesTotal?: number;
  readonly linesRead: number;
  readonly settled: number;
  readonly completed: number;
  /** Of the completed ones, those answered from the cache, which no request was sent for; absent for none. */
  readonly cached?: number;
  readonly errors: number;
  readonly inFlight: number;
  /** Items whose last request failed and that wait for the next one; held ones included. */
  readonly retrying: number;
  /** Of the one of them that is due first: why its last request failed, and when the next one is due; absent without one. */
  readonly retry?: { readonly code: FailureCode; readonly message: string; readonly nextTryInMs: number };
  /** What is with batches; absent while nothing is. */
  readonly batched?: BatchesProgress;
  /** For how long no request was answered although some are in flight and no request waits to be repeated; absent below 60 s, and below ten usual answers. */
  readonly noAnswerMs?: number;
  /** Over about the last ten seconds. */
  readonly itemsPerSecond: number;
  readonly tokensPerSecond: number;
  /** What providers bill for all attempts that have ended. */
  readonly billedUsd: number;
  /** The most that attempts of unknown end may have cost besides: those that timed out, broke off or were killed; and answers without usable usage. */
  readonly ambiguousUsd: number;
  /** Whether some of it was taken by a model without a known price, which all amounts count as 0; absent when it was not. */
  readonly hasUnpriced?: true;
  /** The cost of the settled lines at list price. */
  readonly listUsd: number;
  /** What a service charges its callers for them: list price times price factor. */
  readonly usd: number;
  /** Until the deadline; absent without sla. */
  readonly deadlineInMs?: number;
  /** Until the end, as it is forecast (as by a quote), no sooner than at the present rate; absent while unknown, as before the first answer of a model, while something is held (at once if only the caller can change it) or nothing moves. */
  readonly etaMs?: number;
  readonly lanes: readonly LaneProgress[];
}

/** A batch that a run has left with a provider; the same call goes on with it. */
export interface LeftBatch {
  /** The provider's; null until it is known here. */
  readonly id: string | null;
  readonly provider: string;
  /** `<provider>:<name>`. */
  readonly model: string;
  /** Those that have not ended. */
  readonly items: number;
  /** How far it has come, as `perigee batches list` says it. */
  readonly state: string;
  /** ISO 8601; null until it is created. */
  readonly created_at: string | null;
  /** ISO 8601: when its items are due. */
  readonly deadline: string | null;
}

/** The result of a run: the object that `perigee run --json` prints. */
export interface Summary {
  /** `detached`: all that is left is with batches, and the caller did not want to wait for them. */
  readonly status: "completed" | "stopped" | "paused" | "detached";
  readonly task_id: string;
  /** Items accepted or refused: every line that is not blank. */
  readonly items: number;
  readonly counts: {
    readonly submitted: number;
    readonly completed: number;
    readonly failed: number;
    readonly expired: number;
    readonly cancelled: number;
  };
  /** Of the completed lines, those answered from the cache, which no request was sent for; absent for none. */
  readonly cached?: number;
  /** Of the completed lines, those whose answer was cut at its limit (`finish_reason` `length`); absent for none. */
  readonly cut?: number;
  readonly errors: Readonly<Record<string, number>>;
  /** How many lines have each warning: settings that were left out, as `dropped:temperature`, and `text_replaced`. */
  readonly warnings: Readonly<Record<string, number>>;
  readonly usage: {
    readonly input_tokens: number;
    readonly cached_tokens: number;
    /** Written to providers' caches. */
    readonly cache_write_tokens: number;
    readonly output_tokens: number;
    readonly reasoning_tokens: number;
    /** How often items were tried, also where no request left this machine (connection refused). */
    readonly attempts: number;
    /** Of these, those that may have been billed without an answer. */
    readonly ambiguous_attempts: number;
  };
  readonly cost: {
    /** What providers bill: real usage, cache reads and writes, the tier that was served. */
    readonly billed_usd: number;
    /** The most that attempts of unknown end may have cost besides: those that timed out, broke off or were killed; and answers without usable usage. */
    readonly ambiguous_usd: number;
    /** The cost of the settled lines at list price. */
    readonly list_usd: number;
    /** What a service charges its callers for them: list price times price factor. No provider bills this. */
    readonly usd: number;
    /** True when a usage or a price was estimated, or something is ambiguous. */
    readonly is_estimated: boolean;
    /** All that the task's costs were reckoned with, those of earlier calls first; the first 1,000 of them. */
    readonly prices: readonly UsedPrice[];
    /** Their sources with their days, for people. */
    readonly price_source: string;
  };
  readonly output: string;
  /** Where its receipts are, how many, and the hash of their last line; absent unless this call was to write them. */
  readonly receipts?: { readonly file: string; readonly count: number; readonly hash: string };
  /** What was quoted after its pilot, and what the rest then took; absent without a pilot. */
  readonly quoted?: QuoteOutcome;
  /** Wall time of this call, not of earlier ones that it continued. */
  readonly elapsed_ms: number;
  /** Attempts of this call whose request left this machine, answered or not. */
  readonly requests_sent: number;
  /** Why the run is not complete, when it is not. */
  readonly reason?: string;
  /** What held the items that are left when the run stopped, as `paused` or for another reason. */
  readonly held: readonly Hold[];
  /** What it has left with providers; absent where that is nothing. */
  readonly batches?: readonly LeftBatch[];
}

const WINDOW_MS = 10_000;

/** A rate over the last ten seconds from counters that only grow. */
export class Rate {
  #samples: { readonly atMs: number; readonly value: number }[] = [];
  #sinceMs: number | undefined;

  /** Feeds the counter and returns its growth per second. */
  update(nowMs: number, value: number): number {
    this.#sinceMs ??= nowMs;
    this.#samples.push({ atMs: nowMs, value });
    while (this.#samples.length > 2 && nowMs - (this.#samples[0]?.atMs ?? nowMs) > WINDOW_MS)
      this.#samples.shift();
    const first = this.#samples[0];
    if (first === undefined || nowMs - first.atMs < 50) return 0;
    return ((value - first.value) * 1_000) / (nowMs - first.atMs);
  }

  /** Whether it is of ten seconds. */
  isWhole(nowMs: number): boolean {
    return this.#sinceMs !== undefined && nowMs - this.#sinceMs >= WINDOW_MS;
  }

  /** Forgets the past, so that it does not affect the forecast. */
  restart(): void {
    this.#samples = [];
    this.#sinceMs = undefined;
  }
}
