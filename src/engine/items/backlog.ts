/**
 * The backlog: shards that wait for their lane, within a bound of memory, for all runs of an engine.
 *
 *   measured shard -> waiting (prepared) -> taken by a lane
 *                        \-> waiting (dropped) when prepared bytes exceed their bound -> reloaded when taken
 *
 * A reader continues while the prepared bytes that wait are few; beyond that only for the sake of lanes that have
 * nothing to do, and never past `itemsMax` waiting items. So a file for one model is read at the pace of its lane,
 * a mixed one is read ahead as far as its idle lanes need, and either costs a bounded amount of memory. A run of which
 * nothing waits is always read on, a few blocks beyond the bounds: what other runs have waiting must not hold it up.
 *
 * Each project has an order of its own; whose turn it is among projects is decided where items leave (lane.ts).
 */
import type { LaneKey } from "../../queue/lanes.ts";
import { type LaneTicket, Scheduler } from "../../queue/scheduler.ts";
import type { Shard } from "../../shard/shard.ts";
import type { ItemOwner } from "./item_owner.ts";

/** A shard in the scheduler's queue. */
export interface ShardTicket extends LaneTicket {
  readonly owner: ItemOwner;
  readonly shard: Shard;
  readonly model: string;
  /** Milliseconds that it takes under the limits, as planned when it arrived. */
  readonly needMs: number;
}

/** Items of a project that were accepted and no run has read, with a deadline (monotonic) of at most so much. */
export type UnreadItems = (project: string, deadlineMs: number) => number;

/** What waits of a run. */
export interface RunLoad {
  readonly owner: ItemOwner;
  shards: number;
  items: number;
  inputTokens: number;
  outputTokens: number;
}

export interface PreparedBounds {
  /** Prepared bytes that may wait; what is beyond is dropped and made again later. */
  readonly preparedBytesMax: number;
  /** Items that may wait, prepared or not (32 bytes each). */
  readonly itemsMax: number;
}

const BACKLOG_BOUNDS: PreparedBounds = { preparedBytesMax: 12 * 1024 * 1024, itemsMax: 1_000_000 };

/** One for an engine. */
export class Backlog {
  /** Of projects with something that waits. */
  readonly #projects = new Map<string, Scheduler<ShardTicket>>();
  readonly #bounds: PreparedBounds;
  readonly #idle = new Set<LaneKey>();
  /** What waits in each lane, by the ids of runs. */
  readonly #lanes = new Map<LaneKey, Map<string, RunLoad>>();
  /** Shards that wait, by the ids of runs. */
  readonly #shards = new Map<string, number>();
  #waitingItems = 0;
  #preparedBytes = 0;
  #waiters: (() => void)[] = [];
  readonly #unread: UnreadItems[] = [];

  constructor(bounds: PreparedBounds = BACKLOG_BOUNDS) {
    this.#bounds = bounds;
  }

  /** Counts what a module above has accepted, from now on. */
  countUnread(count: UnreadItems): void {
    this.#unread.push(count);
  }

  /** What modules above have accepted and no run has read. */
  unreadItems(project: string, deadlineMs: number): number {
    return this.#unread.reduce((items, count) => items + count(project, deadlineMs), 0);
  }

  get waitingItems(): number {
    return this.#waitingItems;
  }

  add(ticket: ShardTicket): void {
    const bytes = ticket.shard.preparedBytes;
    if (this.#preparedBytes > 0 && this.#preparedBytes + bytes > this.#bounds.preparedBytesMax) {
      ticket.shard.dropPrepared();
    } else {
      this.#preparedBytes += bytes;
    }
    const { project, budget } = ticket.owner.settings;
    let scheduler = this.#projects.get(project);
    if (scheduler === undefined) {
      scheduler = new Scheduler<ShardTicket>((each) => each.needMs);
      this.#projects.set(project, scheduler);
    }
    scheduler.add(ticket, budget !== undefined);
    this.#count(ticket.lane, ticket, 1);
    this.#waitingItems += ticket.items;
  }

  /** Whether shards of a run wait for a lane. */
  holds(runId: string, lane: LaneKey): boolean {
    return this.#lanes.get(lane)?.has(runId) === true;
  }

  /** Whether shards of anybody wait for a lane. */
  isWaiting(lane: LaneKey): boolean {
    return this.#lanes.has(lane);
  }

  /** What waits for a lane. */
  loads(lane: LaneKey): Iterable<Readonly<RunLoad>> {
    return this.#lanes.get(lane)?.values() ?? [];
  }

  /** A project's most urgent shard that waits for a lane, of no run with a cost cap in `without`. */
  peek(lane: LaneKey, project: string, without?: ReadonlySet<string>): ShardTicket | undefined {
    return this.#projects.get(project)?.peek(lane, without);
  }

  /** Takes what `peek` shows. */
  take(lane: LaneKey, project: string, without?: ReadonlySet<string>): ShardTicket | undefined {
    const ticket = this.#projects.get(project)?.take(lane, without);
    if (ticket === undefined) return undefined;
    this.#count(lane, ticket, -1);
    this.#removed(ticket);
    return ticket;
  }

  /** A lane says whether it has nothing left to send. */
  setIdle(lane: LaneKey, isIdle: boolean): void {
    if (isIdle === this.#idle.has(lane)) return;
    if (isIdle) this.#idle.add(lane);
    else this.#idle.delete(lane);
    if (isIdle) this.wake();
  }

  removeRun({ id, settings: { project } }: ItemOwner): void {
    for (const [lane, runs] of this.#lanes) if (runs.delete(id) && runs.size === 0) this.#lanes.delete(lane);
    this.#shards.delete(id);
    for (const ticket of this.#projects.get(project)?.removeRun(id) ?? []) this.#removed(ticket);
  }

  /** Whether a lane has nothing to send: the packer should not wait for full shards. */
  get isStarved(): boolean {
    return this.#idle.size > 0 || this.waitingItems === 0;
  }

  /** Whether the reader of a run should bring more now. */
  hasRoomFor(runId: string): boolean {
    return this.#hasRoom || !this.#shards.has(runId);
  }

  get #hasRoom(): boolean {
    if (this.waitingItems >= this.#bounds.itemsMax) return false;
    return this.#preparedBytes < this.#bounds.preparedBytesMax / 2 || this.#idle.size > 0;
  }

  /** Resolves when there may be room; the caller checks again. */
  change(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiters.push(resolve);
    });
  }

  /** Lets all readers check again. */
  wake(): void {
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const resolve of waiters) resolve();
  }

  #count(lane: LaneKey, ticket: ShardTicket, sign: 1 | -1): void {
    const { owner, runId } = ticket;
    const runs = this.#lanes.get(lane) ?? new Map<string, RunLoad>();
    const load = runs.get(runId) ?? { owner, shards: 0, items: 0, inputTokens: 0, outputTokens: 0 };
    load.shards += sign;
    load.items += sign * ticket.items;
    load.inputTokens += sign * ticket.inputTokens;
    load.outputTokens += sign * ticket.expectedOutputTokens;
    if (load.shards > 0) runs.set(runId, load);
    else runs.delete(runId);
    if (runs.size > 0) this.#lanes.set(lane, runs);
    else this.#lanes.delete(lane);
    const shards = (this.#shards.get(runId) ?? 0) + sign;
    if (shards > 0) this.#shards.set(runId, shards);
    else this.#shards.delete(runId);
  }

  #removed(ticket: ShardTicket): void {
    const { project } = ticket.owner.settings;
    if (this.#projects.get(project)?.waiting.tickets === 0) this.#projects.delete(project);
    this.#waitingItems -= ticket.items;
    this.#preparedBytes -= ticket.shard.preparedBytes;
    if (this.#waiters.length > 0 && this.hasRoomFor(ticket.runId)) this.wake();
  }
}
