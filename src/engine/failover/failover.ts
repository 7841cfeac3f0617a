/**
 * Failover: items whose model is an alias are answered by the first of its models that can (queue/failover.ts says which).
 *
 *   read, measured for the first --another one is to answer--> on its way (measured again) --> waits for that one
 *   waits for one that is left   --another one can answer----> on its way ------------------> waits for that one
 *   waits for one that is left   --no other one can answer---> stays, and is held there
 *   between two attempts         --its retry is due----------> as one that waits: what is in doubt was decided by the retry rules
 *   sent, in doubt, in a batch   stays until it has ended, or is to be sent again
 *
 *   probe    while a model is left, single items are sent to it: new ones, and where no model can answer also those that wait. An item
 *            that it does not answer moves on like the others. At most one in 30 s for each model.
 *
 * What waits in a lane moves when it is its turn; a lane in trouble is called each second while an item waits there.
 */
import type { Clock, Timer } from "../../clock.ts";
import {
  type MemberNow,
  MemberPast,
  memberForNew,
  memberForWaiting,
  patienceMs,
} from "../../queue/failover.ts";
import type { LaneKey } from "../../queue/lanes.ts";
import type { Shard } from "../../shard/shard.ts";
import type { AliasMembers, ModelAliases } from "../config/model_aliases.ts";
import type { ItemCall } from "../items/item_call.ts";
import type { ItemOwner } from "../items/item_owner.ts";
import { ItemMoves, type MoveTarget } from "./item_moves.ts";
import type { MemberLane } from "./member_lane.ts";

/** A lane in trouble is called so often. */
const WATCH_MS = 1_000;
/** Between two probes of a model that is left. */
const PROBE_MS = 30_000;
/** A probe that was not sent after so long moves on. */
const PROBE_WAIT_MS = 10_000;
/** Items with a deadline that is nearer are no probes. */
const PROBE_DEADLINE_MS = 120_000;

export interface FailoverServices {
  readonly clock: Clock;
  readonly aliases: ModelAliases;
  laneOf(model: string): MemberLane;
  /** Sends what the lane of a model has. */
  pump(model: string): void;
  /** Takes shards that were measured for another model; their items are counted as waiting from then on. */
  place(owner: ItemOwner, shards: readonly Shard[]): Promise<void>;
}

/** One for an engine. */
export class Failover {
  readonly #services: FailoverServices;
  readonly #moves: ItemMoves;
  readonly #past = new Map<string, MemberPast>();
  /** By model, monotonic: when the last probe was chosen. */
  readonly #probedMs = new Map<string, number>();
  /** Shards of one item, and when they were placed. */
  readonly #probes = new WeakMap<Shard, number>();
  /** Where items go that are returned by their dispatcher for that, by their index. */
  readonly #returned = new WeakMap<Shard, Map<number, MoveTarget>>();
  readonly #usedBy = new WeakMap<ItemOwner, Set<string>>();
  #timer: Timer | undefined;

  constructor(services: FailoverServices) {
    this.#services = services;
    this.#moves = new ItemMoves(services.clock, (owner, shards, isProbe) => {
      if (isProbe) for (const shard of shards) this.#probes.set(shard, services.clock.nowMs());
      return services.place(owner, shards);
    });
  }

  /** Whether a shard that was read goes to another model than it was measured for; resolves when it is on its way there. */
  async redirects(owner: ItemOwner, shard: Shard): Promise<boolean> {
    const { alias } = shard.group;
    if (alias === undefined || owner.measureAgain === undefined) return false;
    this.#note(owner, alias);
    const { deadlineMs } = owner.settings;
    const { members, states } = this.#statesOf(alias);
    const target = members[memberForNew(states, this.#services.clock.nowMs(), deadlineMs)] ?? shard.model;
    this.watch();
    if (target === shard.model) return false;
    owner.items.waitingItems += shard.count;
    const probed = this.#probeFor(alias, target, deadlineMs);
    await this.#moves.redirect(owner, shard, target, probed);
    return true;
  }

  /** Whether a shard that waits leaves for another model: then it is on its way there. */
  takesShard(owner: ItemOwner, shard: Shard): boolean {
    const target = this.#targetOf(owner, shard);
    if (target === undefined) return false;
    if (target.isProbe && shard.count > 1) return false; // one of its items is, when it is its turn
    void this.#moves.moveShard(owner, shard, target);
    return true;
  }

  /** Whether an item that is to be sent again leaves for another model; then it is returned, and `takes` it. */
  leaves({ owner, shard, index, isSecond }: ItemCall): boolean {
    if (shard.group.alias === undefined || isSecond) return false;
    this.#probes.delete(shard);
    const target = this.#targetOf(owner, shard);
    if (target === undefined) return false;
    const returned = this.#returned.get(shard) ?? new Map<number, MoveTarget>();
    this.#returned.set(shard, returned.set(index, target));
    return true;
  }

  /** Whether an item that waits leaves for another model: then it is on its way there. `wasSent`: it was, and not answered. */
  takes(call: ItemCall, wasSent = false): boolean {
    const { owner, shard, index } = call;
    if (shard.group.alias === undefined) return false;
    if (wasSent) this.#probes.delete(shard);
    const target = this.#returned.get(shard)?.get(index) ?? this.#targetOf(owner, shard);
    if (target === undefined) return false;
    this.#returned.get(shard)?.delete(index);
    this.#moves.add(call, target);
    return true;
  }

  /** Whether items of an owner are on their way: they are in no lane. */
  isMoving(owner: ItemOwner): boolean {
    return this.#moves.isMoving(owner);
  }

  /** Whether items of an owner that wait for a lane in trouble will leave it soon for one that can answer. */
  leavesSoon(owner: ItemOwner, key: LaneKey): boolean {
    const nowMs = this.#services.clock.nowMs();
    return this.#lanesUsedBy(owner).some((lanes) => {
      const { trouble } = lanes.find((lane) => lane.key === key) ?? {};
      if (trouble === undefined || patienceMs(trouble, nowMs) === 0) return false;
      return lanes.some((lane) => lane.trouble === undefined);
    });
  }

  /** Lanes of other models that items of an owner in this lane wait for as well, because they are in trouble, too. */
  othersHeld(owner: ItemOwner, key: LaneKey): LaneKey[] {
    const beside = this.#lanesUsedBy(owner).filter((lanes) => lanes.some((lane) => lane.key === key));
    return beside
      .flat()
      .flatMap((lane) => (lane.trouble === undefined || lane.key === key ? [] : [lane.key]));
  }

  /** Of each alias that items of an owner name. */
  #lanesUsedBy(owner: ItemOwner): MemberLane[][] {
    return [...(this.#usedBy.get(owner) ?? [])].map((alias) =>
      (this.#services.aliases.members.get(alias) ?? []).map((model) => this.#services.laneOf(model)),
    );
  }

  /** A lane may be in trouble, or something waits in it. */
  watch(): void {
    if (this.#timer !== undefined || this.#services.aliases.members.size === 0) return;
    if (this.#troubled().length === 0) return;
    this.#timer = this.#services.clock.timer(WATCH_MS, () => {
      this.#timer = undefined;
      for (const model of this.#troubled()) this.#services.pump(model);
      this.watch();
    });
  }

  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** Models in trouble for which something waits. */
  #troubled(): string[] {
    const models = new Set([...this.#services.aliases.members.values()].flat());
    return [...models].filter((model) => {
      const { trouble, hasWaiting } = this.#services.laneOf(model);
      return trouble !== undefined && hasWaiting;
    });
  }

  #targetOf(owner: ItemOwner, shard: Shard): MoveTarget | undefined {
    const { alias } = shard.group;
    if (alias === undefined || owner.measureAgain === undefined || !owner.isOpen) return undefined;
    if (this.#moves.stays(shard) || this.#isProbing(shard)) return undefined;
    const { deadlineMs } = owner.settings;
    const { members, states } = this.#statesOf(alias);
    const at = members.indexOf(shard.model);
    const nowMs = this.#services.clock.nowMs();
    const to = memberForWaiting(states, at, nowMs, deadlineMs);
    if (to !== undefined) return { model: members[to] as string, isProbe: false };
    if (states[at]?.trouble === undefined) return undefined;
    this.watch();
    if (states.some(({ trouble }) => trouble === undefined)) return undefined;
    const probed = this.#probeFor(alias, shard.model, deadlineMs);
    return probed === undefined ? undefined : { model: probed, isProbe: true };
  }

  /** A model that is left and is to be asked whether it answers again, by an item that else goes to `target`. */
  #probeFor(alias: string, target: string, deadlineMs: number): string | undefined {
    const nowMs = this.#services.clock.nowMs();
    if (deadlineMs - nowMs < PROBE_DEADLINE_MS) return undefined;
    const { members, states } = this.#statesOf(alias);
    const probed = members.find((model, index) => {
      const { trouble } = states[index] as MemberNow;
      if (model === target || trouble === undefined) return false;
      const isDue = nowMs - (this.#probedMs.get(model) ?? Number.NEGATIVE_INFINITY) >= PROBE_MS;
      return isDue && this.#services.laneOf(model).isFree;
    });
    if (probed !== undefined) this.#probedMs.set(probed, nowMs);
    return probed;
  }

  #isProbing(shard: Shard): boolean {
    const placedMs = this.#probes.get(shard);
    return placedMs !== undefined && this.#services.clock.nowMs() - placedMs < PROBE_WAIT_MS;
  }

  #statesOf(alias: string): { readonly members: AliasMembers; readonly states: readonly MemberNow[] } {
    const members = this.#services.aliases.members.get(alias);
    if (members === undefined) throw new Error(`no alias ${alias}`); // its lines were measured with it
    const nowMs = this.#services.clock.nowMs();
    const states = members.map((model) => {
      const { trouble, itemMs } = this.#services.laneOf(model);
      const past = this.#past.get(model) ?? new MemberPast();
      this.#past.set(model, past);
      return { trouble, itemMs, isLeft: past.isLeft(trouble, nowMs) };
    });
    return { members, states };
  }

  #note(owner: ItemOwner, alias: string): void {
    const used = this.#usedBy.get(owner) ?? new Set();
    used.add(alias);
    this.#usedBy.set(owner, used);
  }
}
