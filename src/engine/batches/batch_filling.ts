/**
 * The batches that are being filled: from an item that a lane passes on to a record that is durable.
 *
 *   item -> the spool of its run, lane, model and endpoint --full, idle, the input's end--> sealed -> record stored -> an open batch
 *                                              --its run leaves--> dropped: its items are fresh, nothing of it was sent
 */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { batchEndpointOf } from "../../providers/batches/batch_endpoints.ts";
import type { RemoteKind, RemoteWire } from "../../providers/batches/batch_wire.ts";
import { parseModelId } from "../../work/request.ts";
import type { ItemCall } from "../items/item_call.ts";
import type { ItemOwner } from "../items/item_owner.ts";
import type { EngineStorage } from "../journal/storage.ts";
import type { BatchLoads } from "./batch_loads.ts";
import type { BatchMoney } from "./batch_money.ts";
import { type BatchRecord, keyPrintOf, rangesOf, storedBatch } from "./batch_record.ts";
import { BatchSpool } from "./batch_spool.ts";
import type { BatchStocks } from "./batch_stocks.ts";

const FOLDER = "batches";

/** What filling needs of the rest. */
export interface FillingServices {
  readonly storage: EngineStorage;
  readonly loads: BatchLoads;
  readonly minItems: number;
  /** Whether a batch of a model may wait for more items without costing a deadline. */
  mayWait(model: string, lane: string, deadlineMs: number): boolean;
  /** How many items like one may share a batch. */
  pieceItems(call: ItemCall): number;
  readonly stocks: Pick<BatchStocks, "tokensMaxOf" | "bytesMaxOf">;
  /** The body of an item's request. */
  bodyOf(call: ItemCall): Uint8Array;
  /** The disk has taken what waited. */
  caughtUp(): void;
  /** A record is durable: its batch begins. Its money is held. */
  begin(owner: ItemOwner, record: BatchRecord, wire: RemoteWire, held: BatchMoney): void;
}

/** One for an engine. */
export class BatchFilling {
  readonly #services: FillingServices;
  readonly #spools = new Map<string, BatchSpool>();
  /** Spools whose records are being stored. */
  readonly #sealing = new Map<BatchSpool, Promise<void>>();

  constructor(services: FillingServices) {
    this.#services = services;
  }

  /** Whether the batch that an item would join waits for the disk. */
  isBehind(call: ItemCall, kind: RemoteKind): boolean {
    return this.#spools.get(spoolKey(call, kind))?.isBehind === true;
  }

  /** Batches for a wire whose records are being stored. */
  sealingFor(wire: RemoteWire): number {
    let count = 0;
    for (const { terms } of this.#sealing.keys()) if (terms.wire === wire) count += 1;
    return count;
  }

  /** Takes an item; so much of its money is the batch's from now on. */
  take(call: ItemCall, wire: RemoteWire, usd: number): void {
    const key = spoolKey(call, wire.kind);
    const spool = this.#spoolFor(call, wire, key);
    const { owner, lane, load } = call;
    this.#services.loads.add(lane.key, owner.settings.deadlineMs, { items: 1, ...load });
    spool.money.add(usd);
    spool.add(call);
    if (wire.limits.itemsMax === 1) this.#flush(key, spool);
    else if (spool.isBehind) this.#whenCaughtUp(spool);
  }

  #whenCaughtUp(spool: BatchSpool): void {
    const caughtUp = (): void => this.#services.caughtUp();
    void spool.written().then(caughtUp, () => undefined);
  }

  /** Items of a run that are in no record yet. */
  itemsOf(owner: ItemOwner): number {
    let items = 0;
    for (const spool of this.#of(owner)) items += spool.items;
    return items;
  }

  /** Their lines. */
  *linesOf(owner: ItemOwner): Generator<number> {
    for (const { lines } of this.#of(owner)) yield* lines;
  }

  /** A run takes no more batches: what was not sealed is given back. */
  drop(owner: ItemOwner): void {
    for (const [key, spool] of this.#spools) {
      if (spool.terms.owner !== owner) continue;
      this.#spools.delete(key);
      void this.#giveUp(spool).catch(() => undefined);
    }
  }

  /** Resolves when the records of a run that are being stored are durable. */
  async stored(owner: ItemOwner): Promise<void> {
    for (const [{ terms }, storing] of this.#sealing) if (terms.owner === owner) await storing;
  }

  close(): void {
    for (const spool of this.#spools.values()) spool.close();
  }

  /** Removes files that belong to no record: of processes that died while they filled batches. `tags`: of all records. */
  async removeOrphans(tags: ReadonlySet<string>): Promise<void> {
    const { disk, dataDir } = this.#services.storage;
    const folder = join(dataDir, FOLDER);
    for (const name of await disk.list(folder)) {
      const tag = name.replace(/\.(?:jsonl|items)$/, "");
      if (tag !== name && !tags.has(tag) && !this.#isFilling(tag)) await disk.remove(join(folder, name));
    }
  }

  #isFilling(tag: string): boolean {
    for (const { terms } of [...this.#spools.values(), ...this.#sealing.keys()])
      if (terms.tag === tag) return true;
    return false;
  }

  *#of(owner: ItemOwner): Generator<BatchSpool> {
    for (const spool of this.#spools.values()) if (spool.terms.owner === owner) yield spool;
    for (const spool of this.#sealing.keys()) if (spool.terms.owner === owner) yield spool;
  }

  #spoolFor(call: ItemCall, wire: RemoteWire, key: string): BatchSpool {
    const known = this.#spools.get(key);
    if (known?.fits(call) === true) return known;
    if (known !== undefined) this.#flush(key, known);
    const { storage, minItems, stocks, bodyOf } = this.#services;
    const tag = `pg${randomUUID().replaceAll("-", "").slice(0, 14)}`;
    const { owner, model } = call;
    const lane = call.lane.key;
    const terms = {
      ...{ tag, owner, lane, model, wire, minItems, bodyOf, clock: storage.clock },
      modelName: parseModelId(model)?.name ?? model,
      endpoint: batchEndpointOf(call.shard.group.endpoint),
      paths: batchPaths(storage, tag),
      tokensMax: stocks.tokensMaxOf(wire, model),
      bytesMax: stocks.bytesMaxOf(wire),
      pieceItems: this.#services.pieceItems(call),
      mayWait: () => this.#services.mayWait(model, lane, owner.settings.deadlineMs),
    };
    const spool = new BatchSpool(terms, storage.disk, (full) => this.#flush(key, full));
    this.#spools.set(key, spool);
    return spool;
  }

  #flush(key: string, spool: BatchSpool): void {
    if (this.#spools.get(key) === spool) this.#spools.delete(key);
    const storing = this.#store(spool)
      .catch((error: unknown) => spool.terms.owner.fail(error as Error)) // the disk and the store throw nothing else
      .finally(() => this.#sealing.delete(spool));
    this.#sealing.set(spool, storing);
  }

  async #store(spool: BatchSpool): Promise<void> {
    const { storage, begin } = this.#services;
    const { owner, tag, lane, model, endpoint, wire, paths } = spool.terms;
    const { items, bytes, sha256 } = await storage.room.waitFor(() => spool.seal(), { path: paths[0] });
    if (!owner.isOpen) return this.#giveUp(spool);
    const record: BatchRecord = {
      ...{ tag, lane, model, sha256, items, bytes, endpoint, state: "spooled" as const },
      taskId: owner.id,
      project: owner.settings.project,
      ...(wire.kind === undefined ? {} : { kind: wire.kind }),
      keyPrint: keyPrintOf(wire.settings),
      lines: rangesOf(spool.lines),
      inputTokens: spool.inputTokens,
      outputTokens: spool.outputTokens,
      mostUsd: spool.money.heldUsd,
      spooledWallMs: storage.clock.wallMs(),
    };
    await storage.room.waitFor(() => storage.store.change([{ kind: "insert", record: storedBatch(record) }]));
    begin(owner, record, wire, spool.money);
  }

  /** Its items are fresh again, or end with their run. */
  async #giveUp(spool: BatchSpool): Promise<void> {
    const { owner, lane } = spool.terms;
    this.#services.loads.remove(lane, owner.settings.deadlineMs, spool);
    for (const line of spool.lines) owner.items.claimed.delete(line);
    owner.changed();
    await spool.drop();
  }
}

/** The files of a batch. */
export function batchPaths(
  { dataDir }: Pick<EngineStorage, "dataDir">,
  tag: string,
): readonly [requests: string, items: string] {
  const folder = join(dataDir, FOLDER);
  return [join(folder, `${tag}.jsonl`), join(folder, `${tag}.items`)];
}

function spoolKey({ owner, lane, model, shard }: ItemCall, kind: RemoteKind = "batch"): string {
  return `${owner.id} ${lane.key} ${kind} ${batchEndpointOf(shard.group.endpoint)} ${model}`;
}
