/**
 * Which 429s their item explains: it is refused again and again while requests of other items, sent after its first refusal, are
 * answered. Under a real limit an item is refused again because the rate is too high, and then others are refused too.
 *
 *   answered --a 429--> refused --again, and chance does not explain the row--> own
 *   refused, own --an answer--> answered
 *
 * Since the item's first refusal, `answers` requests of others were answered and `others` items refused. If the lane were the cause,
 * each further refusal of the row would have the probability `others / (others + answers)`; all of them together more than 1/5.
 *
 * A wait that a 429 states is always obeyed. The first refusal counts against the lane; if its item turns out to be the cause, that
 * effect is undone (hidden/hidden_doubt.ts). Under a real limit, chance refuses an item again as often as any other: at most 3 % of the
 * time.
 */
import type { LaneLimits, Permit } from "./limits.ts";

/** An item's refusals in a row. */
export interface RefusedRow {
  /** The lane that refused. */
  readonly limits: LaneLimits;
  /** Refusals after the first one. */
  again: number;
  /** Permits of the refusals that counted against the lane. */
  readonly permits: Permit[];
  /** Counts of the lane at the first refusal: answers, including requests under way, and refused items. */
  readonly answers: number;
  readonly items: number;
}

/** Carries a row from attempt to attempt. */
export interface RefusedItem {
  refusedRow: RefusedRow | undefined;
}

/** Probability of a row below which the item is its cause. */
const CHANCE_MAX = 1 / 5;
/** Permits of a row; older ones are dropped. */
const PERMITS_MAX = 16;

/** One per lane. */
export class OwnRefusals {
  readonly #limits: LaneLimits;
  #answers = 0;
  #items = 0;

  constructor(limits: LaneLimits) {
    this.#limits = limits;
  }

  /** An item was answered: if it had been refused, the lane was the cause. */
  answered(item: RefusedItem): void {
    this.#answers += 1;
    if (item.refusedRow === undefined) return;
    for (const permit of item.refusedRow.permits) item.refusedRow.limits.hidden.doubt.confirmed(permit);
    item.refusedRow = undefined;
  }

  /** Records a 429 that does not state a wait, before its place is released. Returns whether its item explains it. */
  isOwn(nowMs: number, item: RefusedItem, permit: Permit): boolean {
    const row = item.refusedRow;
    if (row?.limits !== this.#limits) {
      this.#items += 1;
      const answers = this.#answers + this.#limits.inFlight - 1;
      item.refusedRow = { limits: this.#limits, again: 0, permits: [permit], answers, items: this.#items };
      return false;
    }
    row.again += 1;
    const answers = this.#answers - row.answers;
    const others = this.#items - row.items;
    const isUnlikely = (refused: number): boolean =>
      answers > 0 && (refused / (refused + answers)) ** row.again <= CHANCE_MAX;
    const isProven = isUnlikely(others + 1);
    if (isProven) this.#limits.hidden.doubt.explained(nowMs, row.permits.splice(0));
    if (isProven || isUnlikely(others)) return true;
    row.permits.push(permit);
    if (row.permits.length > PERMITS_MAX) row.permits.shift();
    return false;
  }
}
