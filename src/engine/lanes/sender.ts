/**
 * The sender: between the lanes and the dispatcher. It makes calls, keeps limits and money settled, learns from every
 * attempt, pauses what must pause, and passes outcomes on to be recorded.
 *
 *   lane admits -> send -> dispatcher -> attempted (each attempt) -> outcome  -> recorded -> place freed
 *                                                                 -> returned -> waits in its lane
 *
 * A place in flight is held from the intent to the end of a failed attempt, or to the staged outcome of an answered one.
 * Commits keep the order of staging, and a request leaves only after its intent is durable: so when it leaves, the
 * outcome that gave it its place is durable too, and the answers that a kill can lose are never more than the places
 * (docs/decisions/0009-commits.md).
 */
import type { Clock } from "../../clock.ts";
import { debug } from "../../debug.ts";
import type {
  AdmitAttempt,
  AttemptResult,
  Dispatcher,
  DispatchResult,
  Made,
} from "../../dispatch/dispatcher.ts";
import { madeAfter, madeOf } from "../../dispatch/tally.ts";
import { noteLargeBytes } from "../../large_bytes.ts";
import type { Decoded, WireAnswer } from "../../providers/provider.ts";
import type { LaneKey } from "../../queue/lanes.ts";
import type { Shard } from "../../shard/shard.ts";
import { NO_USAGE } from "../../work/outcome.ts";
import type { Failover } from "../failover/failover.ts";
import { isUnsent, signalOf, suspectsOf, tellAttempt, tokensTaken } from "../items/attempt_signal.ts";
import type { ShardTicket } from "../items/backlog.ts";
import {
  type CallPart,
  callAgain,
  halvedOf,
  halvesOf,
  isBroken,
  partsOf,
  recordClosed,
  recordOutcome,
  recordUnsent,
} from "../items/call_records.ts";
import type { ClaimedBytes } from "../items/claimed_bytes.ts";
import type { HeldLines } from "../items/holds.ts";
import { freeCache, ItemCall } from "../items/item_call.ts";
import type { ItemLoads } from "../items/item_loads.ts";
import { type ItemMoney, unpriced } from "../items/item_money.ts";
import type { ItemOwner } from "../items/item_owner.ts";
import type { ItemPatience } from "../items/patience.ts";
import { endOf, faultOfCall, RunStopped } from "../items/run_stopped.ts";
import type { EngineObserver } from "../journal/observer.ts";
import { joinedItems } from "../offers/joined_items.ts";
import { goesToRealtime } from "../offers/judgement.ts";
import type { KeyTrials } from "./key_trials.ts";
import type { Lane } from "./lane.ts";
import type { ModelClients } from "./model_clients.ts";
import type { ModelLanes } from "./model_lanes.ts";
import { RefusedAccess } from "./refused_access.ts";
import { besideOf, SecondAttempts, stateAnew } from "./second_attempts.ts";

/** The lanes that it sends for: `answered` is called after a success, `freed` when a lane has a place again, and a run money. */
export interface SenderLanes {
  of(key: LaneKey): Lane;
  lanesOf(provider: string): readonly Lane[];
  answered(lane: Lane): void;
  freed(lane: Lane): void;
  /** Which model's lane the items of an alias wait for. */
  readonly failover: Failover;
}

export interface SenderOptions {
  readonly clock: Clock;
  readonly claimed: Pick<ClaimedBytes, "release">;
  readonly wires: ModelClients;
  readonly money: ItemMoney;
  readonly models: ModelLanes;
  readonly lanes: SenderLanes;
  readonly trials: KeyTrials;
  /** Whether items of runs, in their journals, and posted ones, in the work log, are sent side by side. */
  readonly hasTwoLogs: () => boolean;
  readonly observer?: EngineObserver | undefined;
  readonly patience: ItemPatience;
  readonly loads: ItemLoads;
}

/** One for an engine; `dispatcher` is set once, right after construction, because the two know each other. */
export class Sender implements AdmitAttempt<ItemCall> {
  dispatcher: Dispatcher<ItemCall> | undefined;
  readonly #options: SenderOptions;
  readonly models: ModelLanes;
  readonly money: ItemMoney;
  readonly loads: ItemLoads;
  readonly failover: Failover;
  readonly #access: RefusedAccess;
  /** For the dispatcher of an engine that hedges. */
  readonly secondAttempts: SecondAttempts;

  constructor(options: SenderOptions) {
    this.#options = options;
    const { clock, lanes } = options;
    this.money = options.money;
    this.loads = options.loads;
    this.models = options.models;
    this.failover = lanes.failover;
    this.secondAttempts = new SecondAttempts({
      nowMs: () => clock.nowMs(),
      laneOf: (key) => lanes.of(key),
      place: (call) => this.models.place(call),
      returnMoney: (call) => options.money.giveBack(call),
      free: (call, lane) => this.#free(call, lane),
      recordClosed: (call) => recordClosed(call, call.failed ?? madeOf(call), false),
    });
    this.#access = new RefusedAccess({
      clock,
      models: this.models,
      trials: options.trials,
      laneOf: (key) => lanes.of(key),
      lanesOf: (provider) => lanes.lanesOf(provider),
      onChange: (lane) => lanes.freed(lane),
    });
  }

  /** Reads what a provider sent, as the answer to a request for the model. */
  decode(model: string, answer: WireAnswer): Decoded {
    return this.#options.wires.of(model).provider.decode(answer);
  }

  /** Whether a provider has ever answered with success in this process. */
  hasAnswered(provider: string): boolean {
    return this.#access.hasAnswered(provider);
  }

  prepare(ticket: ShardTicket, index: number, end: number): ItemCall | undefined {
    const { owner, shard } = ticket;
    if (!owner.isOpen || !owner.items.isOpen(shard.lines[index] as number)) {
      owner.items.waitingItems = Math.max(0, owner.items.waitingItems - 1);
      return undefined; // its run ended while the shard was on its way here, and its rest ended with it
    }
    const wire = this.#options.wires.of(shard.model, shard.group.endpoint);
    const terms = this.models.place(ticket);
    const { limits } = this.#options.lanes.of(terms.key);
    const count = joinedItems(owner, shard, { index, end, limits });
    return new ItemCall(owner, shard, index, wire, this.loads.reserved(shard, index, count), terms, count);
  }

  takesAway(call: ItemCall, lane: LaneKey): boolean {
    if (isBroken(call)) return this.#takeApart(call, partsOf(call));
    if (call.isSkipped) {
      call.claim();
      this.#end(call, call, "cancelled");
      return true;
    }
    if (call.leavesFailed() || call.owner.items.dropsTwin(call.line) || this.failover.takes(call))
      return true;
    const terms = this.models.place(call);
    if (terms.key === lane) return false;
    call.lane = terms;
    this.#options.lanes.of(terms.key).giveBack(call);
    return true;
  }

  /** Several items wait for their turn again, in parts. */
  #takeApart(call: ItemCall, parts: readonly CallPart[]): true {
    const { key } = this.models.place(call);
    for (const part of parts) this.#options.lanes.of(key).giveBack(callAgain(call, part, this));
    return true;
  }

  hold(call: ItemCall, reason: "cap_reached" | "price_unknown"): void {
    const { owner, model, count } = call;
    if (count > 1 && reason === "cap_reached" && this.#takeApart(call, halvesOf(call))) return;
    owner.items.waitingItems -= count;
    const held: HeldLines =
      reason === "cap_reached" ? { reason, ...this.#options.money.capLack(call) } : unpriced(model);
    owner.items.hold(held, count, this.#options.clock.nowMs());
    if (held.mostUsd !== undefined) owner.settings.budget.want(held.mostUsd, count);
    owner.changed();
  }

  /** A shard arrived whose provider has no key. Its lines are read again when the run is called with one. */
  holdKeyless(owner: ItemOwner, shard: Shard, message: string): void {
    const { provider } = this.models.of(shard.model);
    owner.items.hold({ reason: "key_missing", provider, message }, shard.count, this.#options.clock.nowMs());
    const mostUsd = this.#options.money.mostUsdOf(shard);
    if (mostUsd !== undefined) owner.settings.budget.want(mostUsd, shard.count);
  }

  send(call: ItemCall): void {
    call.owner.items.requestsSent += 1;
    this.#access.sending(call);
    if (this.dispatcher === undefined) throw new Error("the sender has no dispatcher");
    this.dispatcher.run(call).then(
      (result) => this.#ended(call, result),
      (error: unknown) => {
        this.#options.claimed.release(call);
        for (const line of call.lines) call.owner.items.claimed.delete(line); // in doubt: its state is not known
        call.isOver = true;
        this.#freeAll(call);
        call.owner.fail(faultOfCall(error));
      },
    );
  }

  /** A call is not sent: its run left, or its lane was stopped. The item waits for the next time. */
  giveUp(call: ItemCall): void {
    this.#ended(call, {
      kind: "returned",
      reason: "stopped",
      ...madeOf(call),
      usage: NO_USAGE,
      message: "",
    });
  }

  /** Admission: a retry passes limits, money and the journal again. */
  admit(call: ItemCall, made: Made): Promise<void> {
    const { owner } = call;
    if (!owner.isOpen || call.isSkipped) return Promise.reject(new RunStopped());
    if (call.leavesInHalves()) return Promise.reject(new Error("its items are sent in halves"));
    if (this.failover.leaves(call)) return Promise.reject(new Error("it leaves for another model"));
    const lane = this.#options.lanes.of(this.models.place(call).key);
    const admitted = lane.admitAgain(call, made.attempts + 1, made.ambiguousAttempts);
    owner.changed(); // it may wait in a lane that is stopped now
    return admitted.then(() => {
      for (const line of call.lines) owner.items.retrying.delete(line);
      owner.items.requestsSent += 1;
    });
  }

  /** Admission: after each attempt, before any retry. */
  attempted(ended: ItemCall, result: AttemptResult): boolean {
    const nowMs = this.#options.clock.nowMs();
    const { permit, item: call } = ended;
    const lane = this.#options.lanes.of(ended.lane.key);
    noteLargeBytes(ended.bodyBytes);
    const { code, latencyMs } = result;
    if (isUnsent(result)) call.owner.items.requestsSent -= 1;
    const { observer, patience } = this.#options;
    tellAttempt(observer, ended, result);
    debug.attempts?.(
      `line ${call.line} of ${call.owner.id}: ${code ?? "answered"} by ${ended.lane.key} after ${latencyMs.toFixed(1)} ms`,
    );
    if (permit !== undefined) lane.limits.settle(nowMs, permit, tokensTaken(result));
    if (result.ofTier !== undefined || code === "media_unreadable")
      return this.#failedAside(ended, result, lane);
    const failedAfterMs = patience.failedAfterMs(call, result);
    const blamed = lane.health.blames(call, result, failedAfterMs, this.#access.blameFor(call, result));
    const isOwn = this.#access.isOwn(call, result, blamed === "item");
    const saysMore = patience.learn(call, result) && blamed !== "chance";
    if (saysMore && (!isOwn || suspectsOf(result) === "item"))
      lane.health.observe(call, signalOf(result), permit);
    if (result.learnt !== undefined)
      lane.limits.learn(nowMs, result.learnt, signalOf(result).kind === "rate_limited");
    this.#options.money.account(ended, result);
    if (result.class === "success" || result.class === "unfit") this.#answered(ended, result, lane);
    if (result.class === "success") return true;
    const other = besideOf(ended);
    const { message, status: httpStatus = 0 } = result;
    call.lastFailure = { code: code ?? "provider_error", httpStatus };
    call.failedInOffer = ended.offer !== undefined && goesToRealtime(result);
    if (result.class !== "permanent" || other !== undefined) this.#close(call, result, isOwn, other);
    if (result.class !== "permanent" && other === undefined)
      for (const line of call.lines)
        call.owner.items.retrying.set(line, { call, code: code ?? "provider_error", message });
    if (isOwn) {
      lane.health.ended(call);
      lane.offers?.refused(call);
    } else lane.health.failed(call, result);
    if (isOwn && suspectsOf(result) === "item") lane.health.healed();
    if (!isOwn) this.#access.refused(call, result);
    if (ended.isSecond) call.second = undefined;
    this.#free(ended, lane);
    if (result.class === "unfit") call.askAgain(result);
    if (result.class !== "ambiguous" && other === undefined) call.isLeaving = this.failover.leaves(call);
    if (!isOwn) call.owner.changed(); // what holds it may be all that is left, long before its next attempt
    return isOwn;
  }

  /** Admission: at the first part of an answer its lane may have more places. */
  begun({ lane: { key }, permit }: ItemCall): void {
    const lane = this.#options.lanes.of(key);
    if (permit !== undefined) lane.limits.begun(this.#options.clock.nowMs(), permit);
    this.#options.lanes.freed(lane);
  }

  #answered(ended: ItemCall, result: AttemptResult, lane: Lane): void {
    const { item: call } = ended;
    this.#access.answered(call, result);
    lane.health.healed();
    this.#options.lanes.answered(lane);
    lane.offers?.answered(call, result);
    if (call.offer === undefined) lane.pace.answered(result.latencyMs / call.count);
    this.loads.answered(call, result);
    ended.cacheUse?.answered(result.usage?.isEstimated === false ? result.usage : undefined);
  }

  /** A cheaper tier is to blame, or a file that the item names: that says nothing of the lane. */
  #failedAside(ended: ItemCall, result: AttemptResult, lane: Lane): boolean {
    const { item: call } = ended;
    const { code = "overloaded", message, status: httpStatus = 0, ofTier } = result;
    const [other, isOwn] = [besideOf(ended), ofTier === undefined && result.isOfPlace !== true];
    const isOver = isOwn && result.class === "permanent";
    this.#options.patience.learn(call, result);
    this.money.account(ended, result);
    call.lastFailure = { code, httpStatus };
    if (!isOver || other !== undefined) this.#close(call, result, isOwn, other);
    if (!isOver && other === undefined)
      for (const line of call.lines) call.owner.items.retrying.set(line, { call, code, message });
    if (ofTier !== undefined) lane.offers?.failed(call, ofTier);
    if (ended.isSecond) call.second = undefined;
    this.#free(ended, lane);
    return isOwn;
  }

  /** Records the end of an attempt, so that a crash before the next one leaves nothing in doubt but the `other` one under way. */
  #close(call: ItemCall, result: AttemptResult, isOwn: boolean, other: ItemCall | undefined): void {
    call.failed = madeAfter(call.failed ?? madeOf(call), result, isOwn);
    if (call.owner.phase === "done") return;
    recordClosed(call, call.failed, false);
    if (other !== undefined) stateAnew(other);
  }

  #ended(call: ItemCall, result: DispatchResult): void {
    const { owner } = call;
    call.isOver = true;
    for (const line of call.lines) owner.items.retrying.delete(line);
    this.#options.claimed.release(call);
    this.#options.lanes.of(call.lane.key).health.ended(call);
    if (owner.phase === "done") {
      this.#freeAll(call); // it arrived after its run had stopped waiting: in doubt, as after a crash
      return;
    }
    const halved = halvedOf(call, result);
    if (result.kind === "outcome" && halved === undefined) {
      owner.settings.fit.kept.remove(call.line);
      // After its outcome: the item that gets the place is recorded after it, and sent after that, unless two logs are at work.
      const isMixed = this.#options.hasTwoLogs();
      recordOutcome(call, result.outcome, () => {
        if (isMixed) this.#freeAll(call);
        owner.changed();
      });
      if (!isMixed) this.#freeAll(call);
      return;
    }
    this.#freeAll(call);
    this.#keep(call, halved ?? madeOf(result as Made), halved === undefined ? partsOf(call) : halvesOf(call));
    owner.changed();
  }

  /** An item whose call ended without an outcome: kept for later, or ended with its run. */
  #keep(call: ItemCall, made: Made, parts: readonly CallPart[]): void {
    const { owner } = call;
    // Its intent is durable: without a record of its end the next call would take it for sent, and perhaps answered.
    const isIntended = call.isUnsent && (owner.isOpen || owner.phase === "stopping");
    if (made.attempts > 0 || isIntended) recordClosed(call, made, true);
    for (const part of parts) {
      const status = owner.isOpen && part.isSkipped ? "cancelled" : owner.phase;
      if (status === "expired" || status === "cancelled" || status === "giving_up")
        this.#end(call, part, status);
      else this.#keepPart(call, part, call.attempts < made.attempts);
    }
  }

  #keepPart(call: ItemCall, part: CallPart, wasTried: boolean): void {
    const { owner } = call;
    const again = callAgain(call, part, this);
    for (const line of again.lines) owner.items.claimed.delete(line);
    if (!owner.isOpen) return;
    owner.items.waitingItems += part.count;
    if (this.failover.takes(again, wasTried)) return;
    this.#options.lanes.of(again.lane.key).giveBack(again);
  }

  /** Ends an item that is not sent, or not again. */
  #end(
    call: ItemCall,
    part: Pick<CallPart, "index" | "count">,
    status: "expired" | "cancelled" | "giving_up",
  ): void {
    const { owner, model } = call;
    recordUnsent(call, part, endOf(owner, status, model), () => owner.changed());
  }

  #freeAll(call: ItemCall): void {
    const { second } = call;
    this.#free(call, this.#options.lanes.of(call.lane.key));
    if (second?.isRequested !== false) return; // it is released when it is known whether it was admitted
    call.second = undefined;
    this.#free(second, this.#options.lanes.of(second.lane.key));
  }

  #free(call: ItemCall, lane: Lane): void {
    if (call.permit === undefined) return;
    lane.release(call, call.permit);
    call.permit = undefined;
    freeCache(call);
    call.owner.items.inFlight -= 1;
    this.#options.lanes.freed(lane);
  }
}
