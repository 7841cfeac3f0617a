/**
 * What a provider takes at once of batches: how many are open, and how many tokens they have in its queue. Reserved when a batch
 * is created, given back at every end.
 *
 * A batch that is alone goes, however large it is: only its provider knows its limits for sure.
 */
import type { OpenBatch } from "./open_batch.ts";

/** Of limits that nobody has configured, and that differ by account. */
export class BatchStocks {
  /** Whether a batch may be created beside those that are. */
  hasRoomFor(batch: OpenBatch, all: Iterable<OpenBatch>): boolean {
    const { record, way } = batch.kept;
    const { openMax = Number.POSITIVE_INFINITY, enqueuedTokensMax = Number.POSITIVE_INFINITY } =
      way.wire.limits;
    let open = 0;
    let tokens = record.inputTokens;
    for (const other of all) {
      const isBeside = other !== batch && other.kept.way.wire.settings.name === way.wire.settings.name;
      if (!isBeside || other.kept.record.state === "spooled" || other.kept.record.end !== undefined) continue;
      open += 1;
      if (other.kept.record.model === record.model) tokens += other.kept.record.inputTokens;
    }
    return open === 0 || (open < openMax && tokens <= enqueuedTokensMax);
  }
}
