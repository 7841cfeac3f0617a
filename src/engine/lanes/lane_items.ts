/**
 * What one project has in a lane, in the order in which it is sent.
 *
 *   retry asked -> waits here, before all fresh items; so does a second attempt beside one that hangs
 *   shard waiting -> open (queue/open_parts.ts) -> candidate: the next fresh item, by the latest start of its shard
 *   its run's money is held -> waits here, and all of its run with it, while other runs go on
 *   would be answered after its deadline -> waits here for quicker answers, or for its deadline
 *   failed in an earlier call, and the lane has not answered yet -> waits here until others were tried: what breaks its provider
 *     would otherwise be tried first by every call; then the one with the fewest attempts is sent
 *   returned (account stop) -> waits here, after all fresh items, so that a probe is a request nobody has refused yet
 *
 * Whose turn it is among projects: lane_projects.ts. Loading: one shard at a time, so that a project
 * whose shards were dropped delays only itself.
 */
import type { LaneKey } from "../../queue/lanes.ts";
import { type OpenPart, OpenParts } from "../../queue/open_parts.ts";
import type { TokenLoad } from "../../work/limits.ts";
import type { Backlog, ShardTicket } from "../items/backlog.ts";
import type { HeldWork } from "../items/cache_use.ts";
import type { ItemCall } from "../items/item_call.ts";
import type { ItemOwner } from "../items/item_owner.ts";

/** Items that are set aside, each by itself, because it is too late for them. */
const LATE_MAX = 256;
/** Items that are set aside because they failed in an earlier call; they keep their shards in memory. */
const TRIED_MAX = 256;
/** By how much items count as ready that wait for an answer: others are opened beside them, and not without an end. */
const HELD_SHARE = 0.25;

/** A call that waits for its next attempt. */
export interface Retry {
  readonly call: ItemCall;
  readonly attempt: number;
  readonly ambiguousAttempts: number;
  readonly resolve: () => void;
  readonly reject: (reason: unknown) => void;
}

/** Items of a run that wait together. */
export interface RunWaiting extends TokenLoad {
  readonly owner: ItemOwner;
  readonly items: number;
}

/** The shards that wait for a lane. */
export interface LaneShards {
  /** Whether shards of the project wait for the lane. */
  isWaiting(project: string): boolean;
  /** The most urgent of them, of a run with money; see Backlog. */
  peek(project: string): ShardTicket | undefined;
  take(project: string): ShardTicket | undefined;
  /** Whether the shard was passed to another lane, because its model has moved there. */
  movesOn(ticket: ShardTicket): boolean;
  /** Loads a dropped shard's bytes again; on failure it has notified the run. */
  reload(ticket: ShardTicket): Promise<boolean>;
}

/** Those that a backlog has for it. */
export function shardsOf(
  backlog: Pick<Backlog, "peek" | "take">,
  lane: LaneKey,
  moneyless: ReadonlySet<string>,
  { movesOn, reload }: { movesOn(ticket: ShardTicket, lane: LaneKey): boolean } & Pick<LaneShards, "reload">,
): LaneShards {
  return {
    isWaiting: (project) => backlog.peek(lane, project) !== undefined,
    peek: (project) => backlog.peek(lane, project, moneyless),
    take: (project) => backlog.take(lane, project, moneyless),
    movesOn: (ticket) => movesOn(ticket, lane),
    reload,
  };
}

/** What makes calls of items. */
export interface LaneCalls {
  /** Makes the call of an item, and of those before `end` that share its request; undefined when its run has ended meanwhile. */
  prepare(ticket: ShardTicket, index: number, end: number): ItemCall | undefined;
  /** Whether an answer would very probably arrive after the item's deadline. */
  isTooLate(call: ItemCall): boolean;
  /** Whether an item, or those of a shard, wait for the first answer with their prefix. */
  isHeld(work: HeldWork): boolean;
  /** Whether anything may be held now. */
  isHolding(): boolean;
}

/** What the items of a lane's projects need to know of it. */
export interface LaneOfItems {
  /** Ids of runs whose money is held, as found since the lane was pumped. */
  readonly moneyless: ReadonlySet<string>;
  /** Items that a project keeps open, of runs with money, so that the lane never waits for its shards to be loaded. */
  readyMax(): number;
  /** Whether the last request proved that the provider answers. */
  isAnswering(): boolean;
  /** Whether a key or a model is new or refused, and items show one by one whether it is refused to all. */
  isAsking(): boolean;
  /** A shard was loaded, or could not be. */
  loaded(): void;
}

export class LaneItems {
  readonly project: string;
  /** Of its calls, from the intent to the end of the attempt. */
  inFlight = 0;
  /** As the last run said. */
  weight = 1;
  readonly #shards: LaneShards;
  readonly #calls: LaneCalls;
  readonly #lane: LaneOfItems;
  readonly #open = new OpenParts<ShardTicket>();
  #retries: Retry[] = [];
  #returned: ItemCall[] = [];
  #candidate: ItemCall | undefined;
  /** Were the candidate when their run's money was held by others; one of each run at most. */
  #unpaid: ItemCall[] = [];
  /** Were the candidate when it was too late for them; at most `LATE_MAX`. */
  #late: ItemCall[] = [];
  /** Failed in an earlier call, and read while the lane had no answer; at most `TRIED_MAX`. */
  #tried: ItemCall[] = [];
  #loading: ShardTicket | undefined;
  /** Probes so far of those that ask whether all are refused. */
  #asked = 0;
  /** The shard that the last item was taken from. */
  #lastShard: ShardTicket | undefined;

  constructor(project: string, shards: LaneShards, calls: LaneCalls, lane: LaneOfItems) {
    this.project = project;
    this.#shards = shards;
    this.#calls = calls;
    this.#lane = lane;
  }

  /** What waits here, shards in the backlog aside. */
  *loads(): Generator<RunWaiting> {
    for (const { ticket, next, end } of this.#open) {
      const items = end - next;
      const share = items / ticket.shard.count;
      const tokens = { inputTokens: ticket.inputTokens, outputTokens: ticket.expectedOutputTokens };
      yield {
        owner: ticket.owner,
        items,
        inputTokens: tokens.inputTokens * share,
        outputTokens: tokens.outputTokens * share,
      };
    }
    if (this.#candidate !== undefined) yield waitingOf(this.#candidate);
    for (const call of this.#aside()) yield waitingOf(call);
    for (const { call } of this.#retries) if (!call.isSecond) yield waitingOf(call);
  }

  /** The first retry whose run has money. */
  get retry(): Retry | undefined {
    return this.#retries.length === 0 ? undefined : this.#retries.find(({ call }) => this.#hasMoney(call));
  }

  /** The next item when no retry is; it stays so until `claimed`, `unpaid` or `drop`, but for one that was refused. */
  candidate(): ItemCall | undefined {
    const late = this.#late[0];
    if (late !== undefined && !this.#calls.isTooLate(late)) this.#unpaid.push(...this.#late.splice(0));
    if (this.#candidate === undefined)
      this.#found(this.#next(this.#unpaid) ?? this.#nextUntried() ?? this.#nextReturned());
    else if (this.#candidate.refusals !== undefined) this.#preferTo(this.#candidate, this.#nextUntried());
    return this.#candidate;
  }

  /** An item whose key or model was refused is a poor probe where another one has arrived since. */
  #preferTo(refused: ItemCall, untried: ItemCall | undefined): void {
    if (untried === undefined) return;
    this.#returned.push(refused);
    this.#candidate = untried;
  }

  /** A shard that was found here and moves on makes its lane go, which may ask for the candidate of this one meanwhile. */
  #found(call: ItemCall | undefined): void {
    if (this.#candidate === undefined) this.#candidate = call;
    else if (call !== undefined) this.#unpaid.push(call);
  }

  /** Whether nothing waits, here or in the backlog. */
  get isEmpty(): boolean {
    return (
      this.#candidate === undefined &&
      this.#open.size + this.#retries.length + this.#returned.length === 0 &&
      this.#unpaid.length + this.#late.length + this.#tried.length === 0 &&
      this.#loading === undefined &&
      !this.#shards.isWaiting(this.project)
    );
  }

  /** Items of open shards whose runs have money. */
  get readyItems(): number {
    if (this.#lane.moneyless.size === 0 && !this.#calls.isHolding()) return this.#open.items;
    let items = 0;
    for (const { ticket, next, end } of this.#open)
      if (this.#hasMoney(ticket)) items += (end - next) * (this.#calls.isHeld(ticket) ? HELD_SHARE : 1);
    return items;
  }

  addRetry(retry: Retry): void {
    this.#retries.push(retry);
  }

  removeRetry(retry: Retry): void {
    this.#retries.splice(this.#retries.indexOf(retry), 1);
  }

  /** Removes a call from the retries that wait and returns its entry; undefined if it does not wait. */
  withdraw(call: ItemCall): Retry | undefined {
    const retry = this.#retries.find((waiting) => waiting.call === call);
    if (retry !== undefined) this.removeRetry(retry);
    return retry;
  }

  /** Keeps an item for later. */
  giveBack(call: ItemCall): void {
    this.#returned.push(call);
  }

  /** The candidate is sent, or was settled. */
  claimed(): void {
    this.#candidate = undefined;
  }

  /** The candidate waits for money. */
  unpaid(call: ItemCall): void {
    this.#candidate = undefined;
    this.#unpaid.push(call);
  }

  /** It is too late for the candidate; false when as many as may are set aside for that, and nothing was done. */
  tooLate(call: ItemCall): boolean {
    if (this.#late.length >= LATE_MAX) return false;
    this.#candidate = undefined;
    this.#late.push(call);
    return true;
  }

  /** Forgets what waits of a run; returns its retries, which nobody else will settle. */
  drop(owner: ItemOwner): readonly Retry[] {
    const isOther = (entry: { readonly owner: ItemOwner }): boolean => entry.owner !== owner;
    this.#open.close((ticket) => ticket.owner === owner);
    this.#returned = this.#returned.filter(isOther);
    this.#unpaid = this.#unpaid.filter(isOther);
    this.#late = this.#late.filter(isOther);
    this.#tried = this.#tried.filter(isOther);
    if (this.#candidate?.owner === owner) this.#candidate = undefined;
    const dropped = this.#retries.filter((retry) => retry.call.owner === owner);
    this.#retries = this.#retries.filter((retry) => retry.call.owner !== owner);
    return dropped;
  }

  /** Calls of a run that wait for another attempt without one under way. */
  retriesOf(owner: ItemOwner): readonly ItemCall[] {
    return this.#retries.flatMap(({ call }) => (call.owner === owner && !call.isSecond ? [call] : []));
  }

  /** Whether items of a run wait here that nobody has claimed, those in the backlog aside. */
  holds(owner: ItemOwner): boolean {
    const isOf = (call: ItemCall): boolean => call.owner === owner;
    return (
      (this.#candidate !== undefined && isOf(this.#candidate)) ||
      this.#loading?.owner === owner ||
      this.#open.first((ticket) => ticket.owner === owner) !== undefined ||
      this.#aside().some(isOf)
    );
  }

  readonly #hasMoney = ({ owner }: { readonly owner: ItemOwner }): boolean => {
    const { moneyless } = this.#lane;
    return moneyless.size === 0 || !moneyless.has(owner.id);
  };

  readonly #mayGo = (work: HeldWork & { readonly owner: ItemOwner }): boolean =>
    this.#hasMoney(work) && !this.#calls.isHeld(work);

  #aside(): readonly ItemCall[] {
    return [...this.#unpaid, ...this.#late, ...this.#tried, ...this.#returned];
  }

  /** What was tried in vain is first where the provider answers, and last where it may not. */
  #nextUntried(): ItemCall | undefined {
    const again = this.#lane.isAnswering() ? this.#next(this.#tried) : undefined;
    const next = again ?? this.#nextFresh();
    if (next !== undefined) return next;
    this.#tried.sort((left, right) => left.attempts - right.attempts); // else in the order of the input
    return this.#next(this.#tried);
  }

  #nextFresh(): ItemCall | undefined {
    while (this.#tried.length < TRIED_MAX) {
      this.#fill();
      const part = this.#mostUrgent();
      if (part === undefined) return undefined;
      const { ticket } = part;
      this.#lastShard = ticket;
      const call = this.#calls.prepare(ticket, part.next, part.end);
      this.#open.take(part, call?.count ?? 1);
      if (call === undefined) continue;
      if (!call.isTried || this.#lane.isAnswering()) return call;
      this.#tried.push(call);
    }
    return undefined;
  }

  /** Probes that ask whether all are refused are far from each other in the input: the last, one in the middle, and so on. */
  #nextReturned(): ItemCall | undefined {
    if (!this.#lane.isAsking()) this.#asked = 0;
    else {
      const [far] = this.#returned.splice(Math.ceil(this.#returned.length / 2 ** this.#asked) - 1, 1);
      if (far !== undefined) this.#returned.unshift(far);
      this.#asked += 1;
    }
    return this.#next(this.#returned);
  }

  /** Takes the first call of a run that has money, and that may go. */
  #next(calls: ItemCall[]): ItemCall | undefined {
    if (calls.length === 0) return undefined;
    const index = calls.findIndex(this.#mayGo);
    return index < 0 ? undefined : calls.splice(index, 1)[0];
  }

  /** Opens shards until enough items are ready, and any shard that is more urgent than what is open. */
  #fill(): void {
    while (this.#loading === undefined) {
      const next = this.#shards.peek(this.project);
      if (next === undefined) return;
      if (!this.#open.isBefore(next, this.#hasMoney) && this.readyItems >= this.#lane.readyMax()) return;
      const ticket = this.#shards.take(this.project);
      if (ticket === undefined) return;
      if (this.#shards.movesOn(ticket)) continue;
      if (ticket.shard.isPrepared) this.#open.open(ticket, 0, ticket.shard.count);
      else this.#load(ticket);
    }
  }

  #load(ticket: ShardTicket): void {
    this.#loading = ticket;
    void this.#shards.reload(ticket).then((isLoaded) => {
      this.#loading = undefined;
      if (isLoaded && ticket.owner.isOpen) this.#open.open(ticket, 0, ticket.shard.count);
      this.#lane.loaded();
    });
  }

  /**
   * Of probes that ask whether all are refused, each is of another shard than the last item, and of the latest one; where only
   * one shard is open, it is from the middle of the longest part that waits.
   */
  #mostUrgent(): OpenPart<ShardTicket> | undefined {
    if (!this.#lane.isAsking()) return this.#open.first(this.#mayGo);
    const isOther = (ticket: ShardTicket): boolean => ticket !== this.#lastShard && this.#hasMoney(ticket);
    return this.#open.lastOpened(isOther) ?? this.#open.laterHalf(this.#hasMoney);
  }
}

function waitingOf({ owner, count, load }: ItemCall): RunWaiting {
  return { owner, items: count, ...load };
}
