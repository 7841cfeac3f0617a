/**
 * Packs measured items into shards: one model and one shared prefix each, bounded by items, tokens and bytes.
 *
 *   open group --full, flushed, evicted--> shard
 *   open group of few items --evicted or flushed--> merged into that of its system instruction, or the mixed group of its model
 *
 * A shared prefix is worth a shard of its own only when several items have it: a group below `prefixItemsMin` items is
 * merged with others of its model, so that a file in which each line has its own system instruction still packs full
 * shards. The first `eagerItems` items leave after each block, so that sending begins at once. A prefix that providers cache
 * (`shared`) is worth one from two items on, and is gathered: what hurries leaves it open below `prefixItemsMin`.
 *
 * Limits: at most `openGroupsMax` groups and `openBytesMax` prepared bytes are open at a time. A file in which each
 * line names another model packs one item a shard; nothing can be shared there.
 * Hot path: one copy per run of items of one group, about 0.3 us an item (bench/parts/pack.ts).
 */
import type { ItemGroup, MeasuredBlock, MeasuredGroup } from "./measured.ts";
import { OpenGroup } from "./open_group.ts";
import type { Shard } from "./shard.ts";

export interface PackBounds {
  /** Items of a shard. */
  readonly itemsMax: number;
  /** Input tokens of a shard; an item with more has a shard of its own. */
  readonly tokensMax: number;
  /** Prepared bytes (keys and bodies) of a shard; an item with more has a shard of its own. */
  readonly bytesMax: number;
  /** Groups open at a time. */
  readonly openGroupsMax: number;
  /** Prepared bytes of all open groups together. */
  readonly openBytesMax: number;
  /** Items from which a shared prefix has a shard of its own. */
  readonly prefixItemsMin: number;
  /** Until this many items were packed, nothing waits for more, but for prefixes that may be cached. */
  readonly eagerItems: number;
}

export const PACK_BOUNDS: PackBounds = {
  itemsMax: 512,
  tokensMax: 1_000_000,
  bytesMax: 1024 * 1024,
  openGroupsMax: 64,
  openBytesMax: 8 * 1024 * 1024,
  prefixItemsMin: 8,
  eagerItems: 2_048,
};

/** Prefixes whose later items have shards of their own, however few. */
const GATHERED_MAX = 1_024;

export class Packer {
  readonly #bounds: PackBounds;
  /** By model and prefix; the group that was used last is the last. */
  readonly #open = new Map<string, OpenGroup>();
  #openBytes = 0;
  /** Those of prefixes that may be cached and had a shard of their own, the last one last; at most `GATHERED_MAX`. */
  readonly #gathered = new Set<string>();
  #itemsPacked = 0;

  /** Bounds that are not given are those of `PACK_BOUNDS`; all are whole numbers from 1. */
  constructor(bounds: Partial<PackBounds> = {}) {
    this.#bounds = { ...PACK_BOUNDS, ...bounds };
  }

  /** Items that wait in open groups. */
  get waitingItems(): number {
    let items = 0;
    for (const group of this.#open.values()) items += group.count;
    return items;
  }

  /**
   * Takes all items of a block (their bytes are copied) and returns the shards that are ready, often no shards. The first items of all
   * are ready at once, if that `mayHurry`.
   */
  add(measured: MeasuredBlock, mayHurry: boolean = true): Shard[] {
    const shards: Shard[] = [];
    let start = 0;
    while (start < measured.count) {
      const index = measured.groupOf[start] as number;
      let end = start + 1;
      while (end < measured.count && measured.groupOf[end] === index) end += 1;
      this.#addRun(measured, measured.groups[index] as MeasuredGroup, start, end, shards);
      start = end;
    }
    this.#itemsPacked += measured.count;
    if (mayHurry && this.#itemsPacked <= this.#bounds.eagerItems) shards.push(...this.flush(true));
    return shards;
  }

  /** Returns all that waits, in shards as full as it allows; if more `follows`, prefixes that may be cached are gathered on. */
  flush(follows: boolean = false): Shard[] {
    const shards: Shard[] = [];
    const waiting = [...this.#open].filter(([, group]) => !follows || !this.#isGathering(group));
    for (const [key, group] of waiting) {
      if (this.#isTooFew(key, group) && this.#hasCompany(group)) this.#merge(key, group, shards);
    }
    for (const [key, group] of [...this.#open])
      if (!follows || !this.#isGathering(group)) this.#close(key, group, shards);
    return shards;
  }

  #addRun(measured: MeasuredBlock, group: MeasuredGroup, from: number, to: number, shards: Shard[]): void {
    const key = keyOf(group);
    let start = from;
    while (start < to) {
      const open = this.#openGroup(key, group, shards);
      const bounds = boundsOf(group, this.#bounds);
      const end = open.fits(measured, start, to, bounds);
      const bytesBefore = open.byteLength;
      open.addRun(measured, start, end);
      this.#openBytes += open.byteLength - bytesBefore;
      start = end;
      if (start < to || open.isFull(bounds)) this.#close(key, open, shards);
    }
    while (this.#openBytes > this.#bounds.openBytesMax) this.#closeLargest(shards);
  }

  /** The open group of the key, made the last used; makes room and opens it if it does not exist. */
  #openGroup(key: string, group: MeasuredGroup, shards: Shard[]): OpenGroup {
    // Making room may itself open the mixed group that is requested.
    while (!this.#open.has(key) && this.#open.size >= this.#bounds.openGroupsMax) this.#evict(shards);
    const open = this.#open.get(key) ?? new OpenGroup(group);
    this.#open.delete(key);
    this.#open.set(key, open);
    return open;
  }

  /** Makes room for one group by the one that was not used for longest. */
  #evict(shards: Shard[]): void {
    for (const [key, group] of this.#open) {
      if (this.#isTooFew(key, group)) this.#merge(key, group, shards);
      else this.#close(key, group, shards);
      return;
    }
  }

  /** Moves a small group into the one that shares less, or makes it that group if it does not exist yet. */
  #merge(key: string, group: OpenGroup, shards: Shard[]): void {
    this.#open.delete(key);
    const shape = widerOf(group.group);
    const widerKey = keyOf(shape);
    const wider = this.#open.get(widerKey);
    if (wider?.holds(group, this.#bounds)) {
      wider.addGroup(group);
      this.#open.delete(widerKey);
      this.#open.set(widerKey, wider);
      return;
    }
    if (wider !== undefined) this.#close(widerKey, wider, shards);
    this.#open.set(widerKey, group.toWider(shape));
  }

  #close(key: string, group: OpenGroup, shards: Shard[]): void {
    this.#open.delete(key);
    if (this.#isLong(group)) this.#gather(key);
    this.#openBytes -= group.byteLength;
    shards.push(group.toShard());
  }

  #gather(key: string): void {
    this.#gathered.delete(key);
    this.#gathered.add(key);
    if (this.#gathered.size <= GATHERED_MAX) return;
    for (const oldest of this.#gathered) {
      this.#gathered.delete(oldest);
      return;
    }
  }

  #closeLargest(shards: Shard[]): void {
    let largest: [string, OpenGroup] | undefined;
    for (const entry of this.#open) {
      if (largest === undefined || entry[1].byteLength > largest[1].byteLength) largest = entry;
    }
    if (largest !== undefined) this.#close(largest[0], largest[1], shards);
  }

  #isTooFew(key: string, group: OpenGroup): boolean {
    const { prefixHash } = group.group;
    return (
      prefixHash !== 0 &&
      group.count < (this.#isLong(group) ? (this.#gathered.has(key) ? 1 : 2) : this.#bounds.prefixItemsMin)
    );
  }

  #isGathering(group: OpenGroup): boolean {
    return this.#isLong(group) && group.count < this.#bounds.prefixItemsMin;
  }

  #isLong({ group }: OpenGroup): boolean {
    return group.shared !== undefined;
  }

  /** Whether another group of the model is open that it could be merged with. */
  #hasCompany(group: OpenGroup): boolean {
    const widerKey = keyOf(widerOf(group.group));
    for (const [key, other] of this.#open) {
      if (other === group || other.group.model !== group.group.model) continue;
      if (key === widerKey || other.group.prefixHash === 0 || this.#isTooFew(key, other)) return true;
    }
    return false;
  }
}

/** Items of which many share a request are packed until one request is full. */
function boundsOf({ joins }: ItemGroup, bounds: PackBounds): PackBounds {
  if (joins === undefined || joins.inputsMax <= bounds.itemsMax) return bounds;
  return { ...bounds, itemsMax: joins.inputsMax };
}

/** The group without a shared prefix is also the mixed group of its model. */
function keyOf({ prefixHash, prefixTokens, shared, model, ...rest }: ItemGroup): string {
  const { endpoint, joins, hasInserts, alias = "" } = rest;
  const prefix = shared === undefined ? prefixHash : `${prefixHash}/${shared.hash}`;
  return `${prefix}/${prefixTokens} ${model}\u0003${endpoint ?? ""}${joins?.close ?? ""}${hasInserts === true ? "\u0004" : ""}\u0001${alias}`;
}

/** What a group that is too small becomes: that of its system instruction where a cache may have it, else the mixed one of its model. */
function widerOf(group: ItemGroup): ItemGroup {
  const { head } = group.shared ?? {};
  if (head !== undefined) return { ...group, shared: { ...head, parts: 0 } };
  return { ...group, prefixHash: 0, prefixTokens: 0, shared: undefined };
}
