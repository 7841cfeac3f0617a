/**
 * One batch from its record to its end, as long as its run is at work here.
 *
 *   created (batch_creation.ts) -> polled (batch_polling.ts) -> collected (batch_collection.ts) -> no record, no files
 *       |-> back                      \-> gone, rescued: back, in doubt       \-> another's: created again
 *       \-> lost, rescued: back, in doubt
 *   any -> left: its record stays, and the next process goes on
 */
import { PerigeeError } from "../../errors.ts";
import { loadValidators } from "../../json_schema.ts";
import type { BatchFailure, RemoteBatch } from "../../providers/batches/batch_wire.ts";
import type { ItemOwner } from "../items/item_owner.ts";
import { BatchCollection } from "./batch_collection.ts";
import { BatchCreation, type CreationTerms } from "./batch_creation.ts";
import { BatchItems } from "./batch_lines.ts";
import { type BatchMoments, BatchPolling } from "./batch_polling.ts";
import { type BatchReason, type BatchRecord, linesIn } from "./batch_record.ts";
import { BatchSettler, type SettlingServices } from "./batch_settler.ts";
import type { KeptBatch } from "./kept_batch.ts";

/** What a batch needs of all batches of its engine. */
export interface BatchCompany {
  /** What a batch that has no id yet needs to know. */
  creating(batch: OpenBatch): CreationTerms;
  momentsOf(batch: OpenBatch): BatchMoments;
  /** Its record, its file or what it waits for has changed. */
  changed(batch: OpenBatch): void;
  /** Its provider had too many tokens enqueued for it, with these words. */
  overflowed(batch: OpenBatch, message: string): void;
  /** Its provider takes no batch of so many bytes. */
  tooLarge(batch: OpenBatch): void;
  /** It was refused for good, with this status. Returns whether no other is tried for some hours. */
  refused(batch: OpenBatch, status: number): boolean;
  /** Its provider has taken it. */
  created(batch: OpenBatch): void;
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
  /** Items that the provider says to have finished; undefined where it does not show counts, and before it was asked. */
  finished: number | undefined;
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
    const { record, way } = kept;
    if (way.wire.traits.showsProgress) this.finished = record.finished;
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

  /** Its process leaves: what it may cost still counts in the caps of its run. */
  leaveMoney(): void {
    this.#settling.held.leave();
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
      if (created.is === "doubt") return this.#leave(wire.list === undefined ? "lost" : "rescued");
      if (created.is === "back") return this.#back(created.why);
      this.#company.created(this);
    }
    const polled = await new BatchPolling(kept, {
      momentsOf: () => this.#company.momentsOf(this),
      onProgress: (batch) => this.#progress(batch),
      isTaken: this.#company.creating(this).isTaken,
    }).run();
    return polled.is === "ended" ? this.#collect(polled.batch) : this.#leave(polled.is);
  }

  /** It was not created: its items go back, to smaller batches where it was too large. */
  async #back({ is, message, status }: Pick<BatchFailure, "is" | "message" | "status">): Promise<true> {
    const { record, way } = this.kept;
    const settler = await this.#settlerOf();
    way.tally.ended(this.kept.provider, "not_created");
    if (is === "too_large" && record.items > 1) {
      if (status !== 0) this.#company.tooLarge(this);
      await settler.returnUnsent();
    } else {
      const isOff = is !== "refused" && this.#company.refused(this, status);
      const more = isOff ? "; no other batch is tried there for some hours" : "";
      way.storage.notice(
        `batch of ${record.items} items for ${record.model} could not be created: ${message}${more}`,
      );
      await settler.returnRest({ end: "failed", faults: [], counts: {} });
    }
    return this.#remove();
  }

  async #leave(why: "gone" | "rescued" | "lost"): Promise<true> {
    const { kept } = this;
    const then = this.owner.isOpen ? "its items are sent again" : "its items end with their run";
    kept.way.tally.ended(kept.provider, why);
    kept.way.storage.notice(doubtText(kept.record, why, then));
    await (await this.#settlerOf()).doubtRest();
    return this.#remove();
  }

  async #collect(batch: RemoteBatch): Promise<boolean> {
    const { kept } = this;
    const isOver = kept.record.state !== "running" && kept.record.state !== "cancelling";
    if (!isOver) {
      kept.way.tally.ended(kept.provider, batch.end ?? "completed");
      if (batch.end === "completed") this.#company.ended(this, this.#tookMs());
      await kept.put({ state: "ended", ...(batch.end === undefined ? {} : { end: batch.end }) });
    }
    const hold = this.owner.isOpen ? holdIn(batch) : undefined;
    if (hold !== undefined) return this.#createLater(batch, hold);
    const settler = await this.#settlerOf();
    const items = await this.#items();
    if ((await new BatchCollection(kept, items, settler).run(batch)) === "all") return this.#remove();
    await this.#passOver("creating");
    return false;
  }

  /** Its account had no money or no room for it: the same lines are a batch again once it has. */
  async #createLater(batch: RemoteBatch, is: "account" | "full"): Promise<boolean> {
    const { kept } = this;
    const { message = "the batch failed" } = batch.faults.find((fault) => fault.is === is) ?? {};
    if (is === "full") this.#company.overflowed(this, message);
    await this.#passOver("spooled", { is, message });
    for (const request of kept.way.wire.remove(batch)) await kept.way.calls.send(request, kept.left);
    if (is === "account") await kept.waitAfter({ is, message, status: 0 });
    return false;
  }

  /** Its batch was another's, or failed as a whole: it has none again. */
  async #passOver(state: "creating" | "spooled", failed?: BatchReason): Promise<void> {
    const { kept } = this;
    const { batchId = "", isUnconfirmed: _, end: _end, file: _file, failed: _failed, ...rest } = kept.record;
    this.finished = undefined;
    const passedOver = [...(rest.passedOver ?? []), batchId];
    await kept.restate({
      ...(state === "creating" ? withFile(rest, kept.record.file) : rest),
      state,
      passedOver,
      ...(failed === undefined ? {} : { failed }),
    });
  }

  async #remove(): Promise<true> {
    const { kept } = this;
    await kept.remove();
    this.#settling.held.release();
    const { disk } = kept.way.storage;
    await disk.remove(kept.way.lines.path);
    await disk.remove(this.itemsPath);
    return true;
  }

  #progress({ counts: { succeeded = 0, failed = 0, share } }: RemoteBatch): void {
    const { record, way } = this.kept;
    if (way.wire.traits.showsProgress)
      this.finished = share === undefined ? succeeded + failed : Math.floor(share * record.items);
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
    if (items?.hasSchemas === true) await loadValidators(); // their lines were measured in another process
    if (items !== undefined) return items;
    throw new PerigeeError(
      "store_damaged",
      `${this.itemsPath} is missing or damaged; it says which lines are in batch ${record.batchId ?? record.tag} of ${record.model}: restore it from a backup, or cancel the batch and start over with another data folder`,
    );
  }
}

function withFile(record: BatchRecord, file: string | undefined): BatchRecord {
  return file === undefined ? record : { ...record, file };
}

/** What of its account made a batch fail before it ran; undefined for any other end. */
function holdIn({ end, faults, results }: RemoteBatch): "account" | "full" | undefined {
  if (end !== "failed" || results.length > 0) return undefined;
  const kinds = new Set(faults.map(({ is }) => is));
  return kinds.has("account") ? "account" : kinds.has("full") ? "full" : undefined;
}

const LEFT_BECAUSE = {
  gone: "the provider does not know it any more",
  rescued: "it did not end before its deadline was near",
  lost: "the answer to its creation was lost, and nothing lists what was submitted",
} as const;

function doubtText(
  { batchId, tag, model }: BatchRecord,
  why: keyof typeof LEFT_BECAUSE,
  then: string,
): string {
  const reason = LEFT_BECAUSE[why];
  return `batch ${batchId ?? tag} of ${model} is left: ${reason}; ${then}, and what it may have cost is in doubt`;
}
