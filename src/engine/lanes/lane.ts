/**
 * A lane at work: asks whose turn it is, asks the limits, makes the intent durable, sends.
 *
 *   whose turn (lane_projects.ts) -> their next item (lane_items.ts) --money and limits say yes--> intent -> durable -> sent
 *   retry asked -> the same again;  would be answered after its deadline -> set aside (queue/latency.ts)
 *   durable, but the disk is full by now -> waits here for space -> intent again, or given back (lane_intents.ts)
 *
 * Where a provider's lanes wait for what they share, each asks for it in its turn (lane_turns.ts).
 *
 * `pump` runs until something says wait, and then knows who wakes it: a timer (limits), a release (places, money),
 * a shard (backlog) or space on the disk. It never waits itself. Hot path: about 2 us an item (bench/jobs/engine.ts).
 */

import type { Timer } from "../../clock.ts";
import { debug } from "../../debug.ts";
import type { LaneLimits, Permit, Reservation } from "../../limits/limits.ts";
import type { RemoteKind } from "../../providers/batches/batch_wire.ts";
import { AnswerPace } from "../../queue/answer_pace.ts";
import type { LaneKey, LaneTerms } from "../../queue/lanes.ts";
import type { Urgency } from "../../queue/urgency.ts";
import type { Backlog, ShardTicket } from "../items/backlog.ts";
import type { ClaimedBytes } from "../items/claimed_bytes.ts";
import type { ItemCall } from "../items/item_call.ts";
import type { MoneyAnswer } from "../items/item_money.ts";
import type { ItemOwner } from "../items/item_owner.ts";
import type { TakenOffer } from "../items/taken_offer.ts";
import type { LaneOffers } from "../offers/lane_offers.ts";
import { PassedOver } from "../offers/passed_over.ts";
import type { KeyTrials } from "./key_trials.ts";
import { LaneHealth } from "./lane_health.ts";
import { type Intended, type IntentServices, LaneIntents, retryRefusal } from "./lane_intents.ts";
import { type LaneCalls, type LaneItems, type Retry, type RunWaiting, shardsOf } from "./lane_items.ts";
import { LaneProjects } from "./lane_projects.ts";
import type { LaneTurns } from "./lane_turns.ts";

/** Items that a lane keeps open, of runs with money, so that it never waits for a shard to be loaded; split by projects. */
const READY_ITEMS = 1_024;

const MONEY_HOLDS = { exhausted: "cap_reached", unpriced: "price_unknown" } as const;

/** A lane's way to the rest of the engine. */
export interface LaneServices extends IntentServices, LaneCalls {
  readonly backlog: Backlog;
  /** Those of the provider's lanes. */
  readonly turns: LaneTurns;
  /** Of its key and its model. */
  readonly trials: Pick<KeyTrials, "isTrial" | "waitMs" | "sent">;
  /** Which work has precedence in the lane, if work with deadlines waits. */
  urgency(): Urgency | undefined;
  /** Bounds the memory of what was taken. */
  readonly claimed: Pick<ClaimedBytes, "isFull" | "take">;
  readonly offers?: LaneOffers | undefined;
  /** Whether an item must not be sent here: its line is cancelled and settled, or its model has moved to another lane. */
  takesAway(call: ItemCall, lane: LaneKey): boolean;
  /** Whether a shard was passed to another lane, because its model has moved there. */
  movesOn(ticket: ShardTicket, lane: LaneKey): boolean;
  /** Money for one attempt, or for a batch: `wait` until others settle, `exhausted`, or `unpriced` when nobody knows what it may cost. */
  reserveMoney(call: ItemCall, tier?: RemoteKind): MoneyAnswer;
  /** An item goes with a batch; its money is reserved. */
  batch(call: ItemCall, kind: RemoteKind): void;
  /** Loads a dropped shard's bytes again; on failure it has notified the run. */
  reload(ticket: ShardTicket): Promise<boolean>;
  /** Says whether the lane waits for money that others may release; `hasSent` since it last said so. */
  setMoneyless(isMoneyless: boolean, hasSent: boolean): void;
  /** An item waits until the caller changes its cap or its prices. */
  hold(call: ItemCall, reason: "cap_reached" | "price_unknown"): void;
}

/** What a lane has of one run. */
export interface LaneShare {
  /** Claimed lines that wait for their next attempt, or are out to probe. */
  readonly claimed: number;
  /** Items that wait here and nobody has claimed. */
  readonly waiting: number;
  /** Whether there may be such items that are being loaded. */
  readonly hasMore: boolean;
}

export class Lane {
  readonly terms: LaneTerms;
  readonly limits: LaneLimits;
  readonly health: LaneHealth;
  readonly pace: AnswerPace = new AnswerPace();
  readonly #services: LaneServices;
  readonly #projects: LaneProjects;
  readonly #intents: LaneIntents;
  /** As found since `pump` was called. */
  readonly #passedOver: PassedOver;
  #timer: Timer | undefined;
  #isPumping = false;
  #isBlocked = false;
  /** Whether it waits for a place in flight. */
  #isOutOfPlaces = false;
  /** Whether it waits for what it shares with other lanes, or for its turn to ask for it. */
  #isWaiting = false;
  #hasSent = false;

  constructor(terms: LaneTerms, limits: LaneLimits, services: LaneServices) {
    const { key } = terms;
    this.terms = terms;
    this.limits = limits;
    this.health = new LaneHealth(key, services.clock, limits);
    this.#services = services;
    this.#intents = new LaneIntents(key, limits, services);
    this.#passedOver = new PassedOver(services.clock, () => this.pump());
    const shards = shardsOf(services.backlog, key, this.#passedOver.runs, services);
    this.#projects = new LaneProjects(limits, services.turns, shards, services, {
      moneyless: this.#passedOver.runs,
      readyMax: () => READY_ITEMS / this.#projects.size,
      urgency: services.urgency,
      isAnswering: () => this.hasAnswered && this.health.trouble === undefined,
      isAsking: () => limits.paused.isAsking || services.trials.isTrial(key),
      loaded: () => this.pump(),
    });
  }

  /** Cheaper than realtime; undefined for a lane without any. */
  get offers(): LaneOffers | undefined {
    return this.#services.offers;
  }

  /** See LaneTurns. */
  get places(): number {
    return this.limits.places;
  }

  /** See LaneTurns. */
  canSend(project: string): boolean {
    return this.#projects.canSend(project);
  }

  /** See LaneTurns. */
  isFirst(project: string, urgency: Urgency, isLending: boolean): boolean {
    return this.#projects.isFirst(project, urgency, isLending);
  }

  /** See LaneTurns. */
  inFlightOf(project: string): number {
    return this.#projects.find(project)?.inFlight ?? 0;
  }

  /** A shard of a run arrived in the backlog for this lane. */
  arrived(owner: ItemOwner): void {
    this.#projects.of(owner);
    if (this.#passedOver.stay()) this.takeTurn();
    else this.pump();
  }

  /** A place that it shares is free again. */
  freed(): void {
    this.#services.turns.changed();
  }

  /** Sends as much as may be sent now. Safe to call at any time, also from what it calls. */
  pump(): void {
    if (this.#isPumping) return;
    this.#passedOver.clear();
    this.takeTurn();
  }

  /** As `pump`, without the runs that were found without money since its last call. */
  takeTurn(): void {
    if (this.#isPumping) return;
    this.#isPumping = true;
    this.#hasSent = false;
    if (this.#services.mayAdmit(true)) this.#intents.recordAgain();
    this.#projects.sharePlaces(this.#isOutOfPlaces);
    try {
      for (let hasMoved = true; hasMoved; ) {
        this.#isBlocked = this.#isWaiting = false;
        hasMoved = this.#step();
        if (hasMoved) this.#services.turns.changed();
      }
    } finally {
      this.#isPumping = false;
    }
    if (!this.#isBlocked) this.#isOutOfPlaces = false;
    const { backlog, turns } = this.#services;
    if (!this.#isWaiting) turns.left(this);
    this.#services.setMoneyless(this.#passedOver.lacksMoney, this.#hasSent);
    const isShort = !backlog.isWaiting(this.terms.key) && !this.#projects.hasReady(READY_ITEMS / 2);
    backlog.setIdle(this.terms.key, isShort && !this.limits.isPaused);
    turns.pass(this);
  }

  /** Resolves when another attempt was admitted and its intent is durable. */
  admitAgain(call: ItemCall, attempt: number, ambiguousAttempts: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#projects.of(call.owner).addRetry({ call, attempt, ambiguousAttempts, resolve, reject });
      this.pump();
    });
  }

  /** Withdraws a second attempt that waits for its turn, or whose intent is being recorded. */
  withdraw(call: ItemCall): void {
    if (this.#projects.withdraw(call)) this.pump();
    else this.#intents.withdraw(call);
  }

  /** Moving mean of what one answer takes, in milliseconds. */
  get itemMs(): number {
    return this.pace.itemMs;
  }

  /** Whether `itemMs` was measured. */
  get hasAnswered(): boolean {
    return this.pace.hasAnswered;
  }

  /** Projects of which something waits. */
  get waitingProjects(): number {
    return this.#projects.size;
  }

  /** What was read and not sent; a run may occur several times. */
  *waiting(): Generator<RunWaiting> {
    yield* this.#services.backlog.loads(this.terms.key);
    yield* this.#projects.loads();
  }

  /** Whether something of a run was read and not sent. */
  hasWaiting(owner: ItemOwner): boolean {
    for (const waiting of this.waiting()) if (waiting.owner === owner) return true;
    return false;
  }

  /** Keeps an item for later. */
  giveBack(call: ItemCall): void {
    this.#projects.of(call.owner).giveBack(call);
    this.pump();
  }

  /** The attempt of a call is over: its place is free. */
  release(call: ItemCall, permit: Permit): void {
    const nowMs = this.#services.clock.nowMs();
    this.limits.release(nowMs, permit);
    call.offer?.freed(nowMs - permit.atMs);
    call.offer = undefined;
    this.#projects.released(call);
  }

  /** Forgets what waits of a run that no longer sends; retries in wait are rejected with `reason`. */
  drop(owner: ItemOwner, reason: unknown): void {
    const items = this.#projects.find(owner.settings.project);
    for (const retry of items?.drop(owner) ?? []) retry.reject(reason);
    if (items !== undefined) this.#projects.tidy(items);
    this.#intents.drop(owner);
  }

  /** What this lane has of a run that waits, or that continues only when a probe succeeds. */
  shareOf(owner: ItemOwner): LaneShare {
    const items = this.#projects.find(owner.settings.project);
    const retries = items?.retriesOf(owner) ?? [];
    let waiting = -retries.length;
    for (const load of this.waiting()) if (load.owner === owner) waiting += load.items;
    const hasMore = waiting > 0 || items?.holds(owner) === true;
    return { claimed: this.health.claimedOf(owner, retries), waiting, hasMore };
  }

  close(): void {
    this.#timer?.cancel();
    this.#passedOver.close();
  }

  /** Moves one item on; false when the lane must wait. */
  #step(): boolean {
    if (!this.#services.mayAdmit(false)) return false;
    const items = this.#next();
    if (items === undefined) return false;
    const { retry } = items;
    const { isFull } = this.#services.claimed;
    const isRetry = retry !== undefined && !this.health.isPoorProbe(retry.call);
    const call = isRetry || isFull ? undefined : items.candidate();
    if (call === undefined) {
      if (retry !== undefined) return this.#stepRetry(items, retry);
      if (!isFull) this.#projects.tidy(items);
      return false;
    }
    if (this.#services.takesAway(call, this.terms.key)) {
      items.claimed();
      return true;
    }
    if (this.#services.isTooLate(call))
      return items.tooLate(call) || this.#passedOver.withoutMoney(call, items);
    if (this.#passedOver.runs.has(call.owner.id)) return this.#passedOver.add(call, items);
    const place = this.#services.offers?.place(call);
    if (place?.is === "wait") return this.#passedOver.forOffer(place.waitMs, call, items);
    const batched = place?.is === "batch" ? place.kind : undefined;
    const money = this.#services.reserveMoney(call, batched);
    if (money === "wait") return this.#passedOver.withoutMoney(call, items);
    if (money !== "ok") {
      items.claimed();
      this.#services.hold(call, MONEY_HOLDS[money]);
      return true;
    }
    if (batched !== undefined) return this.#batch(items, call, batched);
    const taken = place?.is === "taken" ? place.taken : undefined;
    if (!this.#reserveLimits(call, taken)) return false;
    this.#claim(items, call);
    this.#admitted(items, call);
    const { attempts, ambiguousAttempts } = call;
    this.#intend({ call, attempt: attempts + 1, ambiguousAttempts, retry: undefined });
    return true;
  }

  #stepRetry(items: LaneItems, retry: Retry): boolean {
    const { call, attempt, ambiguousAttempts } = retry;
    const refusal = retryRefusal(call, this.#services);
    if (refusal !== undefined) return rejected(items, retry, refusal);
    const place = call.isSecond ? undefined : this.#services.offers?.place(call);
    if (place?.is === "wait") return this.#passedOver.forOffer(place.waitMs, call);
    if (place?.is === "batch") return rejected(items, retry, "it goes with a batch"); // it is taken again, and goes as fresh
    const taken = place?.is === "taken" ? place.taken : undefined;
    const isInTrouble = this.limits.isPaused || this.limits.isDown;
    const money = call.isSecond && isInTrouble ? "wait" : this.#services.reserveMoney(call);
    if (call.isSecond && money !== "ok") return rejected(items, retry, "only the first attempt continues");
    if (money === "exhausted" || money === "unpriced")
      return rejected(items, retry, "no money is left for another attempt"); // it is taken again, and is refused as fresh
    if (money === "wait") return this.#passedOver.withoutMoney(call);
    if (!this.#reserveLimits(call, taken)) return false;
    items.removeRetry(retry);
    this.#admitted(items, call);
    this.#intend({ call, attempt, ambiguousAttempts, retry });
    return true;
  }

  /** It takes no limits and no place: the batch has its own. */
  #batch(items: LaneItems, call: ItemCall, kind: RemoteKind): true {
    items.claimed();
    call.claim();
    call.lane = this.terms;
    this.#services.batch(call, kind);
    return true;
  }

  #claim(items: LaneItems, call: ItemCall): void {
    items.claimed();
    this.#services.claimed.take(call);
    call.claim();
  }

  /** Whose item is next; undefined when nobody has one, or it is another lane's turn to ask for what is shared. */
  #next(): LaneItems | undefined {
    const { turns } = this.#services;
    if (!turns.isContended(this)) return this.#projects.next();
    const own = this.#projects.next();
    if (own === undefined || !this.#projects.canSend(own.project)) return own;
    this.#isWaiting = true;
    turns.wait(this);
    const project = turns.projectFor(this);
    this.#isBlocked = project === undefined;
    return project === undefined ? undefined : this.#projects.find(project);
  }

  #admitted(items: LaneItems, call: ItemCall): void {
    if (this.#isWaiting) this.#projects.servedInTurn(items, this, call);
    else this.#projects.served(items, call);
  }

  #reserveLimits(call: ItemCall, offer: TakenOffer | undefined): boolean {
    const { clock, turns } = this.#services;
    const nowMs = clock.nowMs();
    const trialMs = this.#services.trials.waitMs(this.terms.key, nowMs);
    const taken: Reservation =
      trialMs > 0
        ? { ok: false, waitMs: trialMs, reason: "requests" }
        : this.limits.reserve(nowMs, call.load);
    if (taken.ok) {
      this.#services.trials.sent(this.terms.key, nowMs);
      call.permit = taken.permit;
      call.lane = this.terms;
      call.offer = offer;
      if (offer !== undefined) this.#services.offers?.sent(call);
      return true;
    }
    debug.limits?.(`${this.terms.key} waits ${Math.ceil(taken.waitMs)} ms: ${taken.reason}`);
    this.#isOutOfPlaces = taken.reason === "concurrency";
    this.#isWaiting = trialMs === 0 && this.limits.isHeldByShared;
    if (this.#isWaiting) turns.wait(this, this.#isOutOfPlaces);
    this.#services.returnMoney(call);
    this.#timer?.cancel();
    this.#timer = Number.isFinite(taken.waitMs) ? clock.timer(taken.waitMs, () => this.pump()) : undefined;
    this.#isBlocked = this.#timer === undefined;
    return false;
  }

  #intend(intended: Intended): void {
    const { call } = intended;
    call.owner.items.inFlight += 1;
    this.#hasSent = true;
    this.health.sending(call);
    this.#intents.record(intended);
  }
}

function rejected(items: LaneItems, retry: Retry, why: string): true {
  items.removeRetry(retry);
  retry.reject(new Error(why));
  return true;
}
