/**
 * The search for a batch that may have been created: by the tag that it was given, or, where a provider keeps none, by the
 * number of its requests and the time.
 *
 * Of several with our tag the oldest is ours, and the others are twins: they are cancelled, and what they may have cost is booked.
 * Without tags, a batch of the same size is only a candidate: it is held until it has ended, and the ids of its results say whose it is.
 * It is never cancelled before.
 *
 * Limits: 200 pages; batches that are older than the first attempt to create ours, by the provider's clock, less 5 minutes.
 */

import type { BatchFailure, BatchSearch, RemoteBatch } from "../../providers/batches/batch_wire.ts";
import { lostFailure } from "./batch_calls.ts";
import type { KeptBatch } from "./kept_batch.ts";

const PAGES_MAX = 200;
const CLOCKS_DIFFER_MS = 300_000;

/** What was found. */
export interface FoundBatches {
  readonly ok: true;
  /** Undefined if it was not found. */
  readonly batch: RemoteBatch | undefined;
  readonly twins: readonly RemoteBatch[];
}

/** `isTaken`: whether a batch is another record's. */
export async function findBatch(
  kept: KeptBatch,
  isTaken: (batchId: string) => boolean,
): Promise<FoundBatches | BatchFailure> {
  const { wire, calls } = kept.way;
  const { list, readPage } = wire;
  if (list === undefined || readPage === undefined) return { ok: true, batch: undefined, twins: [] };
  const { createdFromWallMs = 0, passedOver = [] } = kept.record;
  const search: BatchSearch = { payload: kept.payload, sinceWallMs: createdFromWallMs - CLOCKS_DIFFER_MS };
  const found: RemoteBatch[] = [];
  let request = list.call(wire, search);
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const answer = await calls.send(request, kept.left);
    kept.left.throwIfAborted();
    if (!answer.ok) return lostFailure(answer);
    const read = readPage.call(wire, answer, search, request);
    if (!read.ok) return read;
    const isOurs = (batch: RemoteBatch): boolean =>
      isOf(batch, kept, search) && !isTaken(batch.id) && !passedOver.includes(batch.id);
    found.push(...read.batches.filter(isOurs));
    const isPast = read.batches.some(
      ({ createdWallMs }) => createdWallMs !== undefined && createdWallMs < search.sinceWallMs,
    );
    if (read.next === undefined || isPast) break;
    request = read.next;
  }
  found.sort((left, right) => (left.createdWallMs ?? 0) - (right.createdWallMs ?? 0));
  const [batch, ...others] = found;
  return { ok: true, batch, twins: isSure(batch, kept) ? others : [] };
}

/**
 * Looks once for other batches of a record that has one and was created again: they are cancelled where they are ours for sure, and
 * what they may have cost is in doubt. Of a failed search nothing is known: it is made again at the next poll.
 */
export async function cancelTwins(kept: KeptBatch, isTaken: (batchId: string) => boolean): Promise<void> {
  const isOther = (id: string): boolean => id === kept.record.batchId || isTaken(id);
  const found = await findBatch(kept, isOther);
  if (!found.ok) return;
  const { batch, twins } = found;
  const all = batch === undefined ? [] : [batch, ...twins];
  for (const twin of all) if (isSure(twin, kept)) await cancelTwin(kept, twin);
  const hasTwin = all.length > 0 || kept.record.hasTwin === true;
  await kept.put({ mayHaveTwin: false, ...(hasTwin ? { hasTwin } : {}) });
}

/** A batch that was created a second time: nobody needs it. What it may have cost is in doubt. */
export async function cancelTwin(kept: KeptBatch, { id, end }: RemoteBatch): Promise<void> {
  const cancel = kept.way.wire.cancel(id);
  if (cancel === undefined || end !== undefined) return;
  await kept.way.calls.send(cancel, kept.left);
  kept.left.throwIfAborted();
}

/** Whether a batch that was found is ours for sure. */
export function isSure(
  batch: Pick<RemoteBatch, "tag" | "inputFile"> | undefined,
  { record }: Pick<KeptBatch, "record">,
): boolean {
  return batch?.tag === record.tag || (batch?.inputFile !== undefined && batch.inputFile === record.file);
}

function isOf(
  batch: RemoteBatch,
  { record, way }: KeptBatch,
  { payload, sinceWallMs }: BatchSearch,
): boolean {
  if (batch.tag === payload.tag) return true;
  if (way.wire.traits.tag !== "ids") return false;
  if (batch.inputFile !== undefined && record.file !== undefined) return batch.inputFile === record.file;
  const { createdWallMs = sinceWallMs, counts } = batch;
  return createdWallMs >= sinceWallMs && counts.total === payload.items;
}
