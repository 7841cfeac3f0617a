/**
 * Items that a batch gives back, on their way to their lane: read from the input and measured again.
 *
 *   claimed by the batch -> on their way (counted as waiting) -> in shards, in the backlog
 *
 * The input must still hold what was sent: a key that differs fails the run with `input_changed`.
 */
import type { MeasuredBlock } from "../../shard/measured.ts";
import { Packer } from "../../shard/pack.ts";
import { indexAfter, placesOf } from "../../shard/reload.ts";
import type { Shard } from "../../shard/shard.ts";
import type { ItemOwner } from "../items/item_owner.ts";
import type { BatchItem } from "./batch_lines.ts";

/** `items`: in the order of their lines. Resolves when they are in the backlog, or their run sends no more. */
export async function sendAgain(
  owner: ItemOwner,
  items: readonly BatchItem[],
  feed: { add(owner: ItemOwner, shards: readonly Shard[]): Promise<void> },
): Promise<void> {
  const { items: states, measureAgain } = owner;
  if (measureAgain === undefined) throw new Error("these items cannot be found again");
  states.waitingItems += items.length;
  for (const { line } of items) states.claimed.delete(line);
  const packer = new Packer();
  try {
    let from = 0;
    for await (const measured of measureAgain.call(owner, placesOf(items))) {
      if (!owner.isOpen) return;
      from = indexAfter(items, from, measured);
      reject(owner, measured);
      await feed.add(owner, packer.add(measured, true));
    }
    await feed.add(owner, packer.flush());
  } finally {
    states.waitingItems = Math.max(0, states.waitingItems - items.length);
    owner.changed();
  }
}

/** The configuration has changed since: what cannot be sent any more ends. */
function reject({ records, items }: ItemOwner, { rejected }: MeasuredBlock): void {
  for (const { line, key, code, message } of rejected) {
    if (!items.claimed.add(line)) continue;
    records.unsent(line, key === null ? null : JSON.stringify(key), { status: "failed", code, message });
  }
}
