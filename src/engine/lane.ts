/**
 * A lane at work: takes items in the order of their urgency, asks the limits, makes the intent durable, sends.
 *
 *   shard waiting -> open (cursor) -> candidate --limits and money say yes--> intent -> durable -> sent
 *   retry asked -> waits here, before all fresh items -> intent -> sent again
 *   durable, but the disk is full by now -> waits here for room -> sent, or given back when its run leaves
 *   its run's money is held -> waits here, and all of its run with it, while other runs go on
 *   returned (account stop) -> waits here, after all fresh items, so that a probe is a request nobody has refused yet
 *
 * `pump` runs until something says wait, and then knows who wakes it: a timer (limits), a release (places, money),
 * a shard (backlog) or room on the disk. It never waits itself.
 *
 * Hot path: about 2 us an item (bench/engine.ts).
 */
import type { Clock, Timer } from "../clock.ts";
import type { FailureCode } from "../errors.ts";
import type { LaneKey } from "../schedule/lanes.ts";
import type { LaneLimits, Permit } from "../schedule/limits.ts";
import { latestStartMs } from "../schedule/queue.ts";
import type { Backlog, ShardTicket } from "./backlog.ts";
import type { ItemCall } from "./item_call.ts";
import type { RunState } from "./run_state.ts";

/** Items that a lane keeps open, of runs with money, so that it never waits for a shard to be loaded. */
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
  /** Whether the model of an item was stopped since it was prepared; it is settled then. */
  refuseStopped(call: ItemCall): boolean;
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

interface Cursor {
  readonly ticket: ShardTicket;
  next: number;
}

/** An intent on its way to the disk, and what comes of it. */
interface Intended {
  readonly call: ItemCall;
  readonly go: () => void;
  readonly giveUp: () => void;
}

interface Retry {
  readonly call: ItemCall;
  readonly attempt: number;
  readonly ambiguousAttempts: number;
  readonly resolve: () => void;
  readonly reject: (reason: unknown) => void;
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
  readonly #cursors: Cursor[] = [];
  #retries: Retry[] = [];
  #returned: ItemCall[] = [];
  #waitingForRoom: Intended[] = [];
  /** Sent while the lane was stopped by its account; over when the call has another permit or none. */
  #probes: { readonly call: ItemCall; readonly permit: Permit }[] = [];
  #candidate: ItemCall | undefined;
  /** Were the candidate when their run's money was held by others; one of each run at most. */
  #unpaid: ItemCall[] = [];
  /** Ids of runs whose money is held, as found since `pump` was called. */
  readonly #moneyless = new Set<string>();
  #loading: ShardTicket | undefined;
  #timer: Timer | undefined;
  #isPumping = false;
  #isBlocked = false;
  #hasSent = false;

  constructor(key: LaneKey, limits: LaneLimits, services: LaneServices) {
    this.key = key;
    this.limits = limits;
    this.#services = services;
  }

  /** Sends as much as may be sent now. Safe to call at any time, also from what it calls. */
  pump(): void {
    if (this.#isPumping) return;
    this.#isPumping = true;
    this.#hasSent = false;
    if (this.#services.mayAdmit())
      for (const intended of this.#waitingForRoom.splice(0)) this.#durable(intended);
    this.#moneyless.clear();
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
      this.#retries.push({ call, attempt, ambiguousAttempts, resolve, reject });
      this.pump();
    });
  }

  /** An answer took `latencyMs`. */
  answered(latencyMs: number): void {
    this.itemMs += (latencyMs - this.itemMs) * ITEM_WEIGHT;
  }

  /** Keeps an item for later. */
  giveBack(call: ItemCall): void {
    this.#returned.push(call);
    this.pump();
  }

  /** Forgets what waits of a run that no longer sends; retries in wait are rejected with `reason`. */
  drop(run: RunState, reason: unknown): void {
    const isOther = (entry: { readonly run: RunState }): boolean => entry.run !== run;
    for (let index = this.#cursors.length - 1; index >= 0; index -= 1) {
      if (this.#cursors[index]?.ticket.run === run) this.#cursors.splice(index, 1);
    }
    this.#returned = this.#returned.filter(isOther);
    this.#unpaid = this.#unpaid.filter(isOther);
    if (this.#candidate?.run === run) this.#candidate = undefined;
    const rejected = this.#retries.filter((retry) => retry.call.run === run);
    this.#retries = this.#retries.filter((retry) => retry.call.run !== run);
    for (const retry of rejected) retry.reject(reason);
    const left = this.#waitingForRoom.filter(({ call }) => call.run === run);
    this.#waitingForRoom = this.#waitingForRoom.filter(({ call }) => call.run !== run);
    for (const intended of left) this.#giveUp(intended);
  }

  /** What this lane has of a run that waits, or that goes on only when a probe succeeds. */
  held(run: RunState): Held {
    const isOf = (call: ItemCall): boolean => call.run === run;
    const isOut = ({ call, permit }: { readonly call: ItemCall; readonly permit: Permit }): boolean =>
      isOf(call) && call.permit === permit;
    return {
      claimed: this.#retries.filter(({ call }) => isOf(call)).length + this.#probes.filter(isOut).length,
      hasMore:
        (this.#candidate !== undefined && isOf(this.#candidate)) ||
        this.#loading?.run === run ||
        this.#cursors.some(({ ticket }) => ticket.run === run) ||
        this.#services.backlog.holds(run.id, this.key) ||
        this.#returned.some(isOf) ||
        this.#unpaid.some(isOf),
    };
  }

  close(): void {
    this.#timer?.cancel();
  }

  /** Moves one item on; false when the lane must wait. */
  #step(): boolean {
    if (!this.#services.mayAdmit()) return false;
    const retry = this.#retries.find(({ call }) => this.#hasMoney(call));
    if (retry !== undefined) {
      const money = this.#services.reserveMoney(retry.call);
      if (money === "exhausted" || money === "unpriced") {
        this.#remove(retry);
        retry.reject(new Error("no money is left for another attempt")); // it comes back, and is refused as fresh
        return true;
      }
      if (money === "wait") return this.#passOver(retry.call);
      if (!this.#reserveLimits(retry.call)) return false;
      this.#remove(retry);
      const { attempt, ambiguousAttempts, resolve } = retry;
      const giveUp = (): void => retry.reject(new Error("its run left"));
      this.#intend({ call: retry.call, go: resolve, giveUp }, attempt, ambiguousAttempts);
      return true;
    }
    this.#candidate ??= this.#next(this.#unpaid) ?? this.#nextFresh() ?? this.#next(this.#returned);
    const call = this.#candidate;
    if (call === undefined) return false;
    if (this.#services.refuseStopped(call)) {
      this.#candidate = undefined;
      return true;
    }
    const money = this.#hasMoney(call) ? this.#services.reserveMoney(call) : "wait";
    if (money === "wait") {
      this.#candidate = undefined;
      this.#unpaid.push(call);
      return this.#passOver(call);
    }
    if (money !== "ok") {
      this.#claim(call);
      this.#services.refuse(call, "budget_exceeded", MONEY_REFUSALS[money]);
      return true;
    }
    if (!this.#reserveLimits(call)) return false;
    this.#claim(call);
    const attempt = call.attempts + call.accountRefusals + 1;
    const { send, giveUp } = this.#services;
    this.#intend({ call, go: () => send(call), giveUp: () => giveUp(call) }, attempt, call.ambiguousAttempts);
    return true;
  }

  #claim(call: ItemCall): void {
    this.#candidate = undefined;
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

  #remove(retry: Retry): void {
    this.#retries.splice(this.#retries.indexOf(retry), 1);
  }

  #reserveLimits(call: ItemCall): boolean {
    const { clock } = this.#services;
    const load = { inputTokens: call.expectedInputTokens, outputTokens: call.expectedOutputTokens };
    const nowMs = clock.nowMs();
    const taken = this.limits.reserve(nowMs, load);
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
    this.#services.returnMoney(call);
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

  #nextFresh(): ItemCall | undefined {
    for (;;) {
      this.#fill();
      const cursor = this.#mostUrgent();
      if (cursor === undefined) return undefined;
      const { ticket } = cursor;
      const index = cursor.next;
      cursor.next += 1;
      if (cursor.next >= ticket.shard.count) this.#cursors.splice(this.#cursors.indexOf(cursor), 1);
      const call = this.#services.prepare(ticket, index);
      if (call !== undefined) return call;
    }
  }

  /** Takes the first call of a run that has money. */
  #next(calls: ItemCall[]): ItemCall | undefined {
    if (calls.length === 0) return undefined;
    const index = calls.findIndex((call) => this.#hasMoney(call));
    return index < 0 ? undefined : calls.splice(index, 1)[0];
  }

  /** Opens shards until enough items are ready, and any shard that is more urgent than what is open. */
  #fill(): void {
    while (this.#loading === undefined) {
      const next = this.#services.backlog.peek(this.key, this.#moneyless);
      if (next === undefined) return;
      const isUrgent = this.#cursors.every(
        ({ ticket }) =>
          latestStartMs(next, next.needMs) < latestStartMs(ticket, ticket.needMs) || !this.#hasMoney(ticket),
      );
      if (!isUrgent && this.#readyItems() >= READY_ITEMS) return;
      const ticket = this.#services.backlog.take(this.key, this.#moneyless);
      if (ticket === undefined) return;
      if (ticket.shard.isPrepared) this.#cursors.push({ ticket, next: 0 });
      else this.#load(ticket);
    }
  }

  #load(ticket: ShardTicket): void {
    this.#loading = ticket;
    void this.#services.reload(ticket).then((isLoaded) => {
      this.#loading = undefined;
      if (isLoaded && ticket.run.isOpen) this.#cursors.push({ ticket, next: 0 });
      this.pump();
    });
  }

  #mostUrgent(): Cursor | undefined {
    let best: Cursor | undefined;
    for (const cursor of this.#cursors) {
      if (!this.#hasMoney(cursor.ticket)) continue;
      if (best === undefined || startOf(cursor) < startOf(best)) best = cursor;
    }
    return best;
  }

  #readyItems(): number {
    let items = 0;
    for (const { ticket, next } of this.#cursors)
      if (this.#hasMoney(ticket)) items += ticket.shard.count - next;
    return items;
  }

  #isShort(): boolean {
    return this.#services.backlog.peek(this.key) === undefined && this.#readyItems() < READY_ITEMS / 2;
  }
}

function startOf({ ticket }: Cursor): number {
  return latestStartMs(ticket, ticket.needMs);
}
