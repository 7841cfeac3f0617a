/**
 * The batches of an engine: those that are filled, those at providers, and what runs and lanes ask of them.
 *
 *   lane: an item that may go with a batch -> spool -> record -> open batch -> its items end, or come back to the lane
 *   run:  opened -> the batches of its earlier calls go on       left -> they stay with the provider, nothing is cancelled
 *         over (deadline, cancel) -> they are cancelled, and what they have finished is kept
 */
import { kindOfBatch, servesAll } from "../../providers/batches/batch_endpoints.ts";
import type { BatchEndpoint, RemoteKind, RemoteWire } from "../../providers/batches/batch_wire.ts";
import { keepingBody } from "../../providers/kept_body.ts";
import type { Provider } from "../../providers/provider.ts";
import { batchSwitchMs, leavingTimes, type OpenOutlook } from "../../queue/batch_choice.ts";
import type { SharedLoad } from "../../queue/due_work.ts";
import type { Shard } from "../../shard/shard.ts";
import type { Usage } from "../../work/outcome.ts";
import type { EndpointKind } from "../../work/request.ts";
import { BatchTally } from "../items/batch_tally.ts";
import type { ItemCall } from "../items/item_call.ts";
import type { ItemMoney } from "../items/item_money.ts";
import type { ItemOwner } from "../items/item_owner.ts";
import type { EngineStorage } from "../journal/storage.ts";
import type { BatchPrefixes } from "../prefixes/batch_prefixes.ts";
import type { CacheRules } from "../prefixes/cache_rules.ts";
import type { BatchCalls } from "./batch_calls.ts";
import type { CreationTerms } from "./batch_creation.ts";
import { BatchFilling, batchPaths } from "./batch_filling.ts";
import type { BatchItem } from "./batch_lines.ts";
import { BatchLoads } from "./batch_loads.ts";
import { BatchMoney } from "./batch_money.ts";
import {
  BatchOutlooks,
  beingLeftBeside,
  isNextToLeave,
  leftBefore,
  type OutlookServices,
} from "./batch_outlooks.ts";
import type { BatchMoments } from "./batch_polling.ts";
import { BATCHES, type BatchRecord, keyPrintOf, linesIn } from "./batch_record.ts";
import { batchRecords } from "./batch_records.ts";
import { sendAgain } from "./batch_return.ts";
import type { SettlingServices } from "./batch_settler.ts";
import { BatchStocks } from "./batch_stocks.ts";
import { type BatchTimes, KeptBatch } from "./kept_batch.ts";
import { OpenBatch } from "./open_batch.ts";
import { RefusedBatches } from "./refused_batches.ts";

/** How long a batch of a run that is over is waited for. */
const OVER_MS = 900_000;
/** A batch that has finished nothing for less is not stuck, however quick others were. */
const STUCK_MS_MIN = 3_600_000;
/** How often a batch asks whether its provider takes more. */
const STOCK_MS = 5_000;
const NEVER_LEFT: AbortSignal = new AbortController().signal;

/** What batches ask of the rest of the engine. */
export interface BatchServices extends OutlookServices {
  readonly storage: EngineStorage;
  readonly calls: BatchCalls;
  readonly money: ItemMoney;
  readonly prefixes: BatchPrefixes;
  readonly times: BatchTimes;
  readonly minItems: number;
  /** Undefined for a model whose provider has no batches of a kind here, or sells them for more than realtime. */
  wireOf(model: string, kind: RemoteKind): RemoteWire | undefined;
  /** Whether an owner's items of a model may go with batches of a kind. */
  isAllowed(model: string, owner: LaneUser, kind: RemoteKind): boolean;
  /** What reads the answers to items of a kind; undefined: chats. */
  providerOf(model: string, kind: EndpointKind | undefined): Provider;
  learn(record: Pick<BatchRecord, "model" | "kind">, tookMs: number): void;
  checked: SettlingServices["checked"];
  /** A batch of an earlier process has embeddings, which would share requests. */
  sharesRequests(record: BatchRecord): void;
  /** Passes measured items to their lane. */
  readonly feed: { add(owner: ItemOwner, shards: readonly Shard[]): Promise<void> };
  /** What holds or ends runs has changed. */
  changed(): void;
}

/** An owner of items, as far as its lanes matter. */
type LaneUser = { readonly settings: Pick<ItemOwner["settings"], "lanes"> };

/** What a run has with batches. */
export interface BatchedWork {
  /** Items at providers, or on their way. */
  readonly items: number;
  /** Of them, those that are at providers. */
  readonly submitted: number;
  /** Items whose batches wait for an account, with why. */
  readonly troubles: readonly OpenBatch[];
}

/** One for an engine. */
export class Batches {
  readonly outlooks: BatchOutlooks;
  readonly tally: BatchTally = new BatchTally();
  readonly #services: BatchServices;
  readonly #filling: BatchFilling;
  /** With their ends. */
  readonly #open = new Map<OpenBatch, Promise<void>>();
  readonly #loads: BatchLoads;
  readonly #stocks: BatchStocks;
  readonly #refused = new RefusedBatches();

  constructor(services: BatchServices) {
    this.#services = services;
    const { storage, minItems } = services;
    this.#loads = new BatchLoads(services.poolOf);
    this.outlooks = new BatchOutlooks(services, this.#loads);
    this.#stocks = new BatchStocks(storage.clock);
    this.#filling = new BatchFilling({
      ...{ storage, minItems, loads: this.#loads, stocks: this.#stocks },
      mayWait: (model, lane, deadlineMs) => this.#mayWait(model, lane, deadlineMs),
      pieceItems: (call) => Math.max(minItems, this.outlooks.pieceItems(call, storage.clock.nowMs())),
      caughtUp: () => services.changed(),
      bodyOf: (call) => services.prefixes.bodyOf(call),
      begin: (owner, record, wire, held) => {
        this.#start(this.#openOf(owner, record, wire, held));
        if (!owner.isOpen) this.drop(owner); // it was left while the record was stored
      },
    });
  }

  /** What prompt caches take and cost, in batches and in realtime. */
  get caching(): CacheRules {
    return this.#services.prefixes.rules;
  }

  get open(): Iterable<OpenBatch> {
    return this.#open.keys();
  }

  /** Whether models of a provider may have batches of a kind here. */
  hasWires(provider: string, kind: RemoteKind): boolean {
    return this.#services.wireOf(`${provider}:`, kind) !== undefined;
  }

  /** The wire for a model, where its run may use batches of a kind and its provider takes them now for these endpoints; undefined otherwise. */
  wireOf(
    model: string,
    owner: LaneUser,
    kind: RemoteKind,
    endpoints: readonly BatchEndpoint[],
  ): RemoteWire | undefined {
    const { isAllowed, wireOf } = this.#services;
    const wire = isAllowed(model, owner, kind) ? wireOf(model, kind) : undefined;
    if (wire === undefined || !servesAll(wire, endpoints)) return undefined;
    return this.#stocks.isRefused(wire, model) ? undefined : wire;
  }

  /**
   * Whether an item can join the batch that is being filled now, or a new one. `wait`: when the disk has caught up; `full`: as many
   * deferred requests are open as may be.
   */
  canTake(call: ItemCall, wire: RemoteWire): "yes" | "wait" | "full" {
    if (this.#filling.isBehind(call, wire.kind ?? "batch")) return "wait";
    if (wire.kind !== "deferred") return "yes";
    let open = this.#filling.sealingFor(wire);
    for (const { kept } of this.open) if (kept.way.wire === wire && kept.record.end === undefined) open += 1;
    return open < this.#stocks.openMaxOf(wire, call.model) ? "yes" : "full";
  }

  /** Takes what its lane has claimed and whose money is reserved. `items`: those of the call, each in a call of its own. */
  take(call: ItemCall, kind: RemoteKind, items: readonly ItemCall[]): void {
    const wire = this.#services.wireOf(call.model, kind);
    if (wire === undefined) throw new Error(`${call.model} has no batches`);
    const usd = call.reservation?.usd ?? 0;
    const most = call.most.inputTokens;
    this.#services.money.giveBack(call);
    for (const item of items) {
      const share = items.length === 1 ? 1 : item.most.inputTokens / Math.max(1, most); // those that share a request have no output
      this.outlooks.joins(item);
      this.#filling.take(item, wire, usd * share);
    }
  }

  /** What is with batches and due by a deadline, in items and tokens. */
  loadOf(lane: string, deadlineMs: number): SharedLoad {
    return this.#loads.of(lane, deadlineMs);
  }

  /** Goes on with what earlier calls of a run have with providers; its lines count as claimed when this resolves. */
  async adopt(owner: ItemOwner): Promise<void> {
    for await (const record of batchRecords(this.#services.storage.store, owner.id)) {
      const wire = this.#services.wireOf(record.model, record.kind ?? "batch");
      const held = new BatchMoney(owner.settings.budget, record.mostUsd);
      if (wire === undefined || record.keyPrint !== keyPrintOf(wire.settings)) {
        this.#refused.add(owner, record, this.#services.storage.clock.nowMs());
        held.leave(); // it may still be billed
        continue;
      }
      const open = this.#openOf(owner, record, wire, held);
      owner.items.claimOpen(linesIn(record.lines));
      this.#loads.add(record.lane, owner.settings.deadlineMs, record);
      if (record.endpoint === "embeddings") this.#services.sharesRequests(record);
      this.#start(open);
    }
  }

  /** What a run has with batches, what is being filled included. */
  workOf(owner: ItemOwner): BatchedWork {
    const troubles: OpenBatch[] = [];
    let [items, submitted] = [this.#filling.itemsOf(owner), 0];
    for (const open of this.open) {
      if (open.owner !== owner) continue;
      items += open.left;
      if (open.isSubmitted) submitted += open.left;
      const isLeft = owner.isDetaching === true && open.isSubmitted; // the run does not wait for it
      if (open.kept.trouble !== undefined && !isLeft) troubles.push(open);
    }
    return { items, submitted, troubles };
  }

  /** Lines of an owner that are with batches, or on their way. */
  *linesOf(owner: ItemOwner): Generator<number> {
    yield* this.#filling.linesOf(owner);
    for (const open of this.open) if (open.owner === owner) yield* open.leftLines();
  }

  /** Open items of a run in batches that were made with another key: nothing ends them here. */
  refusedItems(owner: ItemOwner): number {
    return this.#refused.itemsOf(owner);
  }

  /** Whether all that a run has with batches is at its providers. */
  isSubmitted(owner: ItemOwner): boolean {
    const { items, submitted } = this.workOf(owner);
    return items === submitted;
  }

  /** A run sends no more: what it has with providers stays there, or is cancelled and collected if the run is over. */
  drop(owner: ItemOwner): void {
    this.#filling.drop(owner);
    const isLeft = owner.phase === "stopping" || owner.phase === "done" || owner.failure !== undefined;
    if (isLeft) this.#release(owner, this.#refused.linesOf(owner));
    for (const open of this.open) {
      if (open.owner !== owner) continue;
      if (!isLeft) {
        open.overMs ??= this.#services.storage.clock.nowMs();
        open.kept.wake();
        continue;
      }
      this.#gone(open);
      open.kept.leave();
      open.leaveMoney();
      this.#release(owner, open.leftLines());
    }
  }

  /** Resolves when nothing is left of a run's batches, at their providers and here; it has no items with them. */
  async over(owner: ItemOwner): Promise<void> {
    for (const [open, over] of this.#open) if (open.owner === owner) await over;
  }

  /** Resolves when records that are being stored are. */
  stored(owner: ItemOwner): Promise<void> {
    return this.#filling.stored(owner);
  }

  /** At the start, before any run: removes files of batches that were never recorded. */
  async clean(): Promise<void> {
    const tags = new Set<string>();
    for await (const { tag } of batchRecords(this.#services.storage.store)) tags.add(tag);
    await this.#filling.removeOrphans(tags);
  }

  /**
   * Nobody needs the batches of a task that is not at work any more: those that its provider may still work on are cancelled, as far as
   * it can be reached with the key that made them, and all that is kept of them here is removed.
   */
  async forget(taskId: string): Promise<void> {
    const { storage, calls } = this.#services;
    for await (const record of batchRecords(storage.store, taskId)) {
      const { tag, batchId, keyPrint, end, kind = "batch" } = record;
      const wire = this.#services.wireOf(record.model, kind);
      const isOurs = wire !== undefined && keyPrintOf(wire.settings) === keyPrint;
      const cancel = isOurs && batchId !== undefined && end === undefined ? wire.cancel(batchId) : undefined;
      if (cancel !== undefined) await calls.send(cancel, NEVER_LEFT);
      for (const path of batchPaths(storage, tag)) await storage.disk.remove(path);
      await storage.store.change([{ kind: "delete", collection: BATCHES, id: tag }]);
    }
  }

  close(): void {
    this.#filling.close();
    for (const { kept } of this.open) kept.leave();
  }

  #mayWait(model: string, lane: string, deadlineMs: number): boolean {
    const outlook = this.outlooks.of(model, lane, deadlineMs, 1);
    return this.#services.storage.clock.nowMs() + outlook.latency.p90 < batchSwitchMs(outlook);
  }

  #openOf(owner: ItemOwner, record: BatchRecord, wire: RemoteWire, held: BatchMoney): OpenBatch {
    const { storage, calls, times, money, prefixes } = this.#services;
    const { model } = record;
    const provider = this.#services.providerOf(model, kindOfBatch(record.endpoint));
    const [path, itemsPath] = batchPaths(storage, record.tag);
    const lines = { path, bytes: record.bytes, endOf: (place: number): number => place };
    const kept = new KeptBatch({ wire, calls, storage, times, lines, tally: this.tally }, record, () =>
      this.#services.changed(),
    );
    const settling = {
      ...{ money, held, provider: owner.settings.keepsBody ? keepingBody(provider) : provider },
      checked: this.#services.checked,
      answered: (usage: Usage) => prefixes.answered({ model, provider }, usage),
      sendAgain: (of: ItemOwner, items: readonly BatchItem[]) => sendAgain(of, items, this.#services.feed),
    };
    return new OpenBatch(kept, owner, itemsPath, settling, {
      creating: (batch) => this.#creationOf(batch),
      momentsOf: (batch) => this.#momentsOf(batch),
      changed: () => this.#services.changed(),
      overflowed: (batch, message) => this.#stocks.overflowed(batch, this.open, message),
      tooLarge: (batch) => this.#stocks.tooLarge(batch),
      refused: (batch, status) => this.#stocks.refused(batch, status),
      created: (batch) => this.#stocks.taken(batch),
      ended: (batch, tookMs) => this.#services.learn(batch.kept.record, tookMs),
    });
  }

  #start(open: OpenBatch): void {
    const { owner } = open;
    const over = open.run().then(
      () => this.#over(open),
      (error: unknown) => {
        this.#over(open);
        owner.fail(error as Error); // a batch rejects with nothing else
      },
    );
    this.#open.set(open, over);
  }

  #over(open: OpenBatch): void {
    if (!this.#gone(open)) return; // it was left
    open.owner.changed();
    this.#services.changed();
  }

  /** Whether it was at work here. */
  #gone(open: OpenBatch): boolean {
    if (!this.#open.delete(open)) return false;
    const { kept, owner } = open;
    this.#loads.remove(kept.record.lane, owner.settings.deadlineMs, kept.record);
    return true;
  }

  #creationOf(batch: OpenBatch): CreationTerms {
    const { clock } = this.#services.storage;
    return {
      isTaken: (id) => [...this.open].some((other) => other !== batch && other.kept.record.batchId === id),
      isLast: () => clock.nowMs() >= this.#momentsOf(batch).lastMs,
      turn: () => {
        if (clock.nowMs() >= this.#momentsOf(batch).switchMs) return "late";
        return this.#stocks.turnOf(batch, this.open, STOCK_MS);
      },
    };
  }

  /** When a batch is to be left, by what else its lane has to do. */
  #momentsOf(batch: OpenBatch): BatchMoments {
    const { kept, owner, left } = batch;
    const nowMs = kept.clock.nowMs();
    if (!owner.isOpen) {
      batch.overMs ??= nowMs; // its run was over before it was opened
      return {
        switchMs: Number.NEGATIVE_INFINITY,
        lastMs: batch.overMs + OVER_MS,
        stuckMs: Number.POSITIVE_INFINITY,
      };
    }
    const outlook = this.#openOutlookOf(batch, left);
    const { switchMs, lastMs } = leavingTimes(outlook);
    const { p90, p99 } = outlook.latency;
    const hasTime = nowMs + p90 < switchMs;
    return { switchMs, lastMs, stuckMs: hasTime ? Math.max(p99, STUCK_MS_MIN) : Number.POSITIVE_INFINITY };
  }

  #openOutlookOf(batch: OpenBatch, items: number): OpenOutlook {
    const { kept, owner } = batch;
    const { record, clock, way } = kept;
    const { deadlineMs } = owner.settings;
    const { poolOf } = this.#services;
    const { model, lane, kind = "batch" } = record;
    const before = leftBefore(batch, this.open, poolOf);
    return {
      ...this.outlooks.of(model, lane, deadlineMs, items, { kind, before }),
      nowMs: clock.nowMs(),
      ageMs: Math.max(0, clock.wallMs() - (record.createdWallMs ?? clock.wallMs())),
      waitingMs: this.outlooks.waitingMs(lane, deadlineMs),
      busyMs: this.outlooks.waitingMs(lane, deadlineMs, beingLeftBeside(batch, this.open, poolOf)),
      isNext: isNextToLeave(batch, this.open),
      keepsOnCancel: way.wire.traits.keepsOnCancel,
      policy: owner.settings.policy,
      finishedShare: Math.min(1, (record.finished ?? 0) / Math.max(1, record.items)),
    };
  }

  #release(owner: ItemOwner, lines: Iterable<number>): void {
    for (const line of lines) owner.items.claimed.delete(line);
  }
}
