/**
 * What a plan has given to lanes with stocks: enqueued tokens, and items of the batches that may still be opened.
 */
import type { PlanGroup, PlanOffer } from "./plan_input.ts";

export class LaneStock {
  readonly #items = new Map<PlanOffer, number>();
  readonly #tokens = new Map<PlanOffer, number>();

  /** The part of a group that a lane still takes, in [0, 1]. */
  shareLeft(offer: PlanOffer, group: PlanGroup): number {
    if (offer.batch === undefined) return 1;
    const { enqueuedTokensLeft, openBatchesLeft, itemsMax } = offer.batch;
    const items = (openBatchesLeft ?? Number.POSITIVE_INFINITY) * itemsMax - this.itemsIn(offer);
    const tokens = (enqueuedTokensLeft ?? Number.POSITIVE_INFINITY) - (this.#tokens.get(offer) ?? 0);
    const byTokens = group.inputTokens === 0 ? 1 : tokens / group.inputTokens;
    return Math.max(0, Math.min(1, items / group.items, byTokens));
  }

  take(offer: PlanOffer, group: PlanGroup, share: number): void {
    this.#items.set(offer, this.itemsIn(offer) + group.items * share);
    this.#tokens.set(offer, (this.#tokens.get(offer) ?? 0) + group.inputTokens * share);
  }

  /** Items that it was given. */
  itemsIn(offer: PlanOffer): number {
    return this.#items.get(offer) ?? 0;
  }
}
