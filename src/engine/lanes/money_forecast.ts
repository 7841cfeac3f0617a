/**
 * Whether caps leave the money for work, as far as it can be expected: what it takes itself, after what is due no later under the
 * same caps and waits in lanes. What a cap holds takes nothing.
 */
import type { ItemOwner } from "../items/item_owner.ts";
import type { Lane } from "./lane.ts";

/** Work under the caps of its budget, which may be in no lane yet. */
export interface CappedWork {
  readonly settings: Pick<ItemOwner["settings"], "budget" | "deadlineMs">;
  /** Of those that its budget expects. */
  readonly openItems: number;
}

/** Whether caps will hold some of it. */
export function lacksMoney({ settings, openItems }: CappedWork, lanes: Iterable<Lane>): boolean {
  const { budget, deadlineMs } = settings;
  if (!budget.isCapped) return false;
  const waiting = new Set<ItemOwner>();
  for (const lane of lanes) for (const { owner } of lane.waiting()) waiting.add(owner);
  let aheadUsd = 0;
  for (const other of waiting) {
    const { settings: terms } = other;
    if (terms.budget === budget || terms.deadlineMs > deadlineMs || !terms.budget.sharesCap(budget)) continue;
    let heldItems = 0;
    for (const { items } of other.items.held.values()) heldItems += items;
    aheadUsd += terms.budget.expectedUsd(other.openItems - heldItems);
  }
  return !budget.suffices(openItems, aheadUsd);
}
