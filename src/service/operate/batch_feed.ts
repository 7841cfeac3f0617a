/**
 * What the operator page shows of open batches: where they are and how far, without their texts and those of providers.
 *
 * Limit: the 50 oldest; how many there are besides is a number.
 */
import type { BatchStatus } from "../../engine/shown/batch_status.ts";

const SHOWN_MAX = 50;

/** Members of a snapshot: the batches of a project, or of all. */
export function batchesBody(
  batches: readonly BatchStatus[],
  project: string,
  seesAll: boolean,
): Record<string, unknown> {
  const seen = batches.filter((batch) => seesAll || batch.project === project);
  return {
    batches: seen.slice(0, SHOWN_MAX).map(batchBody),
    batches_more: Math.max(0, seen.length - SHOWN_MAX),
  };
}

function batchBody(batch: BatchStatus): Record<string, unknown> {
  const { id, tag, provider, model, state, items, itemsOpen, finished, ageMs, nextPollInMs, reason } = batch;
  return {
    ...{ id, tag, provider, model, state, items },
    items_open: itemsOpen,
    finished: finished ?? null,
    age_ms: ageMs === undefined ? null : Math.round(ageMs),
    next_poll_ms: nextPollInMs === undefined ? null : Math.ceil(nextPollInMs),
    reason: reason?.is ?? null,
  };
}
