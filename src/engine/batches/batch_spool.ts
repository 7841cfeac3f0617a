/**
 * Items on their way into one batch, while it is filled.
 *
 *   filling --full, or idle and ready--> sealed (its record is durable) -> an open batch
 *      |--its run leaves--> dropped: its items are fresh, nothing of it was sent
 *
 * Idle: nothing arrived for a second. With fewer items than `lanes.minItems` it waits for more, unless its run has read all of its
 * input, an item returns from another batch, or waiting would cost a deadline.
 */
import type { Clock, Timer } from "../../clock.ts";
import type { Disk } from "../../disk.ts";
import { kindOfBatch } from "../../providers/batches/batch_endpoints.ts";
import type { BatchEndpoint, BatchLimits, RemoteWire } from "../../providers/batches/batch_wire.ts";
import { MARK_BYTES_MAX } from "../../providers/cache_marks.ts";
import { answersIn, inputsIn } from "../../providers/endpoints/joins.ts";
import type { ItemCall } from "../items/item_call.ts";
import type { ItemOwner } from "../items/item_owner.ts";
import { idOf } from "./batch_collection.ts";
import { BatchLinesWriter, type SealedLines } from "./batch_lines.ts";
import { BatchMoney } from "./batch_money.ts";

/** Of each limit of a batch: counts of tokens and bytes differ from the provider's. */
const LIMIT_SHARE = 0.95;
const IDLE_MS = 1_000;
/** Bytes that wait for the disk, before the lane waits, too. */
const UNWRITTEN_BYTES_MAX = 8 * 1024 * 1024;
/** Texts of items are in memory while results are collected. */
const ITEMS_MAX = 100_000;

/** What its items have in common. */
export interface SpoolTerms {
  readonly clock: Clock;
  readonly tag: string;
  readonly owner: ItemOwner;
  readonly lane: string;
  /** `<provider>:<name>`. */
  readonly model: string;
  /** As the provider calls it. */
  readonly modelName: string;
  readonly endpoint: BatchEndpoint;
  readonly wire: RemoteWire;
  readonly paths: readonly [requests: string, items: string];
  readonly minItems: number;
  /** More than so many do not share a batch: it is left as a whole. */
  readonly pieceItems: number;
  /** The body of an item's request. */
  readonly bodyOf: (call: ItemCall) => Uint8Array;
  /** Input tokens that the provider takes at once; Infinity where that is not known. */
  readonly tokensMax: number;
  readonly bytesMax: number;
  /** Whether it may wait for more items without costing a deadline. */
  readonly mayWait: () => boolean;
}

/** One for a batch that is being filled. */
export class BatchSpool {
  readonly terms: SpoolTerms;
  readonly money: BatchMoney;
  readonly #writer: BatchLinesWriter;
  readonly #onFlush: (spool: BatchSpool) => void;
  readonly lines: number[] = [];
  /** Of its items; `inputs`: of requests for embeddings. */
  readonly #sums = { inputs: 0, inputTokens: 0, outputTokens: 0 };
  /** Monotonic: when its last item arrived. */
  #addedMs = 0;
  #hasReturned = false;
  #timer: Timer | undefined;

  /** `onFlush`: it is to be sealed now. */
  constructor(terms: SpoolTerms, disk: Disk, onFlush: (spool: BatchSpool) => void) {
    this.terms = terms;
    this.money = new BatchMoney(terms.owner.settings.budget);
    this.#writer = new BatchLinesWriter(disk, terms.paths);
    this.#onFlush = onFlush;
  }

  get items(): number {
    return this.#writer.items;
  }

  get inputTokens(): number {
    return this.#sums.inputTokens;
  }

  get outputTokens(): number {
    return this.#sums.outputTokens;
  }

  get bytes(): number {
    return this.#writer.bytes;
  }

  /** Whether the lane has to wait for the disk. */
  get isBehind(): boolean {
    return this.#writer.unwrittenBytes > UNWRITTEN_BYTES_MAX;
  }

  /** Whether an item fits. */
  fits(call: ItemCall): boolean {
    const { tokensMax, bytesMax, wire, pieceItems } = this.terms;
    const { itemsMax, inputsMax = Number.POSITIVE_INFINITY } = wire.limits;
    if (this.items === 0) return true;
    const bytes = this.bytes + call.bodyBytes + lineOverhead(this.terms);
    return (
      this.items < pieceItems &&
      this.items + 1 <= shareOf(Math.min(itemsMax, ITEMS_MAX)) &&
      this.#sums.inputs + this.#inputsOf(call) <= shareOf(inputsMax) &&
      bytes <= shareOf(bytesMax) &&
      this.inputTokens + call.load.inputTokens <= shareOf(tokensMax)
    );
  }

  /** 0 where nothing limits them. */
  #inputsOf(call: ItemCall): number {
    const { endpoint, wire } = this.terms;
    if (endpoint !== "embeddings" || wire.limits.inputsMax === undefined) return 0;
    return call.shard.group.joins === undefined ? inputsIn(call.plainBody) : 1; // only items of one input share requests
  }

  /** Takes an item. Its money is the batch's from now on. */
  add(call: ItemCall): void {
    const { tag, wire, modelName, endpoint, owner, bodyOf } = this.terms;
    const id = idOf(tag, this.items);
    const body = bodyOf(call);
    const request = wire.line(id, body, { model: modelName, endpoint });
    const requeues = owner.items.requeues.get(call.line);
    const { joins } = call.shard.group; // only items of one input share requests
    const answers = joins === undefined ? answersIn(kindOfBatch(endpoint), body) : 1;
    this.#writer.add(call, requeues ?? 0, request, answers);
    this.lines.push(call.line);
    this.#sums.inputs += this.#inputsOf(call);
    this.#sums.inputTokens += call.load.inputTokens;
    this.#sums.outputTokens += call.load.outputTokens;
    this.#hasReturned ||= requeues !== undefined;
    this.#addedMs = this.terms.clock.nowMs();
    this.#timer ??= this.terms.clock.timer(IDLE_MS, () => this.#look());
  }

  /** It is filled no more, and its lines are durable when this resolves. */
  seal(): Promise<SealedLines> {
    this.close();
    return this.#writer.seal();
  }

  async drop(): Promise<void> {
    this.close();
    this.money.release();
    await this.#writer.drop();
  }

  close(): void {
    this.#timer?.cancel();
  }

  /** Resolves when the disk has taken what waits. */
  written(): Promise<void> {
    return this.#writer.written();
  }

  /** One timer for all its items: a timer for each took as long as its line. */
  #look(): void {
    const { owner, minItems, mayWait } = this.terms;
    const idleMs = this.terms.clock.nowMs() - this.#addedMs;
    const isReady = this.items >= minItems || !owner.hasMore || this.#hasReturned;
    if (idleMs >= IDLE_MS && (isReady || !mayWait())) this.#onFlush(this);
    else this.#timer = this.terms.clock.timer(Math.max(1, IDLE_MS - idleMs), () => this.#look());
  }
}

/** Whether a single item is too large for any batch. */
export function isTooLarge(limits: BatchLimits, lineBytes: number): boolean {
  return lineBytes > shareOf(limits.bytesMax);
}

function shareOf(limit: number): number {
  return limit * LIMIT_SHARE;
}

/** Ids have at most 6 digits and a separator after their tag, and a request may have marks for a prompt cache. */
function lineOverhead({ tag, wire, modelName, endpoint }: SpoolTerms): number {
  return wire.lineOverheadBytes({ model: modelName, endpoint }, tag.length + 7) + MARK_BYTES_MAX;
}
