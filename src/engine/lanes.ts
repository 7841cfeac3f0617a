/**
 * The lanes of an engine: made when a model first needs one, kept for the engine's life.
 *
 * Limits that a user sets for a provider hold for all its models together; limits set for `<provider>:<family>`, and
 * those learnt from headers, hold for that family in addition.
 */
import type { Clock } from "../clock.ts";
import { PerigeeError } from "../errors.ts";
import type { LaneOutlook, ProjectWork } from "../schedule/feasibility.ts";
import { type LaneKey, laneKey, realtimeLane } from "../schedule/lanes.ts";
import { LaneLimits } from "../schedule/limits.ts";
import { needMs, planLane, type Work } from "../schedule/planner.ts";
import type { SentLoad } from "../schedule/quotas.ts";
import type { Measurer } from "../shard/pool.ts";
import { reloadShard } from "../shard/reload.ts";
import type { Store } from "../store/store.ts";
import type { Backlog, ShardTicket } from "./backlog.ts";
import type { EngineConfig } from "./config.ts";
import type { LaneRecord } from "./journal.ts";
import { Lane } from "./lane.ts";
import { LaneTurns } from "./lane_turns.ts";
import {
  capacityOf,
  expectedDoneMs,
  type Forecast,
  forecastOf,
  type NewWork,
  Outlooks,
  type SharedLimits,
} from "./outlook.ts";
import { recentSteps } from "./recent.ts";
import type { RunState } from "./run_state.ts";
import { RunStopped } from "./run_stopped.ts";
import type { ModelLane, Sender } from "./sender.ts";

/** A window of the limits, and a second for clocks: what was sent longer ago counts no more. */
export const LIMITS_WINDOW_MS = 61_000;

export interface LanesOptions {
  readonly clock: Clock;
  readonly config: EngineConfig;
  readonly backlog: Backlog;
  readonly sender: Sender;
  readonly measurer: Measurer;
  readonly mayAdmit: () => boolean;
  /** Called when an account has stopped a lane, or stops it no longer. */
  readonly onAccountStop: () => void;
}

/** A lane that its account has stopped. */
export interface AccountStop {
  readonly provider: string;
  readonly reason: string;
  readonly hasAnswered: boolean;
}

export class Lanes {
  readonly #options: LanesOptions;
  readonly #lanes = new Map<LaneKey, Lane>();
  readonly #shared = new Map<string, LaneLimits>();
  readonly #outlooks = new Outlooks();
  readonly #turns = new Map<string, LaneTurns>();
  /** Lanes that wait for money, longest first: what one frees may be what another waits for. */
  readonly #moneyless = new Set<Lane>();
  /** Lanes that their account has stopped, as it was told last. */
  readonly #stopped = new Map<Lane, string>();

  constructor(options: LanesOptions) {
    this.#options = options;
  }

  of(key: LaneKey): Lane {
    const known = this.#lanes.get(key);
    if (known !== undefined) return known;
    const { clock, backlog, sender, mayAdmit } = this.#options;
    const lane: Lane = new Lane(key, this.#limitsOf(key), {
      clock,
      backlog,
      turns: this.#turnsOf(providerOf(key)),
      mayAdmit,
      prepare: (ticket, index) => sender.prepare(ticket, index),
      refuseUnwanted: (call) => sender.refuseUnwanted(call),
      reserveMoney: (call) => sender.reserveMoney(call),
      returnMoney: (call) => sender.returnMoney(call),
      reload: (ticket) => this.#reload(ticket),
      setMoneyless: (isMoneyless, hasSent) => this.#setMoneyless(lane, isMoneyless, hasSent),
      send: (call) => sender.send(call),
      giveUp: (call) => sender.giveUp(call),
      refuse: (call, code, message) => sender.refuse(call, code, message),
    });
    this.#lanes.set(key, lane);
    this.#turnsOf(providerOf(key)).add(lane);
    return lane;
  }

  /** A lane has a place or money again: it goes on, and whose turn it is by now of those that wait for what it shares. */
  freed(lane: Lane): void {
    this.#lookForStop(lane);
    this.#turnsOf(providerOf(lane.key)).freed();
    if (this.#moneyless.size > 0) for (const other of [...this.#moneyless]) if (other !== lane) other.pump();
    lane.pump();
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
      if (held !== undefined) records.push({ lane: lane.key, ...held });
    }
    return records;
  }

  /** Counts what earlier processes sent within the last window, and waits on where they had to. */
  async restore(store: Store): Promise<void> {
    const { clock } = this.#options;
    const nowMs = clock.nowMs();
    const sent = new Map<LaneKey, SentLoad[]>();
    let isHeldKnown = false;
    for await (const { step, ageMs } of recentSteps(store, clock.moment())) {
      if (!isHeldKnown && step.lanes !== undefined) {
        isHeldKnown = true;
        for (const { lane, ...held } of step.lanes) this.of(lane).limits.restoreHeldBack(nowMs, ageMs, held);
      }
      if (ageMs > LIMITS_WINDOW_MS && isHeldKnown) break;
      if (ageMs > LIMITS_WINDOW_MS) continue; // steps of recovery alone so far, which say nothing of lanes
      for (const { lane, ...load } of step.sent) {
        const loads = sent.get(lane) ?? [];
        loads.push({ ...load, atMs: nowMs - ageMs });
        sent.set(lane, loads);
      }
    }
    for (const [key, loads] of sent) this.of(key).limits.restore(clock.nowMs(), loads);
  }

  /** The cheapest lane for work on a model that still meets the deadline, and how long the work takes there. */
  plan(place: ModelLane, work: Work): { readonly key: LaneKey; readonly needMs: number } {
    const nowMs = this.#options.clock.nowMs();
    const capacity = capacityOf(this.of(place.key), nowMs);
    const offers = [{ lane: realtimeLane(place.provider, place.family), priceFactor: 1, capacity }];
    const plan = planLane(offers, work, nowMs);
    return { key: plan === undefined ? place.key : laneKey(plan.lane), needMs: needMs(work, capacity) };
  }

  /** When new work would be done. */
  forecast(work: NewWork): Forecast {
    const { outlook } = this.#outlookOn(work.model);
    return forecastOf(outlook, this.#sized(work));
  }

  /** When it is expected to be done, monotonic; guesses what was never measured. */
  expectedDoneMs(work: NewWork): number {
    const { lane, outlook } = this.#outlookOn(work.model);
    return expectedDoneMs(outlook, this.#sized(work), lane.itemMs);
  }

  #outlookOn(model: string): { readonly lane: Lane; readonly outlook: LaneOutlook } {
    const { clock, sender } = this.#options;
    const { provider, key } = sender.laneFor(model);
    const lane = this.of(key);
    return { lane, outlook: this.#outlooks.of(lane, this.#sharedBy(provider), clock.nowMs()) };
  }

  #sized(work: NewWork): ProjectWork {
    const { sender } = this.#options;
    const { weight = 1, outputTokens = work.items * sender.meanOutputTokensOf(work.model) } = work;
    return { ...work, weight, outputTokens };
  }

  /** Lets no lane send for a run any more. */
  drop(state: RunState): void {
    this.#options.backlog.removeRun(state);
    state.waitingItems = 0;
    for (const lane of this.#lanes.values()) lane.drop(state, new RunStopped());
    this.#options.backlog.wake();
  }

  /** Empty unless all that a run has left is held by lanes that their account has stopped. */
  accountStops(run: RunState): AccountStop[] {
    if (this.#stopped.size === 0) return [];
    const stops: AccountStop[] = [];
    let claimed = 0;
    for (const lane of this.#lanes.values()) {
      const held = lane.held(run);
      if (held.claimed === 0 && !held.hasMore) continue;
      const { pauseReason } = lane.limits;
      if (pauseReason === undefined) return [];
      claimed += held.claimed;
      stops.push({
        provider: providerOf(lane.key),
        reason: pauseReason,
        hasAnswered: this.#options.sender.hasAnswered(lane.key),
      });
    }
    return claimed === run.claimed.size ? stops : []; // others are in flight, wait to be tried again, or for the disk
  }

  /** Whether the account of a model has stopped its lane. */
  isStopped(model: string): boolean {
    if (this.#stopped.size === 0) return false;
    const lane = this.#lanes.get(this.#options.sender.laneFor(model).key);
    return lane !== undefined && this.#stopped.has(lane);
  }

  /** Whether something of a run waits in a lane that its account has stopped. */
  isHeldByStop(run: RunState): boolean {
    for (const lane of this.#stopped.keys()) {
      const held = lane.held(run);
      if (held.claimed > 0 || held.hasMore) return true;
    }
    return false;
  }

  close(): void {
    for (const lane of this.#lanes.values()) lane.close();
  }

  #lookForStop(lane: Lane): void {
    const { pauseReason } = lane.limits;
    if (this.#stopped.get(lane) === pauseReason) return;
    if (pauseReason === undefined) this.#stopped.delete(lane);
    else this.#stopped.set(lane, pauseReason);
    this.#options.onAccountStop();
  }

  #setMoneyless(lane: Lane, isMoneyless: boolean, hasSent: boolean): void {
    if (!isMoneyless || hasSent) this.#moneyless.delete(lane);
    if (isMoneyless) this.#moneyless.add(lane);
  }

  #turnsOf(provider: string): LaneTurns {
    const turns = this.#turns.get(provider) ?? new LaneTurns();
    this.#turns.set(provider, turns);
    return turns;
  }

  #limitsOf(key: LaneKey): LaneLimits {
    const { clock, config } = this.#options;
    const [provider = "", , ...family] = key.split(":");
    return new LaneLimits({
      settings: config.limits[`${provider}:${family.join(":")}`] ?? {},
      inFlightMax: config.maxInFlight,
      nowMs: clock.nowMs(),
      random: () => clock.random(),
      shared: this.#sharedOf(provider),
      ramp: config.ramps[provider],
    });
  }

  /** Undefined when the lanes of a provider share no limits. */
  #sharedBy(provider: string): SharedLimits | undefined {
    if (Object.keys(this.#options.config.limits[provider] ?? {}).length === 0) return undefined;
    const isOf = ({ key }: Lane): boolean => providerOf(key) === provider;
    return { provider, lanes: () => [...this.#lanes.values()].filter(isOf) };
  }

  #sharedOf(provider: string): LaneLimits {
    const { clock, config } = this.#options;
    const known = this.#shared.get(provider);
    if (known !== undefined) return known;
    const made = new LaneLimits({
      settings: config.limits[provider] ?? {},
      inFlightMax: config.maxInFlight,
      inFlightStart: config.maxInFlight,
      nowMs: clock.nowMs(),
      random: () => clock.random(),
    });
    this.#shared.set(provider, made);
    return made;
  }

  async #reload(ticket: ShardTicket): Promise<boolean> {
    const { run, shard } = ticket;
    try {
      await reloadShard(shard, run.settings.input, this.#options.measurer, run.settings.measureOptions);
      return true;
    } catch (error) {
      const cause =
        error instanceof PerigeeError
          ? error
          : new PerigeeError("input_unreadable", "the input cannot be read any more", { cause: error });
      run.fail(cause);
      return false;
    }
  }
}

function providerOf(key: LaneKey): string {
  return key.slice(0, key.indexOf(":"));
}
