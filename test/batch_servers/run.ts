/**
 * One batch at its provider, without its wire. All times are known when it is created or cancelled, so it is looked at, not driven.
 *
 *   validating --> failed
 *       |-> running --all requests finished--> finalizing --> completed
 *              |----window over-------------------------------> expired
 *              `----cancel--> cancelling ----------------------> cancelled    (from validating, too)
 *
 * A request is finished at its drawn time, unless the batch ended before. `add` puts requests into a batch that waits for them.
 */
import type { BatchFaults, Behaviour } from "./behaviour.ts";
import { chanceAt, chanceOf, durationAt } from "./chance.ts";
import type { FakeTier } from "./ledger.ts";
import type { Asked } from "./prompt.ts";

export type RunState =
  | "validating"
  | "failed"
  | "running"
  | "finalizing"
  | "completed"
  | "expired"
  | "cancelling"
  | "cancelled";

/** A request of a batch. */
export interface RunItem extends Asked {
  readonly id: string;
  /** Of the payload, from 0. */
  readonly index: number;
}

/** Written out: a spread of 10,000 requests takes as long as their JSON. */
export function itemOf(asked: Asked, id: string, index: number): RunItem {
  const { model, prompt, inputTokens, outputTokens, isCut, fate } = asked;
  return { model, prompt, inputTokens, outputTokens, isCut, fate, id, index };
}

export interface RunFault {
  readonly code: string;
  readonly message: string;
  /** Of the payload, from 0. */
  readonly line: number | undefined;
}

export interface RunOptions {
  readonly id: string;
  /** Which batch of its provider it is, from 1. */
  readonly nth: number;
  readonly key: string;
  readonly workspace: string;
  readonly createdMs: number;
  readonly windowMs: number;
  readonly items: readonly RunItem[];
  /** Found when it is validated. */
  readonly faults: readonly RunFault[];
  readonly behaviour: Behaviour;
  /** It has no end of its own before its window is over: more requests may be added. */
  readonly isOpen?: boolean;
  readonly tier: FakeTier;
}

export class Run {
  readonly id: string;
  readonly nth: number;
  readonly key: string;
  readonly workspace: string;
  readonly createdMs: number;
  readonly startMs: number;
  readonly expiresMs: number;
  readonly wrong: BatchFaults;
  readonly faults: readonly RunFault[];
  /** What its answers are billed as. */
  readonly tier: FakeTier;
  readonly items: RunItem[] = [];
  cancelAskedMs: number | undefined;
  deletedMs: number | undefined;
  /**
   * Of its finished requests, in the order in which they were finished, how many are in the book, how many of those are good, and what they
   * are billed.
   */
  booked = 0;
  good = 0;
  billedNanoUsd = 0;
  /** When each request is finished; infinite for never. */
  readonly #finishMs: number[] = [];
  /** Indexes of requests in the order in which they finish. */
  #order: number[] = [];
  /** Of `#order`, how many are finished at the time that was asked for last. */
  #finished = 0;
  #cancelledMs: number | undefined;
  readonly #behaviour: Behaviour;
  readonly #isOpen: boolean;
  readonly #waitMs: number;

  constructor({ behaviour, items, ...options }: RunOptions) {
    const { id, nth, key, workspace, createdMs, windowMs, faults, isOpen = false } = options;
    this.#isOpen = isOpen;
    this.id = id;
    this.tier = options.tier;
    this.nth = nth;
    this.key = key;
    this.workspace = workspace;
    this.createdMs = createdMs;
    this.#behaviour = behaviour;
    this.wrong = behaviour.batchFaults(nth) ?? {};
    this.startMs = createdMs + behaviour.validatingMs;
    this.expiresMs = createdMs + windowMs;
    this.#waitMs = durationAt(behaviour.waits, chanceAt(behaviour.seed, nth));
    const { fails } = this.wrong;
    this.faults = fails === undefined ? faults : [{ line: undefined, ...fails }];
    this.add(items, createdMs);
  }

  get isFailing(): boolean {
    return this.faults.length > 0;
  }

  /** Puts more requests into it. */
  add(items: readonly RunItem[], nowMs: number): void {
    const fromMs = Math.max(nowMs, this.startMs) + this.#waitMs;
    for (const item of items) {
      this.items.push(item);
      this.#finishMs.push(fromMs + this.#durationMs(item));
    }
    const finishMs = this.#finishMs;
    this.#order = finishMs.map((_, index) => index);
    this.#order.sort((one, two) => (finishMs[one] ?? 0) - (finishMs[two] ?? 0));
    this.#finished = 0;
  }

  /** From now on it is being cancelled, unless it is at its end. */
  cancel(nowMs: number): void {
    if (this.cancelAskedMs !== undefined || this.endMs <= nowMs) return;
    this.cancelAskedMs = nowMs;
    this.#cancelledMs = Math.min(nowMs + this.#behaviour.cancelMs, this.endMs);
  }

  /** When it ends, as far as is known now. */
  get endMs(): number {
    if (this.#cancelledMs !== undefined) return this.#cancelledMs;
    if (this.isFailing) return this.startMs;
    if (this.#isOpen) return this.expiresMs;
    return this.#lastMs <= this.expiresMs ? this.#lastMs + this.#behaviour.finalizingMs : this.expiresMs;
  }

  stateAt(nowMs: number): RunState {
    if (this.cancelAskedMs !== undefined) return nowMs < this.endMs ? "cancelling" : "cancelled";
    if (nowMs < this.startMs) return "validating";
    if (this.isFailing) return "failed";
    if (this.#lastMs > this.expiresMs) return nowMs < this.expiresMs ? "running" : "expired";
    if (this.#isOpen) return nowMs < this.expiresMs ? "running" : "completed";
    if (nowMs < this.#lastMs) return "running";
    return nowMs < this.endMs ? "finalizing" : "completed";
  }

  isEndedAt(nowMs: number): boolean {
    return nowMs >= this.endMs;
  }

  /** How many requests are finished. Asked for with times that never go back. */
  finishedAt(nowMs: number): number {
    if (this.isFailing) return 0;
    const untilMs = Math.min(nowMs, this.#cancelledMs ?? this.expiresMs);
    while (
      this.#finished < this.#order.length &&
      (this.#finishMs[this.#order[this.#finished] as number] as number) <= untilMs
    )
      this.#finished += 1;
    return this.#finished;
  }

  /** Those that are finished, in the order in which they were, from the nth on. */
  finishedFrom(from: number, nowMs: number): RunItem[] {
    const indexes = this.#order.slice(from, this.finishedAt(nowMs));
    return indexes.map((index) => this.items[index] as RunItem);
  }

  /** Those that are not. */
  unfinished(nowMs: number): RunItem[] {
    const indexes = this.#order.slice(this.finishedAt(nowMs));
    return indexes.map((index) => this.items[index] as RunItem);
  }

  finishMsOf({ index }: RunItem): number {
    return this.#finishMs[index] as number;
  }

  /** Input tokens of all its requests. */
  get inputTokens(): number {
    return this.items.reduce((sum, { inputTokens }) => sum + inputTokens, 0);
  }

  get #lastMs(): number {
    const last = this.#order.at(-1);
    return last === undefined ? this.startMs : (this.#finishMs[last] as number);
  }

  #durationMs({ prompt, fate }: RunItem): number {
    const { seed, stalledShare, times } = this.#behaviour;
    if (fate.isStalled || this.wrong.isStalled === true) return Number.POSITIVE_INFINITY;
    if (fate.afterMs !== undefined) return fate.afterMs;
    const chance = chanceOf(seed + this.nth, prompt);
    // Another number of the same prompt, so that which are stalled does not depend on how slow they are.
    const isStalled = stalledShare > 0 && chanceAt(seed, Math.floor(chance * 2 ** 31)) < stalledShare;
    return isStalled ? Number.POSITIVE_INFINITY : durationAt(times, chance);
  }
}
