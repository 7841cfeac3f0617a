/**
 * A lane at work: asks whose turn it is, asks the limits, makes the intent durable, sends.
 *
 *   whose turn (schedule/fair_share.ts) -> their next item (lane_items.ts) --limits and money say yes--> intent -> durable
 *   -> sent;  retry asked -> intent -> sent again
 *   durable, but the disk is full by now -> waits here for room -> sent, or given back when its run leaves
 *
 * Projects share the lane by weighted deficit round robin, and each serves its own items by their latest start. Costs are
 * milliseconds of the quota that an item uses most of (LaneLimits.costMs): that is what the lane runs out of, be it
 * requests or tokens. Where places in flight are what it runs out of, a project with its share of them or more waits
 * while another can go, however long its calls take. With one project nothing of that is reckoned.
 *
 * `pump` runs until something says wait, and then knows who wakes it: a timer (limits), a release (places, money),
 * a shard (backlog) or room on the disk. It never waits itself.
 *
 * Hot path: about 2 us an item (bench/engine.ts).
 */
import type { Clock, Timer } from "../clock.ts";
import type { FailureCode } from "../errors.ts";
import { FairShare } from "../schedule/fair_share.ts";
import type { LaneKey } from "../schedule/lanes.ts";
import type { LaneLimits, Permit } from "../schedule/limits.ts";
import type { TokenLoad } from "../work/limits.ts";
import type { Backlog, ShardTicket } from "./backlog.ts";
import type { ItemCall } from "./item_call.ts";
import { LaneItems, type LaneItemsParts, type Retry } from "./lane_items.ts";
import type { RunState } from "./run_state.ts";

/** Items that a lane keeps open, of runs with money, so that it never waits for a shard to be loaded; split by projects. */
const READY_ITEMS = 1_024;

/** Assumed of an answer before the first one came. */
const ITEM_MS_START = 1_000;
const ITEM_WEIGHT = 1 / 16;

/** What the limits' windows allow between a reservation and its request; they have 250 ms for this and for the wire. */
const LATE_MS = 150;

const MONEY_REFUSALS = {
  exhausted: "the cost cap leaves no money for this item",
  unpriced: "a cost cap cannot hold for a model without a known price: configure one under prices",
} as const;

/** A lane's way to the rest of the engine. */
export interface LaneServices {
  readonly clock: Clock;
  readonly backlog: Backlog;
  /** False while the disk is full or the engine stops. */
  mayAdmit(): boolean;
  /** Makes the call of an item; undefined when it was settled without a request (its model is stopped). */
  prepare(ticket: ShardTicket, index: number): ItemCall | undefined;
  /** Whether an item must not be sent after all: its line is cancelled, its model was stopped; it is settled then. */
  refuseUnwanted(call: ItemCall): boolean;
  /** Money for one attempt: `wait` until others settle, `exhausted`, or `unpriced` when nobody knows what it may cost. */
  reserveMoney(call: ItemCall): "ok" | "wait" | "exhausted" | "unpriced";
  returnMoney(call: ItemCall): void;
  /** Brings a dropped shard's bytes back; on failure it has told the run. */
  reload(ticket: ShardTicket): Promise<boolean>;
  /** Says that the lane waits for a place or for money that others may give back; `hasSent` since it last said so. */
  setBlocked(by: "limits" | "money" | undefined, hasSent: boolean): void;
  /** The intent is durable: send. */
  send(call: ItemCall): void;
  /** Its run left before it could be sent. */
  giveUp(call: ItemCall): void;
  /** Settles an item without sending it. */
  refuse(call: ItemCall, code: FailureCode, message: string): void;
}

/** An intent on its way to the disk, and what comes of it. */
interface Intended {
  readonly call: ItemCall;
  readonly go: () => void;
  readonly giveUp: () => void;
}

/** What a lane has of one run. */
export interface Held {
  /** Claimed lines that wait here for their next attempt, or are out to probe a stopped account. */
  readonly claimed: number;
  /** Whether items wait here that nobody has claimed. */
  readonly hasMore: boolean;
}

export class Lane {
  readonly key: LaneKey;
  readonly limits: LaneLimits;
  /** Moving mean of what one answer takes, in milliseconds. */
  itemMs: number = ITEM_MS_START;
  readonly #services: LaneServices;
  /** Of projects with something that waits or is in flight. */
  readonly #projects = new Map<string, LaneItems>();
  /** Those with something that waits. */
  readonly #share = new FairShare<LaneItems>();
  /** Found in the share with nothing that waits. */
  readonly #emptied: LaneItems[] = [];
  readonly #parts: LaneItemsParts;
  #waitingForRoom: Intended[] = [];
  /** Sent while the lane was stopped by its account; over when the call has another permit or none. */
  #probes: { readonly call: ItemCall; readonly permit: Permit }[] = [];
  /** Ids of runs whose money is held, as found since `pump` was called. */
  readonly #moneyless = new Set<string>();
  #timer: Timer | undefined;
  #isPumping = false;
  #isBlocked = false;
  /** A project that has as many requests in flight waits while others can go; Infinity of a lane with free places. */
  #placesOfWeight = Number.POSITIVE_INFINITY;
  #hasSent = false;

  constructor(key: LaneKey, limits: LaneLimits, services: LaneServices) {
    this.key = key;
    this.limits = limits;
    this.#services = services;
    const { backlog } = services;
    this.#parts = {
      moneyless: this.#moneyless,
      readyMax: () => READY_ITEMS / this.#share.size,
      peek: (project) => backlog.peek(key, project, this.#moneyless),
      take: (project) => backlog.take(key, project, this.#moneyless),
      prepare: services.prepare,
      reload: services.reload,
      loaded: () => this.pump(),
    };
  }

  /** A shard of a run came into the backlog for this lane. */
  arrived(run: RunState): void {
    this.#itemsOf(run);
    this.pump();
  }

  /** Sends as much as may be sent now. Safe to call at any time, also from what it calls. */
  pump(): void {
    if (this.#isPumping) return;
    this.#isPumping = true;
    this.#hasSent = false;
    if (this.#services.mayAdmit())
      for (const intended of this.#waitingForRoom.splice(0)) this.#durable(intended);
    this.#moneyless.clear();
    this.#sharePlaces();
    try {
      do this.#isBlocked = false;
      while (this.#step());
    } finally {
      this.#isPumping = false;
    }
    const blockedBy = this.#isBlocked ? "limits" : undefined;
    this.#services.setBlocked(this.#moneyless.size > 0 ? "money" : blockedBy, this.#hasSent);
    this.#services.backlog.setIdle(this.key, this.#isShort() && !this.limits.isPaused);
  }

  /** Resolves when another attempt was admitted and its intent is durable. */
  admitAgain(call: ItemCall, attempt: number, ambiguousAttempts: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#itemsOf(call.run).addRetry({ call, attempt, ambiguousAttempts, resolve, reject });
      this.pump();
    });
  }

  /** An answer took `latencyMs`. */
  answered(latencyMs: number): void {
    this.itemMs += (latencyMs - this.itemMs) * ITEM_WEIGHT;
  }

  /** Keeps an item for later. */
  giveBack(call: ItemCall): void {
    this.#itemsOf(call.run).giveBack(call);
    this.pump();
  }

  /** The attempt of a call is over: its place is free. */
  release(call: ItemCall, permit: Permit): void {
    this.limits.release(this.#services.clock.nowMs(), permit);
    const items = this.#projects.get(call.run.settings.project);
    if (items === undefined) return;
    items.inFlight -= 1;
    this.#tidy(items);
  }

  /** Forgets what waits of a run that no longer sends; retries in wait are rejected with `reason`. */
  drop(run: RunState, reason: unknown): void {
    const items = this.#projects.get(run.settings.project);
    for (const retry of items?.drop(run) ?? []) retry.reject(reason);
    if (items !== undefined) this.#tidy(items);
    const left = this.#waitingForRoom.filter(({ call }) => call.run === run);
    this.#waitingForRoom = this.#waitingForRoom.filter(({ call }) => call.run !== run);
    for (const intended of left) this.#giveUp(intended);
  }

  /** What this lane has of a run that waits, or that goes on only when a probe succeeds. */
  held(run: RunState): Held {
    const isOf = (call: ItemCall): boolean => call.run === run;
    const isOut = ({ call, permit }: { readonly call: ItemCall; readonly permit: Permit }): boolean =>
      isOf(call) && call.permit === permit;
    const items = this.#projects.get(run.settings.project);
    return {
      claimed: (items?.retriesOf(run) ?? 0) + this.#probes.filter(isOut).length,
      hasMore: items?.holds(run) === true || this.#services.backlog.holds(run.id, this.key),
    };
  }

  close(): void {
    this.#timer?.cancel();
  }

  /** Moves one item on; false when the lane must wait. */
  #step(): boolean {
    if (!this.#services.mayAdmit()) return false;
    const items = this.#nextTurn();
    if (items === undefined) return false;
    const { retry } = items;
    if (retry !== undefined) return this.#stepRetry(items, retry);
    const call = items.candidate();
    if (call === undefined) {
      this.#tidy(items);
      return false;
    }
    if (this.#services.refuseUnwanted(call)) {
      items.claimed();
      return true;
    }
    const money = this.#hasMoney(call) ? this.#services.reserveMoney(call) : "wait";
    if (money === "wait") {
      items.unpaid(call);
      return this.#passOver(call);
    }
    if (money !== "ok") {
      this.#claim(items, call);
      this.#services.refuse(call, "budget_exceeded", MONEY_REFUSALS[money]);
      return true;
    }
    if (!this.#reserveLimits(call)) return false;
    this.#claim(items, call);
    this.#served(items, call);
    const attempt = call.attempts + call.accountRefusals + 1;
    const { send, giveUp } = this.#services;
    this.#intend({ call, go: () => send(call), giveUp: () => giveUp(call) }, attempt, call.ambiguousAttempts);
    return true;
  }

  #stepRetry(items: LaneItems, retry: Retry): boolean {
    const { call, attempt, ambiguousAttempts, resolve } = retry;
    if (call.isSkipped) return rejected(items, retry, "its line was cancelled");
    const money = this.#services.reserveMoney(call);
    if (money === "exhausted" || money === "unpriced")
      return rejected(items, retry, "no money is left for another attempt"); // it comes back, and is refused as fresh
    if (money === "wait") return this.#passOver(call);
    if (!this.#reserveLimits(call)) return false;
    items.removeRetry(retry);
    this.#served(items, call);
    const giveUp = (): void => retry.reject(new Error("its run left"));
    this.#intend({ call, go: resolve, giveUp }, attempt, ambiguousAttempts);
    return true;
  }

  #claim(items: LaneItems, call: ItemCall): void {
    items.claimed();
    call.run.waitingItems -= 1;
    call.run.claimed.add(call.line);
  }

  #hasMoney({ run }: { readonly run: RunState }): boolean {
    return this.#moneyless.size === 0 || !this.#moneyless.has(run.id);
  }

  /** Nothing more of the call's run is tried before others give its money back; the lane goes on with other runs. */
  #passOver({ run }: ItemCall): true {
    this.#moneyless.add(run.id);
    return true;
  }

  #reserveLimits(call: ItemCall): boolean {
    const { clock } = this.#services;
    const nowMs = clock.nowMs();
    const taken = this.limits.reserve(nowMs, loadOf(call));
    if (taken.ok) {
      call.permit = taken.permit;
      return true;
    }
    this.#services.returnMoney(call);
    this.#timer?.cancel();
    this.#timer = Number.isFinite(taken.waitMs) ? clock.timer(taken.waitMs, () => this.pump()) : undefined;
    this.#isBlocked = this.#timer === undefined;
    return false;
  }

  #intend(intended: Intended, attempt: number, ambiguousAttempts: number): void {
    const { call } = intended;
    const { run, shard, index } = call;
    run.inFlight += 1;
    this.#hasSent = true;
    if (this.limits.isPaused) this.#probing(call);
    run.settings.log.intent(
      {
        line: call.line,
        offset: shard.offsets[index] as number,
        lengthBytes: shard.lengths[index] as number,
        attempt,
        ambiguousAttempts,
        inputTokens: call.expectedInputTokens,
        outputTokens: call.expectedOutputTokens,
      },
      this.key,
      () => this.#durable(intended),
    );
  }

  /** The disk may have filled up with the very commit that brought the intent there, and its run may be over. */
  #durable(intended: Intended): void {
    const { call, go } = intended;
    if (call.run.phase === "done") this.#giveUp(intended);
    else if (this.#services.mayAdmit()) {
      this.#postpone(call);
      go();
    } else if (call.run.isOpen) this.#waitingForRoom.push(intended);
    else this.#giveUp(intended);
  }

  #giveUp({ call, giveUp }: Intended): void {
    call.isUnsent = true;
    giveUp();
  }

  #probing(call: ItemCall): void {
    this.#probes = this.#probes.filter((probe) => probe.call.permit === probe.permit);
    if (call.permit !== undefined) this.#probes.push({ call, permit: call.permit });
  }

  /** An intent that waited for the disk leaves later than the limits have counted it. */
  #postpone({ permit }: ItemCall): void {
    const nowMs = this.#services.clock.nowMs();
    if (permit !== undefined && nowMs - permit.atMs > LATE_MS) this.limits.postpone(nowMs, permit);
  }

  /** What a project has here, ready to take its turns. */
  #itemsOf({ settings: { project, weight } }: RunState): LaneItems {
    let items = this.#projects.get(project);
    if (items === undefined) {
      items = new LaneItems(project, this.#parts);
      this.#projects.set(project, items);
    }
    this.#share.join(items, weight);
    return items;
  }

  /** Forgets a project of which nothing waits, and nothing is in flight. */
  #tidy(items: LaneItems): void {
    if (!items.isEmpty) return;
    this.#share.leave(items);
    if (items.inFlight === 0) this.#projects.delete(items.project);
  }

  #nextTurn(): LaneItems | undefined {
    let next = this.#share.next(this.#costWithinPlaces);
    if (next === undefined && this.#placesOfWeight < Number.POSITIVE_INFINITY) {
      this.#placesOfWeight = Number.POSITIVE_INFINITY; // nobody else can go
      next = this.#share.next(this.#costWithinPlaces);
    }
    if (this.#emptied.length > 0) for (const items of this.#emptied.splice(0)) this.#tidy(items);
    return next;
  }

  /** What the next item of a project costs; undefined when it has none, or its share of scarce places. */
  readonly #costWithinPlaces = (items: LaneItems): number | undefined => {
    const call = items.retry?.call ?? items.candidate();
    if (call === undefined && items.isEmpty) this.#emptied.push(items);
    if (call === undefined || items.inFlight >= this.#placesOfWeight * call.run.settings.weight)
      return undefined;
    return this.limits.costMs(loadOf(call));
  };

  #served(items: LaneItems, call: ItemCall): void {
    items.inFlight += 1;
    if (this.#share.size > 1) this.#share.served(items, this.limits.costMs(loadOf(call)));
  }

  #sharePlaces(): void {
    const isScarce = this.#isBlocked && this.#share.size > 1;
    this.#placesOfWeight = isScarce ? this.limits.places / this.#share.weightTotal : Number.POSITIVE_INFINITY;
  }

  #isShort(): boolean {
    if (this.#services.backlog.isWaiting(this.key)) return false;
    let ready = 0;
    for (const items of this.#share.present()) {
      ready += items.readyItems;
      if (ready >= READY_ITEMS / 2) return false;
    }
    return true;
  }
}

function loadOf(call: ItemCall): TokenLoad {
  return { inputTokens: call.expectedInputTokens, outputTokens: call.expectedOutputTokens };
}

function rejected(items: LaneItems, retry: Retry, why: string): true {
  items.removeRetry(retry);
  retry.reject(new Error(why));
  return true;
}
