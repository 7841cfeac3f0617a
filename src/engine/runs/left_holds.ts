/**
 * What held a run when it was left.
 */
import type { EngineCore } from "../core.ts";
import { type Hold, isCallers } from "../items/holds.ts";
import type { RunState } from "../items/run_state.ts";
import type { EngineStorage } from "../journal/storage.ts";
import type { Lanes } from "../lanes/lanes.ts";
import { diskHold } from "../lanes/run_holds.ts";
import type { Watch } from "./watch.ts";

/** Whether no answer to what was in flight when the run stopped has ended a hold. */
export function isStillHeld({ reason, provider }: Hold, lanes: Lanes): boolean {
  if (isCallers(reason) || provider === undefined) return true;
  for (const { terms, health } of lanes.all())
    if (terms.provider === provider && health.trouble !== undefined) return true;
  return false;
}

/** The hold of a run that has waited for a full disk for as long as it may; `found`: as it was found last. */
export function fullDiskHold(
  { clock, room }: Pick<EngineStorage, "clock" | "room">,
  state: RunState,
  found: Hold | undefined,
): Hold {
  const { linesTotal = state.linesRead, blankLines } = state;
  const hold = found ?? diskHold(state, room.fullPath, clock.nowMs(), clock);
  const items = Math.max(0, linesTotal - blankLines - state.items.done.size); // answers that were not recorded are lost
  return { ...hold, items, next_try: null }; // nothing is tried before the next call
}

/**
 * Of a run that is over: waits until nothing is left but items in batches of another key, which end with that key in a later call.
 * Stops the run if there are any, and returns what holds them.
 */
export async function leaveRefused(
  state: RunState,
  watch: Watch,
  { batches, holds, lanes }: EngineCore["sending"],
): Promise<readonly Hold[]> {
  const { claimed } = state.items;
  await watch.until(() => claimed.size === batches.refusedItems(state));
  if (claimed.size === 0) return [];
  const held = holds.of(state, true).holds.filter(({ reason }) => reason === "key_changed");
  state.phase = "stopping";
  lanes.drop(state);
  return held;
}
