/**
 * Batches that were made with another key, or at another address: they are never asked for with this one, their items are held, and
 * nothing of them is sent again.
 */
import type { ItemOwner } from "../items/item_owner.ts";
import { providerOfBatch } from "./batch_care.ts";
import { type BatchRecord, type LineRange, linesIn } from "./batch_record.ts";

interface RefusedLines {
  readonly lines: readonly LineRange[];
  /** Of them, those that were open. */
  readonly items: number;
}

/** One for an engine. */
export class RefusedBatches {
  readonly #of = new WeakMap<ItemOwner, RefusedLines>();

  /** Holds the open items of a batch from now on (monotonic). */
  add(owner: ItemOwner, record: BatchRecord, nowMs: number): void {
    const { batchId, tag, items, lines } = record;
    const provider = providerOfBatch(record);
    const message = `batch ${batchId ?? tag} of ${provider} was made with another key or address: configure that one again`;
    const claimedBefore = owner.items.claimed.size;
    owner.items.claimOpen(linesIn(lines));
    const before = this.#of.get(owner) ?? { lines: [], items: 0 };
    this.#of.set(owner, {
      lines: [...before.lines, ...lines],
      items: before.items + owner.items.claimed.size - claimedBefore,
    });
    owner.items.hold({ reason: "key_changed", provider, message }, items, nowMs);
  }

  /** Open items of a run in such batches. */
  itemsOf(owner: ItemOwner): number {
    return this.#of.get(owner)?.items ?? 0;
  }

  linesOf(owner: ItemOwner): Iterable<number> {
    return linesIn(this.#of.get(owner)?.lines ?? []);
  }
}
