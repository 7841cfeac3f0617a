/**
 * What answers take: moving means of their latency, of its logarithm, and of the square of that. And how many items share a request,
 * of those that arrived last.
 *
 * Hot path: 20 ns an answer.
 */
import type { LatencyGroup } from "./last_answer.ts";

/** Assumed of an answer before the first one arrived. */
export const ITEM_MS_START = 1_000;
const ITEM_WEIGHT = 1 / 16;
/** Items that are remembered to have arrived. */
const ARRIVED_MAX = 10_000;

/** One for a lane. */
export class AnswerPace {
  /** Moving mean of what one answer takes, in milliseconds. */
  itemMs: number = ITEM_MS_START;
  #ln = 0;
  #lnSquare = 0;
  #hasAnswered = false;
  #items = 0;
  #requests = 0;

  /** Whether `itemMs` was measured. */
  get hasAnswered(): boolean {
    return this.#hasAnswered;
  }

  /** An answer took `latencyMs`. */
  answered(latencyMs: number): void {
    const ln = Math.log(Math.max(1, latencyMs));
    const weight = this.#hasAnswered ? ITEM_WEIGHT : 1;
    this.#ln += (ln - this.#ln) * weight;
    this.#lnSquare += (ln * ln - this.#lnSquare) * weight;
    this.#hasAnswered = true;
    this.itemMs += (latencyMs - this.itemMs) * (this.itemMs === ITEM_MS_START ? weight : ITEM_WEIGHT);
  }

  /** Items in a request, at least 1; 1 before any arrived. */
  get itemsPerRequest(): number {
    return this.#requests === 0 ? 1 : Math.max(1, this.#items / this.#requests);
  }

  /** So many items arrived, which will share so many requests. */
  arrived(items: number, requests: number): void {
    const kept = Math.min(1, Math.max(0, ARRIVED_MAX - items) / Math.max(1, this.#items));
    this.#items = this.#items * kept + items;
    this.#requests = this.#requests * kept + requests;
  }

  /** What so many answers take, as the last ones did; what was not measured is assumed. */
  latenciesOf(items: number): LatencyGroup {
    if (!this.#hasAnswered) return { items, meanLn: Math.log(this.itemMs), varianceLn: 0 };
    return { items, meanLn: this.#ln, varianceLn: Math.max(0, this.#lnSquare - this.#ln ** 2) };
  }
}
