/**
 * The open batches of an engine at one moment, for people, metrics and programs; and hints that one of them may have ended.
 */
import type { BatchReason, BatchState } from "../batches/batch_record.ts";
import type { Batches } from "../batches/batches.ts";
import type { OpenBatch } from "../batches/open_batch.ts";
import type { BatchTally } from "../items/batch_tally.ts";
import type { ItemOwner } from "../items/item_owner.ts";
import type { BatchesProgress, Progress } from "../items/progress.ts";

/** A batch that has not been collected. */
export interface BatchStatus {
  /** The provider's; null until it is known here. */
  readonly id: string | null;
  /** Its name in the data folder, and its tag at the provider. */
  readonly tag: string;
  readonly provider: string;
  /** `<provider>:<name>`. */
  readonly model: string;
  /** Empty for runs without one. */
  readonly project: string;
  /** The run that it belongs to. */
  readonly taskId: string;
  readonly state: BatchState;
  /** Its items. */
  readonly items: number;
  /** Of them, those that have not ended here. */
  readonly itemsOpen: number;
  /** Items that the provider said to have finished when it was asked last; absent where it does not show counts, and before. */
  readonly finished?: number;
  /** Input tokens that it has in the provider's queue; 0 before it is uploaded and after its end. */
  readonly enqueuedTokens: number;
  /** Since it was created; absent before. */
  readonly ageMs?: number;
  /** Until its provider is asked for it, or tried, again; absent while that is under way. */
  readonly nextPollInMs?: number;
  /** Why it waits to be created again or to be asked for; absent while nothing is wrong. */
  readonly reason?: BatchReason;
}

/** The batches of an engine, as its callers use them. */
export interface EngineBatches {
  /** Those that are at work, the oldest first; cheap enough for once a second. */
  list(): readonly BatchStatus[];
  /**
   * A hint that a batch may have ended, such as a webhook of its provider: it is asked for now. Asked for at most once every
   * `lanes.pollSeconds.min`, so a second hint within that time takes effect at its end. What the batch did is only believed when its
   * provider says so. Returns false, and changes nothing, for a batch that is not at work here. Throws `usage` for what are not two texts.
   */
  pollNow(provider: string, batchId: string): boolean;
}

/** The same, with the sums of this process. */
export interface CountedBatches extends EngineBatches {
  readonly tally: BatchTally;
}

/** What of `Batches` is shown. */
export interface ShownBatches {
  readonly open: Iterable<OpenBatch>;
  readonly tally: BatchTally;
}

/** Reads `batches` at each call. */
export function countedBatches(batches: ShownBatches): CountedBatches {
  return {
    tally: batches.tally,
    list: () => Array.from(batches.open, batchStatus),
    pollNow: (provider, batchId) => {
      for (const { kept } of batches.open)
        if (kept.provider === provider && kept.record.batchId === batchId) return kept.hint();
      return false;
    },
  };
}

function batchStatus(open: OpenBatch): BatchStatus {
  const { kept, left, finished } = open;
  const { batchId = null, tag, model, project, taskId, state, items, end, createdWallMs } = kept.record;
  const isThere = state !== "spooled" && end === undefined;
  const { reason, nextTryMs } = kept;
  return {
    ...{ id: batchId, tag, provider: kept.provider, model, project, taskId, state, items, itemsOpen: left },
    ...(finished === undefined ? {} : { finished }),
    enqueuedTokens: isThere ? kept.record.inputTokens : 0,
    ...(createdWallMs === undefined || batchId === null
      ? {}
      : { ageMs: Math.max(0, kept.clock.wallMs() - createdWallMs) }),
    ...(nextTryMs === undefined ? {} : { nextPollInMs: Math.max(0, nextTryMs - kept.clock.nowMs()) }),
    ...(reason === undefined ? {} : { reason }),
  };
}

/** What a run has with batches, for its progress; empty while that is nothing. */
export function batchProgress(
  batches: Pick<Batches, "open" | "workOf">,
  owner: ItemOwner,
  nowMs: number,
): Pick<Progress, "batched"> {
  const { items } = batches.workOf(owner);
  if (items === 0) return {};
  let finished: number | undefined;
  let nextMs = Number.POSITIVE_INFINITY;
  let waits: BatchesProgress["waits"];
  for (const { owner: of, kept, left, finished: done } of batches.open) {
    if (of !== owner) continue;
    const ended = kept.record.items - left; // those that were collected are not with it any more
    if (done !== undefined) finished = (finished ?? 0) + Math.min(left, Math.max(0, done - ended));
    const isPolled = kept.record.state === "running" || kept.record.state === "cancelling";
    if (isPolled) nextMs = Math.min(nextMs, kept.nextTryMs ?? Number.POSITIVE_INFINITY);
    const { reason } = kept;
    if (reason === undefined || kept.trouble !== undefined) continue; // its trouble is a hold
    waits = { message: waits?.message ?? reason.message, items: (waits?.items ?? 0) + left };
  }
  return {
    batched: {
      items,
      ...(finished === undefined ? {} : { finished }),
      ...(Number.isFinite(nextMs) ? { nextPollInMs: Math.max(0, nextMs - nowMs) } : {}),
      ...(waits === undefined ? {} : { waits }),
    },
  };
}
