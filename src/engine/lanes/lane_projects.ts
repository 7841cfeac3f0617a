/**
 * The projects of a lane: what each has there, and whose turn it is.
 *
 *   absent --something of it waits--> in turn --nothing waits--> only in flight --its last place is free--> absent
 *
 * Turns go by weights (queue/fair_share.ts). Costs are milliseconds of the quota that an item
 * uses most of (LaneLimits.costMs), be it requests or tokens: that is what the lane runs out of; where nothing is
 * limited, each request counts the same. Places in flight are held for as long as a call takes: where they are what
 * the lane runs out of, a project with its share of them or more waits while another can go, so that many long calls
 * do not hold all of them. Nobody waits for a place that nobody else can use.
 *
 * Where deadlines wait, the turns are among those whose next item is first (queue/urgency.ts); others are served when none of
 * these can, and neither lose nor save up turns meanwhile.
 */

import type { LaneLimits } from "../../limits/limits.ts";
import { FairShare } from "../../queue/fair_share.ts";
import { Lending } from "../../queue/lending.ts";
import { isFirst, isLent, type Urgency } from "../../queue/urgency.ts";
import type { ItemCall } from "../items/item_call.ts";
import type { ItemOwner } from "../items/item_owner.ts";
import {
  type LaneCalls,
  LaneItems,
  type LaneOfItems,
  type LaneShards,
  type RunWaiting,
} from "./lane_items.ts";
import type { LaneTurns, TakenTurn, TurnTaker } from "./lane_turns.ts";

/** What a request counts of the turns that are lent where no rate is limited. */
const REQUEST_MS = 1_000;

/** What the projects of a lane need to know of it. */
export interface LaneOfProjects extends LaneOfItems {
  /** Which work has precedence in the lane, if work with deadlines waits. */
  urgency(): Urgency | undefined;
}

/** One for a lane. */
export class LaneProjects {
  readonly #limits: LaneLimits;
  readonly #turns: LaneTurns;
  readonly #itemsOf: (project: string) => LaneItems;
  readonly #lane: LaneOfProjects;
  /** With something that waits or is in flight. */
  readonly #projects = new Map<string, LaneItems>();
  /** With something that waits. */
  readonly #share: FairShare<LaneItems>;
  readonly #lending = new Lending();
  /** Found in the share with nothing that waits. */
  readonly #emptied: LaneItems[] = [];
  /** A project that has as many requests in flight waits while others can go; Infinity while places are free. */
  #placesOfWeight = Number.POSITIVE_INFINITY;
  constructor(
    limits: LaneLimits,
    turns: LaneTurns,
    shards: LaneShards,
    calls: LaneCalls,
    lane: LaneOfProjects,
  ) {
    this.#limits = limits;
    this.#turns = turns;
    this.#itemsOf = (project) => new LaneItems(project, shards, calls, lane);
    this.#lane = lane;
    this.#share = new FairShare({
      weightOf: ({ weight }) => weight,
      nameOf: ({ project }) => project,
    });
  }

  /** Projects with something that waits. */
  get size(): number {
    return this.#share.size;
  }

  /** What a project has here; undefined when nothing waits or is in flight. */
  find(project: string): LaneItems | undefined {
    return this.#projects.get(project);
  }

  /** What a run's project has here, with a turn of its own from now on. */
  of({ settings: { project, weight } }: ItemOwner): LaneItems {
    let items = this.#projects.get(project);
    if (items === undefined) {
      items = this.#itemsOf(project);
      this.#projects.set(project, items);
    }
    items.weight = weight;
    if (this.#share.join(items)) this.#turns.began(project, weight);
    return items;
  }

  /** Whose turn it is; undefined when nobody has anything to send, but for a single project, which is named anyhow. */
  next(): LaneItems | undefined {
    let next = this.#nextFirst() ?? this.#share.next(this.#canSend);
    if (next === undefined && this.#placesOfWeight < Number.POSITIVE_INFINITY) {
      this.#placesOfWeight = Number.POSITIVE_INFINITY; // nobody else can go
      next = this.#share.next(this.#canSend);
    }
    if (this.#emptied.length > 0) for (const items of this.#emptied.splice(0)) this.tidy(items);
    return next;
  }

  #nextFirst(): LaneItems | undefined {
    const urgency = this.#share.size < 2 ? undefined : this.#lane.urgency();
    if (urgency === undefined) return undefined;
    const goesFirst = (items: LaneItems): boolean => isNextFirst(items, urgency, this.#lending.isOpen);
    if (!this.#share.some(goesFirst)) return undefined;
    const canGo = (items: LaneItems): boolean => goesFirst(items) && this.#canSend(items);
    return this.#share.next(canGo) ?? this.#share.next(goesFirst); // more than its share of places, if need be
  }

  /** A call of whose turn it was has been admitted. */
  served(items: LaneItems, call: ItemCall): void {
    items.inFlight += 1;
    const turn = this.#turnOf(call);
    const urgency = this.#share.size < 2 ? undefined : this.#lane.urgency();
    this.#lending.served(turn.quotaMs, urgency !== undefined && isLent(urgency, turn));
    this.#share.served(items, turn.costMs);
  }

  /** A call has been admitted whose turn LaneTurns has named. */
  servedInTurn(items: LaneItems, lane: TurnTaker, call: ItemCall): void {
    items.inFlight += 1;
    this.#turns.served(lane, this.#turnOf(call));
  }

  #turnOf({ owner, deadlineMs, load }: ItemCall): TakenTurn {
    const costMs = this.#limits.costMs(load);
    const quotaMs = this.#limits.isRateLimited ? costMs : REQUEST_MS;
    return { project: owner.settings.project, deadlineMs, costMs, quotaMs };
  }

  /** Withdraws a second attempt that waits for its turn; returns false if it does not wait here. */
  withdraw(call: ItemCall): boolean {
    const items = this.#projects.get(call.owner.settings.project);
    const retry = items?.withdraw(call);
    if (items === undefined || retry === undefined) return false;
    retry.reject(new Error("the attempt beside it has ended"));
    this.tidy(items);
    return true;
  }

  /** The attempt of a call is over. */
  released({ owner }: ItemCall): void {
    const items = this.#projects.get(owner.settings.project);
    if (items === undefined) return;
    items.inFlight -= 1;
    this.tidy(items);
  }

  /** Forgets a project without waiting items and requests in flight. Later items of a project that was forgotten before stay. */
  tidy(items: LaneItems): void {
    if (!items.isEmpty || this.find(items.project) !== items) return;
    if (this.#share.leave(items)) this.#turns.ended(items.project);
    if (items.inFlight === 0) this.#projects.delete(items.project);
  }

  /** From now on places are scarce or not. */
  sharePlaces(isScarce: boolean): void {
    let weights = 0;
    if (isScarce && this.#share.size > 1) for (const { weight } of this.#share.waiting()) weights += weight;
    this.#placesOfWeight = weights > 0 ? this.#limits.places / weights : Number.POSITIVE_INFINITY;
  }

  /** What waits here, shards in the backlog aside. */
  *loads(): Generator<RunWaiting> {
    for (const items of this.#share.waiting()) yield* items.loads();
  }

  /** Whether at least so many items of open shards are ready. */
  hasReady(count: number): boolean {
    let ready = 0;
    for (const items of this.#share.waiting()) {
      ready += items.readyItems;
      if (ready >= count) return true;
    }
    return false;
  }

  /** Whether a project's next item goes first; `isLending`: whether a turn may be lent. */
  isFirst(project: string, urgency: Urgency, isLending: boolean): boolean {
    const items = this.#projects.get(project);
    return items !== undefined && isNextFirst(items, urgency, isLending);
  }

  /** Whether a project has something to send. */
  canSend(project: string): boolean {
    const items = this.#projects.get(project);
    return items !== undefined && this.#hasItem(items);
  }

  /** The same, and not its share of scarce places. */
  readonly #canSend = (items: LaneItems): boolean =>
    items.inFlight < this.#placesOfWeight * items.weight && this.#hasItem(items);

  #hasItem(items: LaneItems): boolean {
    const hasItem = items.retry !== undefined || items.candidate() !== undefined;
    if (!hasItem && items.isEmpty) this.#emptied.push(items);
    return hasItem;
  }
}

function isNextFirst(items: LaneItems, urgency: Urgency, isLending: boolean): boolean {
  const next = items.retry?.call ?? items.candidate();
  return next !== undefined && isFirst(urgency, items.project, next.deadlineMs, isLending);
}
