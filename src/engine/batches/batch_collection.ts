/**
 * The results of a batch that has ended, settled one by one, and what is left of its items given back.
 *
 *   ended -> collecting --each result--> settled, or back to its lane
 *               |  \--the stream breaks, or is refused for now--> again, from the byte after the last settled one
 *               |--the first id is not ours--> another's batch (of those found by their size)
 *               \--all sources read--> items without a result go back -> ingested -> deleted at the provider, then here
 *
 * A batch is a bag of requests: nothing is inferred from the order of its results, ids that are unknown or repeated are ignored,
 * and each result counts once, because its line is settled once.
 *
 * Limits: 1,024 results are staged before the disk is waited for; the place of the last settled one is stored every 8 MiB.
 */
import type {
  BatchFault,
  BatchResult,
  RemoteBatch,
  ResultSource,
} from "../../providers/batches/batch_wire.ts";
import type { BatchItems } from "./batch_lines.ts";
import { type ResultElement, resultsOf } from "./batch_results.ts";
import type { BatchSettler } from "./batch_settler.ts";
import type { KeptBatch } from "./kept_batch.ts";

const STAGED_MAX = 1_024;
const NOTED_BYTES = 8 * 1024 * 1024;
/** Refusals of a source in a row, other than for now, before its results count as lost. */
const REFUSALS_MAX = 3;

/** How far a source is read. */
interface SourcePlace {
  readonly index: number;
  /** Results since the disk was waited for. */
  staged: number;
  settledBytes: number;
}

/** `other`: it is another program's batch. */
export type Collected = "all" | "other";

/** One for a batch that has ended. */
export class BatchCollection {
  readonly #kept: KeptBatch;
  readonly #items: BatchItems;
  readonly #settler: BatchSettler;
  #isConfirmed: boolean;
  #unknown = 0;

  constructor(kept: KeptBatch, items: BatchItems, settler: BatchSettler) {
    this.#kept = kept;
    this.#items = items;
    this.#settler = settler;
    this.#isConfirmed = kept.record.isUnconfirmed !== true;
  }

  /** Resolves when all that it has is durable here, and the rest is on its way back; rejects when it is left. */
  async run(batch: RemoteBatch): Promise<Collected> {
    const kept = this.#kept;
    const { end = "completed" } = batch;
    if (kept.record.state !== "collecting") await kept.put({ state: "collecting", end });
    for (const fault of batch.faults) this.#fault(fault);
    for (const [index, source] of batch.results.entries())
      if ((await this.#read(source, index)) === "other") return "other";
    if (!this.#isConfirmed) return "other";
    await this.#settler.settled();
    if (this.#unknown > 0)
      kept.way.storage.notice(
        `batch ${batch.id} of ${kept.record.model}: ${this.#unknown} results have ids that are not in it, and are ignored`,
      );
    await this.#settler.returnRest(batch);
    await kept.put({ state: "ingested" });
    for (const request of kept.way.wire.remove(batch)) await kept.way.calls.send(request, kept.left);
    kept.left.throwIfAborted();
    return "all";
  }

  async #read(source: ResultSource, index: number): Promise<"read" | "other"> {
    const kept = this.#kept;
    const place: SourcePlace = { index, staged: 0, settledBytes: kept.record.collectedBytes?.[index] ?? 0 };
    for (let refusals = 0; refusals < REFUSALS_MAX; ) {
      let isWhole = true;
      place.staged = 0;
      for await (const part of resultsOf(kept.way.calls, source, place.settledBytes, kept.left)) {
        if (part.is === "refused") {
          isWhole = false;
          const { status } = part;
          refusals += status === 429 || status >= 500 ? 0 : 1;
          await kept.waitAfter({ is: "refused", message: `its results: HTTP ${status}`, status });
        } else if (part.is === "lost") {
          isWhole = false;
          kept.left.throwIfAborted();
          await kept.waitAfter({ is: "unknown", message: part.lost.message, status: 0 });
        } else if ((await this.#settle(part.elements, place)) === "other") return "other";
      }
      if (!isWhole) continue;
      kept.healed();
      return "read";
    }
    return "read"; // what it held is not known: its items go back
  }

  /** Hot: waits only for the disk, every 1,024 results. */
  async #settle(elements: Iterable<ResultElement>, place: SourcePlace): Promise<"taken" | "other"> {
    const { wire, tally } = this.#kept.way;
    let results = 0;
    for (const { bytes, endBytes } of elements) {
      if (this.#take(wire.result(bytes)) === "other") return "other";
      results += 1;
      place.staged += 1;
      if (place.staged < STAGED_MAX) continue;
      place.staged = 0;
      await this.#settler.settled();
      place.settledBytes = endBytes;
      if (endBytes - (this.#kept.record.collectedBytes?.[place.index] ?? 0) >= NOTED_BYTES)
        await this.#note(place.index, endBytes);
    }
    tally.collected(this.#kept.provider, results);
    return "taken";
  }

  async #note(index: number, settledBytes: number): Promise<void> {
    const collectedBytes = [...(this.#kept.record.collectedBytes ?? [])];
    while (collectedBytes.length <= index) collectedBytes.push(0);
    collectedBytes[index] = settledBytes;
    await this.#kept.put({ collectedBytes });
  }

  #take(result: BatchResult): "taken" | "other" {
    if (result.is === "unreadable") return "taken"; // its item has no result, and goes back
    const { record } = this.#kept;
    const place = record.kind === "deferred" ? 0 : placeOf(result.id, record.tag, this.#items.items);
    if (place === undefined) {
      if (!this.#isConfirmed) return "other";
      this.#unknown += 1;
      return "taken";
    }
    this.#isConfirmed = true;
    this.#settler.take(place, result);
    return "taken";
  }

  #fault({ line, code }: BatchFault): void {
    if (line !== undefined && line >= 0 && line < this.#items.items) this.#settler.refused(line, code);
  }
}

/** The id of an item's request. */
export function idOf(tag: string, place: number): string {
  return `${tag}-${place}`;
}

/** The place of an id; undefined for one that is not of this batch. */
function placeOf(id: string, tag: string, items: number): number | undefined {
  if (!id.startsWith(`${tag}-`)) return undefined;
  const digits = id.slice(tag.length + 1);
  if (!/^\d{1,9}$/.test(digits)) return undefined;
  const place = Number(digits);
  return place < items ? place : undefined;
}
