/**
 * One batch from its record to its end, as long as its run is at work here.
 *
 *   created (batch_creation.ts) -> polled (batch_polling.ts) -> collected (batch_collection.ts) -> no record, no files
 *       \-> back                      \-> gone, rescued: back, in doubt       \-> another's: created again
 *   any -> left: its record stays, and the next process goes on
 */

import { PerigeeError } from "../../errors.ts";
import type { RemoteBatch } from "../../providers/batches/batch_wire.ts";
import type { ItemOwner } from "../items/item_owner.ts";
import { BatchCollection } from "./batch_collection.ts";
import { BatchCreation, type CreationTerms } from "./batch_creation.ts";
import { BatchItems } from "./batch_lines.ts";
import { type BatchMoments, BatchPolling } from "./batch_polling.ts";
import { linesIn } from "./batch_record.ts";
import { BatchSettler, type SettlingServices } from "./batch_settler.ts";
import type { KeptBatch } from "./kept_batch.ts";

/** What a batch needs of all batches of its engine. */
export interface BatchCompany {
  /** What a batch that has no id yet needs to know. */
  creating(batch: OpenBatch): CreationTerms;
  momentsOf(batch: OpenBatch): BatchMoments;
  /** Its record, its file or what it waits for has changed. */
  changed(batch: OpenBatch): void;
  /** What is learnt of how long batches take. */
  ended(batch: OpenBatch, tookMs: number): void;
}

/** One for a record. */
export class OpenBatch {
  readonly kept: KeptBatch;
  readonly owner: ItemOwner;
  readonly itemsPath: string;
  readonly #settling: SettlingServices;
  readonly #company: BatchCompany;
  #settler: BatchSettler | undefined;
  /** Items whose results the provider says to have. */
  finished = 0;
  /** Monotonic: since when its run is over; undefined while it is at work. */
  overMs: number | undefined;

  constructor(
    kept: KeptBatch,
    owner: ItemOwner,
    itemsPath: string,
    settling: SettlingServices,
    company: BatchCompany,
  ) {
    this.kept = kept;
    this.owner = owner;
    this.itemsPath = itemsPath;
    this.#settling = settling;
    this.#company = company;
  }

  /** Items that are with it. */
  get left(): number {
    return this.#settler?.left ?? this.kept.record.items;
  }

  /** Their lines. */
  leftLines(): Iterable<number> {
    return this.#settler?.leftLines() ?? linesIn(this.kept.record.lines);
  }

  /** Whether the provider has it and works on it, as far as is known: a process may leave. */
  get isSubmitted(): boolean {
    const { isAsked, record } = this.kept;
    return isAsked && (record.state === "running" || record.state === "cancelling");
  }

  /** Money is held here no more: the process leaves, or it has ended. */
  release(): void {
    this.#settling.held.release();
  }

  /** Resolves when it is over, or left; rejects with what its run cannot go on for. */
  async run(): Promise<void> {
    try {
      while (!(await this.#once()));
    } catch (error) {
      if (!this.kept.left.aborted) throw error;
    }
  }

  /** From where it is to its end; false if it is to be created again. */
  async #once(): Promise<boolean> {
    const { kept } = this;
    if (kept.record.state === "ingested") return this.#remove();
    if (kept.record.batchId === undefined) {
      const { wire, lines } = kept.way;
      if (wire.add !== undefined) {
        const items = await this.#items();
        lines.endOf = (place) => items.endOf(place);
      }
      const created = await new BatchCreation(kept, this.#company.creating(this)).run();
      lines.endOf = undefined;
      this.#company.changed(this);
      if (created.is === "doubt") return this.#leave("rescued");
      if (created.is === "back") {
        const why = `batch of ${kept.record.items} items for ${kept.record.model} could not be created: ${created.why.message}`;
        kept.way.storage.notice(why);
        await (await this.#settlerOf()).returnRest({ end: "failed", faults: [] });
        return this.#remove();
      }
    }
    const polled = await new BatchPolling(
      kept,
      () => this.#company.momentsOf(this),
      (batch) => this.#progress(batch),
    ).run();
    return polled.is === "ended" ? this.#collect(polled.batch) : this.#leave(polled.is);
  }

  async #leave(why: "gone" | "rescued"): Promise<true> {
    const { kept } = this;
    kept.way.storage.notice(doubtText(kept.record.batchId ?? kept.record.tag, kept.record.model, why));
    await (await this.#settlerOf()).doubtRest();
    return this.#remove();
  }

  async #collect(batch: RemoteBatch): Promise<boolean> {
    const { kept } = this;
    if (kept.record.state === "running" || kept.record.state === "cancelling") {
      if (batch.end === "completed") this.#company.ended(this, this.#tookMs());
      await kept.put({ state: "ended", ...(batch.end === undefined ? {} : { end: batch.end }) });
    }
    const settler = await this.#settlerOf();
    const items = await this.#items();
    if ((await new BatchCollection(kept, items, settler).run(batch)) === "all") return this.#remove();
    const { batchId, isUnconfirmed: _, end: _end, ...rest } = kept.record;
    kept.record = rest;
    await kept.put({ state: "creating", passedOver: [...(rest.passedOver ?? []), batchId ?? ""] });
    return false;
  }

  async #remove(): Promise<true> {
    const { kept } = this;
    await kept.remove();
    this.release();
    const { disk } = kept.way.storage;
    await disk.remove(kept.way.lines.path);
    await disk.remove(this.itemsPath);
    return true;
  }

  #progress({ counts }: RemoteBatch): void {
    this.finished = (counts.succeeded ?? 0) + (counts.failed ?? 0);
    this.#company.changed(this);
  }

  #tookMs(): number {
    const { clock, record } = this.kept;
    return Math.max(0, clock.wallMs() - (record.createdWallMs ?? clock.wallMs()));
  }

  async #settlerOf(): Promise<BatchSettler> {
    this.#settler ??= new BatchSettler(this.kept, this.owner, await this.#items(), this.#settling);
    return this.#settler;
  }

  async #items(): Promise<BatchItems> {
    const { record, way } = this.kept;
    const items = await BatchItems.read(way.storage.disk, this.itemsPath, record.items);
    if (items !== undefined) return items;
    throw new PerigeeError(
      "store_damaged",
      `${this.itemsPath} is missing or damaged; it says which lines are in batch ${record.batchId ?? record.tag} of ${record.model}: restore it from a backup, or cancel the batch and start over with another data folder`,
    );
  }
}

function doubtText(batchId: string, model: string, why: "gone" | "rescued"): string {
  const reason =
    why === "gone" ? "the provider does not know it any more" : "it did not end before its deadline was near";
  return `batch ${batchId} of ${model} is left: ${reason}; its items are sent again, and what it may have cost is in doubt`;
}
