/**
 * How long work may wait for something cheaper, so that all of it can still be done at a capacity by its deadlines. Pure.
 *
 * Work is laid from its deadlines backwards, the last deadline first, each limit of the capacity for itself:
 *
 *   start(i) = min(deadline(i), start(i + 1)) - need(i)        the latest start at which i and all that is due after it fit
 *
 * Work that is released no later than its start, and served by earliest deadline, is on time: for each interval from a start to a
 * deadline, what is released in it and due in it fits (the demand criterion of Baruah, Rosier and Howell 1990, which is exact for
 * work that can be interrupted; an answer cannot, which the caller keeps a rescue for). Other work that runs from now on
 * need not be laid: what is due in an interval that begins later is not its.
 *
 * Needs are those of feasibility.ts, one limit at a time, because they are consumed beside each other.
 */
import type { DueLoad } from "../due_work.ts";
import { drainMs } from "../feasibility.ts";
import type { Capacity } from "../planner.ts";

/** The limits of a capacity, each as a capacity of its own; places do not grow. */
function limitsOf(capacity: Capacity): readonly Capacity[] {
  const { requestsPerMinute, tokensPerMinute, inputTokensPerMinute, outputTokensPerMinute } = capacity;
  const limits: Capacity[] = [];
  if (requestsPerMinute !== undefined) limits.push({ itemMs: 0, requestsPerMinute });
  if (tokensPerMinute !== undefined) limits.push({ itemMs: 0, tokensPerMinute });
  if (inputTokensPerMinute !== undefined) limits.push({ itemMs: 0, inputTokensPerMinute });
  if (outputTokensPerMinute !== undefined) limits.push({ itemMs: 0, outputTokensPerMinute });
  if (capacity.concurrency !== undefined)
    limits.push({ itemMs: capacity.itemMs, concurrency: capacity.concurrency });
  return limits;
}

/** Milliseconds that a lane loses for `load` while its places still grow. */
export function growthMs(load: DueLoad, capacity: Capacity): number {
  const lostMs = drainMs(load, capacity) - drainMs(load, { ...capacity, concurrencyNow: undefined });
  return Number.isFinite(lostMs) ? Math.max(0, lostMs) : 0;
}

/** A schedule that is laid backwards. Add work by falling deadlines. */
export class LatestStarts {
  readonly #limits: readonly Capacity[];
  /** Of each limit: the start of what was laid last. */
  readonly #starts: number[];

  constructor(capacity: Capacity) {
    this.#limits = limitsOf(capacity);
    this.#starts = this.#limits.map(() => Number.POSITIVE_INFINITY);
  }

  /** When `load` would have to start; -Infinity where a limit is 0. */
  startMs(load: DueLoad, deadlineMs: number): number {
    let startMs = deadlineMs;
    this.#limits.forEach((limit, index) => {
      startMs = Math.min(startMs, this.#endMs(index, deadlineMs) - drainMs(load, limit));
    });
    return startMs;
  }

  /** The part of `load`, in [0, 1], that need not start before `earliestMs`. */
  shareFrom(load: DueLoad, deadlineMs: number, earliestMs: number): number {
    if (deadlineMs < earliestMs) return 0;
    let share = 1;
    this.#limits.forEach((limit, index) => {
      const needMs = drainMs(load, limit);
      if (needMs > 0) share = Math.min(share, (this.#endMs(index, deadlineMs) - earliestMs) / needMs);
    });
    return Math.max(0, share);
  }

  /** Lays `load` and returns its start. */
  add(load: DueLoad, deadlineMs: number): number {
    const startMs = this.startMs(load, deadlineMs);
    this.#limits.forEach((limit, index) => {
      this.#starts[index] = this.#endMs(index, deadlineMs) - drainMs(load, limit);
    });
    return startMs;
  }

  #endMs(index: number, deadlineMs: number): number {
    return Math.min(deadlineMs, this.#starts[index] as number);
  }
}

/** A schedule from now on: add work by rising deadlines. */
export class EarliestEnds {
  readonly #limits: readonly Capacity[];
  /** Of each limit: until when it is busy. */
  readonly #ends: number[];
  readonly #beginMs: number;

  constructor(capacity: Capacity, nowMs: number) {
    this.#limits = limitsOf(capacity);
    this.#beginMs = nowMs + (capacity.waitingMs ?? 0);
    this.#ends = this.#limits.map(() => this.#beginMs);
  }

  /** The part of `load`, in [0, 1], that is done by `untilMs` after what was added. */
  shareBy(load: DueLoad, untilMs: number): number {
    if (untilMs < this.#beginMs) return 0;
    let share = 1;
    this.#limits.forEach((limit, index) => {
      const needMs = drainMs(load, limit);
      if (needMs > 0) share = Math.min(share, (untilMs - (this.#ends[index] as number)) / needMs);
    });
    return Math.max(0, share);
  }

  /** Adds `load` and returns when it is done, but for the time of the last answer. */
  add(load: DueLoad): number {
    const endMs = this.endOf(load);
    this.#limits.forEach((limit, index) => {
      this.#ends[index] = (this.#ends[index] as number) + drainMs(load, limit);
    });
    return endMs;
  }

  /** When `load` would be done after what was added, but for the time of the last answer. */
  endOf(load: DueLoad): number {
    const ends = this.#limits.map((limit, index) => (this.#ends[index] as number) + drainMs(load, limit));
    return Math.max(this.#beginMs, ...ends);
  }
}

/** The part `share` of a load, in [0, 1]. */
export function partOf({ items, inputTokens, outputTokens }: DueLoad, share: number): DueLoad {
  return { items: items * share, inputTokens: inputTokens * share, outputTokens: outputTokens * share };
}
