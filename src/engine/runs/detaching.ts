/**
 * Leaving a run whose items are all with batches at their providers: its process ends, and the same call collects them later.
 *
 *   an item waits, is in flight, is retried or held -> at work
 *   a batch has no id at its provider yet           -> at work
 *   otherwise, if something is with batches         -> may be left
 */
import type { Clock } from "../../clock.ts";
import type { Disk } from "../../disk.ts";
import { parseModelId } from "../../work/request.ts";
import type { Batches } from "../batches/batches.ts";
import type { LeftBatch } from "../items/progress.ts";
import type { RunState } from "../items/run_state.ts";
import type { OpenedRun } from "./run_open.ts";

/** The stop reason of a run that is left to its batches. */
export const DETACHED = "detached";

/** Whether nothing of a detaching run that was read through is left to do here but to wait for its batches. */
export function isAllSubmitted(batches: Batches, state: RunState): boolean {
  return state.isDetaching && isAllBatched(batches, state) && batches.isSubmitted(state);
}

/** Whether a run that was read through only waits for batches, which are at their providers or on their way. */
export function isLeftToBatches(batches: Batches, state: RunState): boolean {
  return !state.hasMore && isAllBatched(batches, state);
}

function isAllBatched(batches: Batches, state: RunState): boolean {
  const { items } = state;
  if (!state.isOpen || items.waitingItems > state.waitingTwins || items.inFlight > 0 || items.held.size > 0)
    return false;
  return items.claimed.size > 0 && items.claimed.size === batches.workOf(state).items;
}

/** The batches that a run leaves, oldest first; call it before the run is dropped from its lanes. */
export function leftBatches(batches: Batches, state: RunState, clock: Clock): LeftBatch[] {
  const { deadlineMs } = state.settings;
  const deadline = Number.isFinite(deadlineMs) ? isoTime(clock.wallMs() + deadlineMs - clock.nowMs()) : null;
  const left: LeftBatch[] = [];
  for (const { kept, owner, left: items } of batches.open) {
    if (owner !== state) continue;
    const { batchId = null, model, state: stage, createdWallMs } = kept.record;
    left.push({
      ...{ id: batchId, provider: parseModelId(model)?.provider ?? model, model, items, state: stage },
      created_at: createdWallMs === undefined ? null : isoTime(createdWallMs),
      deadline,
    });
  }
  return left.sort((one, other) => (one.created_at ?? "").localeCompare(other.created_at ?? ""));
}

/** An output without a line, which the next call makes again: nobody is to take it for the end of the work. */
export async function removeEmpty(
  disk: Pick<Disk, "remove">,
  { output, body }: Pick<Extract<OpenedRun, { kind: "open" }>, "output" | "body">,
): Promise<void> {
  if (output.end === 0 && output.path === body.out) await disk.remove(output.path);
}

function isoTime(wallMs: number): string {
  return new Date(Math.round(wallMs)).toISOString();
}
