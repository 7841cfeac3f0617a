/**
 * How many other items a lane fails at this moment. An item that failed while others were answered fails for the lane's reason
 * like all others once an outage has begun.
 *
 * Kept are the last failures of up to 6 items. An answer removes those of requests that were sent before its own, and the oldest
 * one. So answers to requests from before an outage, which are few beside its failures, hide it from nobody, and failures by chance,
 * which are few beside the answers, are no outage.
 */

const KEPT_MAX = 6;

interface Failure<Item> {
  readonly item: Item;
  readonly sentMs: number;
}

/** One per lane. Times are monotonic, in ms. Hot path: a few ns an answer. */
export class OtherFailures<Item> {
  /** The newest last. */
  #failures: readonly Failure<Item>[] = [];

  /** A request that was sent at `sentMs` was answered. */
  answered(sentMs: number): void {
    if (this.#failures.length > 0)
      this.#failures = this.#failures.slice(1).filter((failure) => failure.sentMs > sentMs);
  }

  /** The request of an item that was sent at `sentMs` failed. */
  failed(item: Item, sentMs: number): void {
    const others = this.#failures.filter((failure) => failure.item !== item);
    this.#failures = [...others.slice(1 - KEPT_MAX), { item, sentMs }];
  }

  /** How many others than this item fail, 0 to 6, of those that count. */
  beside(item: Item, counts: (other: Item) => boolean = () => true): number {
    let count = 0;
    for (const failure of this.#failures) if (failure.item !== item && counts(failure.item)) count += 1;
    return count;
  }
}
