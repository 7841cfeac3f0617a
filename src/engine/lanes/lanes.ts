/**
 * The lanes of an engine: made when a model first needs one, kept for the engine's life.
 */
import type { Clock } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import type { LaneLimits } from "../../limits/limits.ts";
import type { FactsChange } from "../../limits/shared/lane_facts.ts";
import { NO_WORK, type WorkStanding } from "../../limits/shared/shared_work.ts";
import { type DueLoad, NO_LOAD, type SharedLoad } from "../../queue/due_work.ts";
import type { LaneKey } from "../../queue/lanes.ts";
import type { Urgency } from "../../queue/urgency.ts";
import { parseModelId } from "../../work/request.ts";
import type { CheaperLanes } from "../batches/cheaper_lanes.ts";
import type { EngineConfig } from "../config/config.ts";
import { ArmedClock } from "../items/armed_clock.ts";
import type { Backlog, ShardTicket } from "../items/backlog.ts";
import { singlesOf } from "../items/call_records.ts";
import type { ClaimedBytes } from "../items/claimed_bytes.ts";
import { type HeldEnd, type HoldReason, NO_HOLDS, type RunHolds } from "../items/holds.ts";
import { freeCache } from "../items/item_call.ts";
import type { ItemOwner } from "../items/item_owner.ts";
import type { ItemPatience } from "../items/patience.ts";
import { RunStopped } from "../items/run_stopped.ts";
import type { LaneRecord } from "../journal/journal.ts";
import type { ProviderLimits } from "../limits/provider_limits.ts";
import { batchedElsewhere, elsewhereOf, type Now } from "../limits/work_elsewhere.ts";
import { LanePrefixes } from "../prefixes/lane_prefixes.ts";
import { Urgencies } from "./forecasts.ts";
import type { KeyTrials } from "./key_trials.ts";
import { Lane } from "./lane.ts";
import { LaneTurns } from "./lane_turns.ts";
import { modelOfHeld } from "./model_lanes.ts";
import { lacksMoney } from "./money_forecast.ts";
import { holdsOf } from "./run_holds.ts";
import type { Sender } from "./sender.ts";
import { LaneForecasts } from "./work_times.ts";

/** A window of the limits, and a second for clocks: what was sent longer ago counts no more. */
export const LIMITS_WINDOW_MS = 61_000;

export interface LanesOptions {
  readonly clock: Clock;
  readonly config: EngineConfig;
  readonly backlog: Backlog;
  readonly sender: Sender;
  readonly trials: KeyTrials;
  readonly patience: ItemPatience;
  readonly mayAdmit: (isRecorded: boolean) => boolean;
  readonly claimed: ClaimedBytes;
  readonly cheaper: CheaperLanes;
  readonly limits: ProviderLimits;
  /** Called when a lane is held, for another reason, or no longer. */
  readonly onHold: () => void;
}

export class Lanes {
  readonly #options: LanesOptions;
  readonly #lanes = new Map<LaneKey, Lane>();
  readonly #trials: KeyTrials;
  readonly forecasts: LaneForecasts;
  readonly #urgencies: Urgencies;
  readonly #turns = new Map<string, LaneTurns>();
  /** Lanes that wait for money, longest first: what one frees may be what another waits for. */
  readonly #moneyless = new Set<Lane>();
  /** Lanes in trouble, as they were found last. */
  readonly #held = new Map<Lane, HoldReason>();
  readonly #clocks = new Map<Lane, ArmedClock>();
  /** The waits of items for their next attempt; meanwhile they are in no other queue. */
  readonly retries: ArmedClock;
  /** Shards that are being loaded again. */
  #reloading = 0;

  constructor(options: LanesOptions) {
    this.#options = options;
    this.#trials = options.trials;
    this.retries = new ArmedClock(options.clock);
    const { clock, sender, limits } = options;
    const elsewhere = elsewhereOf(limits, () => nowOf(clock));
    this.#urgencies = new Urgencies(elsewhere);
    this.forecasts = new LaneForecasts({
      nowMs: () => clock.nowMs(),
      of: (key) => this.of(key),
      all: () => this.#lanes.values(),
      lanesOf: (provider) => this.lanesOf(provider),
      limitsOf: (provider) => limits.shared(provider),
      hasShared: (provider) => limits.areShared(provider),
      ...{ elsewhere, sender },
    });
  }

  /** Undefined for one that nothing has needed. */
  find(key: LaneKey): Lane | undefined {
    return this.#lanes.get(key);
  }

  of(key: LaneKey): Lane {
    const known = this.#lanes.get(key);
    if (known !== undefined) return known;
    const { clock, backlog, sender, patience, claimed, mayAdmit } = this.#options;
    const armed = new ArmedClock(clock);
    const terms = sender.models.termsOf(key);
    const prefixes = new LanePrefixes(this.#options.cheaper.batches.caching, () => ({
      clock: armed,
      pace: lane.pace,
      pump: () => lane.pump(),
      drainMs: (deadlineMs) => this.forecasts.drainMs(lane, deadlineMs, { beside: NO_LOAD }),
      raiseForHour: (call) => sender.money.raiseForHour(call),
    }));
    const lane: Lane = new Lane(terms, this.#options.limits.of(terms), {
      clock: armed,
      backlog,
      turns: this.#turnsOf(terms.provider),
      urgency: () => this.#urgencies.of(lane.limits, measuredItemMs([lane]), () => [lane], clock.nowMs()),
      mayAdmit,
      claimed,
      trials: this.#trials,
      offers: this.#options.cheaper.of({
        ...{ terms, clock: armed },
        places: () => lane.places,
        drainMs: (deadlineMs, load) => this.forecasts.drainMs(lane, deadlineMs, load),
      }),
      prepare: (ticket, index, end) => sender.prepare(ticket, index, end),
      isTooLate: (call) => patience.isTooLate(call),
      leaves: (call) => sender.failover.leaves(call),
      isHeld: (ticket) => prefixes.isHeld(ticket),
      isHolding: () => prefixes.isHolding,
      takesAway: (call, from) => sender.takesAway(call, from),
      movesOn: (ticket, from) => this.#movesOn(ticket, from),
      reserveMoney: (call, tier) => {
        const money = sender.money.reserve(call, tier);
        if (money === "ok" && tier === undefined) prefixes.chosen(call);
        return money;
      },
      batch: (call, kind) => this.#options.cheaper.batches.take(call, kind, singlesOf(call, sender)),
      returnMoney: (call) => {
        freeCache(call);
        sender.money.giveBack(call);
      },
      reload: (ticket) => this.#reload(ticket),
      setMoneyless: (isMoneyless, hasSent) => this.#setMoneyless(lane, isMoneyless, hasSent),
      send: (call) => {
        this.#lookForHold(lane); // the first probe of a lane that an earlier process has found stopped
        sender.send(call);
      },
      giveUp: (call) => sender.giveUp(call),
      hold: (call, reason) => sender.hold(call, reason),
    });
    const itemMs = this.#options.limits.kept.restore(clock.nowMs(), terms, lane.limits);
    if (itemMs !== undefined) lane.pace.itemMs = itemMs;
    this.#lanes.set(key, lane);
    this.#clocks.set(lane, armed);
    this.#turnsOf(terms.provider).add(lane);
    return lane;
  }

  /** A lane was answered with success: where its key was new, the provider's other lanes may go as well. */
  answered(lane: Lane): void {
    const { key, provider } = lane.terms;
    if (this.#trials.accepted(key)) for (const other of this.lanesOf(provider)) other.pump();
  }

  /** A lane has a place or money again: it continues, and so does the next in turn of those that wait for what it shares. */
  freed(lane: Lane): void {
    this.#options.limits.kept.ended(lane.limits);
    lane.freed();
    if (this.#moneyless.size > 0) for (const other of [...this.#moneyless]) if (other !== lane) other.pump();
    lane.pump();
    this.#lookForHold(lane); // what takes the free place is not held
  }

  /** Lets all lanes go on, after something that each of them may wait for. */
  pumpAll(): void {
    for (const lane of this.#lanes.values()) lane.pump();
  }

  /** Other processes have stopped a lane, or let it go on. */
  told(limits: LaneLimits, change: FactsChange): void {
    for (const lane of this.#lanes.values()) {
      if (lane.limits !== limits) continue;
      if (change === "held") lane.health.toldToStop();
      if (change === "resumed") lane.health.healed();
      this.#lookForHold(lane);
    }
  }

  /** What waits for the limits of a lane, or of all lanes of a provider, for other processes. */
  standing(limits: LaneLimits, provider: string | undefined): WorkStanding {
    const { clock, cheaper } = this.#options;
    const lanes =
      provider === undefined
        ? [...this.#lanes.values()].filter((lane) => lane.limits === limits)
        : this.lanesOf(provider);
    if (lanes[0] === undefined) return NO_WORK;
    const batched = cheaper.batches.outlooks.batched(lanes[0].terms.key, provider !== undefined);
    return this.#urgencies.standing(limits, measuredItemMs(lanes), () => lanes, batched, nowOf(clock));
  }

  /** What other processes have with batches that needs the limits of a lane, and those of its provider, by a deadline. */
  batchedElsewhere(key: LaneKey, deadlineMs: number): SharedLoad {
    const { clock, limits } = this.#options;
    const { limits: own, terms, pace } = this.of(key);
    const load = (of: LaneLimits): DueLoad =>
      batchedElsewhere(limits.othersOf(of), nowOf(clock), deadlineMs, pace.itemsPerRequest);
    const narrow = load(own);
    const isShared = limits.areShared(terms.provider);
    return { own: narrow, shared: isShared ? load(limits.shared(terms.provider)) : narrow };
  }

  all(): Iterable<Lane> {
    return this.#lanes.values();
  }

  /** The lanes that are held back, for the next process. */
  records(): LaneRecord[] {
    const nowMs = this.#options.clock.nowMs();
    const records: LaneRecord[] = [];
    for (const lane of this.#lanes.values()) {
      const held = lane.limits.heldBack(nowMs);
      const troubleMs = lane.health.lastingMs(nowMs);
      if (held === undefined && troubleMs === undefined) continue;
      const trouble = troubleMs === undefined ? {} : { troubleMs };
      records.push({ lane: lane.terms.key, ...(held ?? { cooldownMs: 0 }), ...trouble });
    }
    return records;
  }

  /** Goes on with what held a lane back in an earlier process `ageMs` ago. */
  goOn({ lane: key, troubleMs, ...held }: LaneRecord, ageMs: number): void {
    const { clock, sender } = this.#options;
    const model = held.pauseReason === "model_unavailable" ? modelOfHeld(key) : undefined;
    const lane = this.of(model === undefined ? key : sender.models.hold(model));
    lane.limits.restoreHeldBack(clock.nowMs(), ageMs, held);
    lane.health.started(troubleMs === undefined ? undefined : troubleMs + ageMs);
    this.#lookForHold(lane);
  }

  /** Lets no lane send for a run any more. */
  drop(owner: ItemOwner): void {
    this.#options.backlog.removeRun(owner);
    owner.items.waitingItems = 0;
    this.#options.cheaper.batches.drop(owner);
    for (const lane of this.#lanes.values()) lane.drop(owner, new RunStopped());
    this.#options.backlog.wake();
  }

  /** What holds the items of a run, as far as lanes know. */
  holdsOf(owner: ItemOwner, isStopping: boolean): RunHolds {
    const { clock, sender, cheaper } = this.#options;
    const { failover } = sender;
    const batched = cheaper.batches.workOf(owner);
    if (this.#held.size === 0 && owner.items.held.size === 0 && batched.troubles.length === 0)
      return NO_HOLDS;
    const hasAnswered = (provider: string): boolean => sender.hasAnswered(provider);
    return holdsOf(owner, this.#lanes.values(), { clock, hasAnswered, isStopping, batched, failover });
  }

  /** How a held item of a model ends where the caller does not want to wait. */
  heldEndOf(model: string): HeldEnd | undefined {
    return this.#lanes.get(this.#options.sender.models.of(model).key)?.health.heldEnd;
  }

  /** Whether nothing of a model is sent but probes, or nothing at all: its provider asked to wait, or it or its key is missing. */
  isStopped(model: string): boolean {
    const { keysMissing, providers } = this.#options.config;
    const { provider } = parseModelId(model) ?? {};
    if (provider === undefined || !providers.some(({ name }) => name === provider)) return true;
    if (keysMissing.has(provider)) return true;
    const lane = this.#lanes.get(this.#options.sender.models.of(model).key);
    if (lane?.health.isUnproven === true) return true;
    return lane !== undefined && this.#held.has(lane) && isStill(lane, this.#options.clock.nowMs());
  }

  /** Whether something of a run waits in a lane from which nothing but probes is sent. */
  isHeldByStop(owner: ItemOwner): boolean {
    if (owner.items.held.size > 0 || lacksMoney(owner, this.#lanes.values())) return true;
    for (const lane of this.#lanes.values()) {
      const { isUnproven } = lane.health;
      if (!isUnproven && !(this.#held.has(lane) && isStill(lane, this.#options.clock.nowMs()))) continue;
      const share = lane.shareOf(owner);
      if (share.claimed > 0 || share.hasMore) return true;
    }
    return false;
  }

  close(): void {
    this.#options.limits.close();
    for (const lane of this.#lanes.values()) lane.close();
  }

  #lookForHold(lane: Lane): void {
    const reason = lane.health.trouble?.reason;
    if (this.#held.get(lane) === reason) return;
    if (reason === undefined) this.#held.delete(lane);
    else this.#held.set(lane, reason);
    this.#options.onHold();
  }

  #movesOn(ticket: ShardTicket, from: LaneKey): boolean {
    if (this.#options.sender.failover.takesShard(ticket.owner, ticket.shard)) return true;
    const { key: lane } = this.#options.sender.models.place(ticket);
    if (lane === from) return false;
    this.#options.backlog.add({ ...ticket, lane });
    this.of(lane).arrived(ticket.owner);
    return true;
  }

  #setMoneyless(lane: Lane, isMoneyless: boolean, hasSent: boolean): void {
    if (!isMoneyless || hasSent) this.#moneyless.delete(lane);
    if (isMoneyless) this.#moneyless.add(lane);
  }

  #turnsOf(provider: string): LaneTurns {
    const known = this.#turns.get(provider);
    if (known !== undefined) return known;
    const { clock } = this.#options;
    const shared = this.#options.limits.shared(provider);
    const lanes = (): Lane[] => this.lanesOf(provider);
    const urgency = (): Urgency | undefined =>
      this.#urgencies.of(shared, measuredItemMs(lanes()), lanes, clock.nowMs());
    const turns = new LaneTurns(urgency);
    this.#turns.set(provider, turns);
    return turns;
  }

  /** Whether rates of a provider are limited for all its lanes together. */
  sharesLimits(provider: string): boolean {
    return this.#options.limits.areShared(provider);
  }

  /** The same for all lanes that share limits: their provider where its rates are limited for all together, else the lane. */
  poolOf(lane: LaneKey): string {
    const { provider } = this.of(lane).terms;
    return this.sharesLimits(provider) ? provider : lane;
  }

  /** The lanes of a provider. */
  lanesOf(provider: string): Lane[] {
    return [...this.#lanes.values()].filter(({ terms }) => terms.provider === provider);
  }

  /**
   * The items of a run in each lane and the state of that lane, as text; undefined while one of them, or of the lanes that share
   * its provider's limits, continues by itself.
   */
  standstill(owner: ItemOwner): readonly string[] | undefined {
    const nowMs = this.#options.clock.nowMs();
    const holding = [...this.#lanes.values()].filter((lane) => isLeftIn(lane, owner));
    const providers = new Set(holding.map(({ terms }) => terms.provider));
    if (this.#options.cheaper.batches.workOf(owner).items > 0) return undefined; // each of them has a timer or a request
    if (this.#options.sender.failover.isMoving(owner)) return undefined;
    if (this.retries.isArmed || this.#reloading > 0 || this.#options.claimed.isFull) return undefined;
    for (const [lane, clock] of this.#clocks) {
      const isNear = providers.has(lane.terms.provider) || owner.settings.budget.isCapped;
      if (isNear && (clock.isArmed || lane.limits.inFlight > 0)) return undefined;
    }
    return holding.map((lane) => {
      const { state, inFlight, inFlightMax } = lane.limits.snapshot(nowMs);
      return `lane ${lane.terms.key} (${state}, ${inFlight} of ${inFlightMax} in flight, no timer)`;
    });
  }

  async #reload(ticket: ShardTicket): Promise<boolean> {
    const { owner, shard } = ticket;
    this.#reloading += 1;
    try {
      await owner.reload(shard);
      return true;
    } catch (error) {
      const cause =
        error instanceof PerigeeError
          ? error
          : new PerigeeError("input_unreadable", "the input cannot be read any more", { cause: error });
      owner.fail(cause);
      return false;
    } finally {
      this.#reloading -= 1;
    }
  }
}

function nowOf(clock: Clock): Now {
  return { nowMs: clock.nowMs(), wallMs: clock.wallMs() };
}

function isStill({ limits }: Lane, nowMs: number): boolean {
  if (limits.isPaused || limits.isDown) return true;
  return limits.inFlight === 0 && limits.cooldownMs(nowMs) > 0;
}

/** The longest of what answers take in any of the lanes; 0 when it was never measured. */
function measuredItemMs(lanes: readonly Lane[]): number {
  return Math.max(0, ...lanes.map((lane) => (lane.hasAnswered ? lane.itemMs : 0)));
}

function isLeftIn(lane: Lane, owner: ItemOwner): boolean {
  const { claimed, hasMore } = lane.shareOf(owner);
  return claimed > 0 || hasMore;
}
