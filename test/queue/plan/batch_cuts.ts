/**
 * How shares that go to one batch lane are cut into batches. Pure.
 *
 * A batch is left as a whole, so items that must be left early do not share one with items that may wait for long; and much work
 * is cut into several, because what is left of one that does not end is then a part of it. Both up to what the lane takes.
 */
import type { BatchTerms } from "../../../src/queue/plan/plan_input.ts";

/** Items that wait for a lane. */
export interface WaitingItems {
  readonly groupId: string;
  readonly items: number;
  readonly deadlineMs: number;
  /** When realtime would have to take over. */
  readonly switchMs: number;
}

/** A part of a group in a batch. */
export interface BatchPart {
  readonly groupId: string;
  readonly items: number;
}

/** Of providers' limits, 0.95 are used. */
const FILL = 0.95;
/** Work of one lane is cut into about so many batches, of at least so many items. */
const PIECES = 32;
const PIECE_ITEMS_MIN = 50;
/** In one batch, the times until the latest and the earliest switch differ by up to so much. */
const SPREAD = 1.5;

/** The parts of each batch, those that must be left first before others. */
export function cutBatches(
  waiting: readonly WaitingItems[],
  terms: BatchTerms,
  nowMs: number,
): readonly (readonly BatchPart[])[] {
  const total = waiting.reduce((sum, { items }) => sum + items, 0);
  const openMax = terms.openBatchesLeft ?? Number.POSITIVE_INFINITY;
  const fullItems = Math.max(1, Math.floor(terms.itemsMax * FILL));
  const least = Math.max(1, terms.minItems ?? 1);
  const evenly = Math.max(
    PIECE_ITEMS_MIN,
    least,
    Math.ceil(total / PIECES),
    Math.ceil((2 * total) / openMax),
  );
  const sorted = waiting.toSorted(
    (one, other) => one.switchMs - other.switchMs || (one.groupId < other.groupId ? -1 : 1),
  );
  const batches: BatchPart[][] = [];
  let itemsInLast = Number.POSITIVE_INFINITY;
  let firstMs = 0;
  let leftToCut = total;
  for (const { groupId, items, switchMs } of sorted) {
    for (let left = items; left > 0; ) {
      const isApart = switchMs - nowMs > SPREAD * Math.max(0, firstMs - nowMs);
      const mayOpen = batches.length < openMax && itemsInLast >= least && leftToCut >= least;
      const isFull = itemsInLast >= fullItems;
      if (batches.length === 0 || (mayOpen && (isFull || isApart || itemsInLast >= evenly))) {
        batches.push([]);
        itemsInLast = 0;
        firstMs = switchMs;
      } else if (isFull) return batches; // no more may be opened: the rest waits
      const roomItems =
        (mayOpen && itemsInLast < evenly ? Math.min(evenly, fullItems) : fullItems) - itemsInLast;
      const taken = Math.min(left, Math.max(1, roomItems));
      batches.at(-1)?.push({ groupId, items: taken });
      itemsInLast += taken;
      left -= taken;
      leftToCut -= taken;
    }
  }
  return batches;
}
