/**
 * How long a lane needs for all waiting work that is due by a deadline. Pure; what waits is data.
 *
 * Hot: asked for each item that has a choice of lanes. Sums by deadline are made once for each basis, a look-up is a binary search.
 */
import { drainMs, type LaneForecastBasis } from "./feasibility.ts";
import type { Capacity } from "./planner.ts";

/** Items and their tokens. */
export interface DueLoad {
  readonly items: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** What a lane has of something, and what all lanes have of it that share limits with it, itself included. */
export interface SharedLoad {
  readonly own: DueLoad;
  readonly shared: DueLoad;
}

export const NO_LOAD: DueLoad = { items: 0, inputTokens: 0, outputTokens: 0 };

/** One for a basis. */
export class DueWork {
  readonly #deadlines: readonly number[];
  /** All work that is due by the deadline at the same place. */
  readonly #sums: readonly DueLoad[];

  constructor({ waiting }: Pick<LaneForecastBasis, "waiting">) {
    const sorted = waiting.toSorted((left, right) => left.deadlineMs - right.deadlineMs);
    this.#deadlines = sorted.map(({ deadlineMs }) => deadlineMs);
    let sum = NO_LOAD;
    this.#sums = sorted.map((work) => {
      sum = bothLoads(sum, work);
      return sum;
    });
  }

  /** Milliseconds for what is due by a deadline and `more`, at a capacity; `taken` waits no more. */
  drainMs(deadlineMs: number, more: DueLoad, capacity: Capacity, taken?: DueLoad): number {
    const due = this.#sums[this.#lastBy(deadlineMs)];
    if (due === undefined) return drainMs(more, capacity);
    return drainMs(bothLoads(taken === undefined ? due : without(due, taken), more), capacity);
  }

  /** The last place with a deadline up to this one; -1 without one. */
  #lastBy(deadlineMs: number): number {
    let low = 0;
    let high = this.#deadlines.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#deadlines[middle] as number) <= deadlineMs) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }
}

/** Both together. */
export function bothLoads(left: DueLoad, right: DueLoad): DueLoad {
  return {
    items: left.items + right.items,
    inputTokens: left.inputTokens + right.inputTokens,
    outputTokens: left.outputTokens + right.outputTokens,
  };
}

/** The same for the pairs. */
export function bothShared(left: SharedLoad, right: SharedLoad): SharedLoad {
  return { own: bothLoads(left.own, right.own), shared: bothLoads(left.shared, right.shared) };
}

/** Of one lane: those that share limits with it have nothing besides. */
export function ownLoad(load: DueLoad): SharedLoad {
  return { own: load, shared: load };
}

/** More may have been taken than was counted before. */
function without(left: DueLoad, right: DueLoad): DueLoad {
  return {
    items: Math.max(0, left.items - right.items),
    inputTokens: Math.max(0, left.inputTokens - right.inputTokens),
    outputTokens: Math.max(0, left.outputTokens - right.outputTokens),
  };
}
