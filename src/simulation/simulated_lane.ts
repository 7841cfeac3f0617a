/**
 * A lane in a simulation: its items leave under the limits that a run has (limits/limits.ts), and are answered after a drawn time.
 *
 *   waiting --limits allow it--> under way --its time--> answered
 *      |  \--a cheaper tier has time and a place (queue/offer_choice.ts)--> in the tier --refused--> waiting
 *      \--the deadline--> missed
 *
 * Hot path: 2 us a request, most of it in the limits.
 */
import { capacityOf, GUARD_SHARE } from "../engine/lanes/forecasts.ts";
import { ASSUMED_SPEED } from "../engine/learnt/expected_usage.ts";
import type { LaneLimits, Permit } from "../limits/limits.ts";
import { SpareCapacity } from "../limits/spare_capacity.ts";
import { AnswerPace } from "../queue/answer_pace.ts";
import type { DueLoad } from "../queue/due_work.ts";
import { drainMs } from "../queue/feasibility.ts";
import type { LanePolicy } from "../queue/lane_choice.ts";
import { chooseOffer, offerShareOf } from "../queue/offer_choice.ts";
import { OutputLengths } from "../queue/output_lengths.ts";
import type { FileShape } from "./file_shape.ts";
import type { OfferPlan, SimulatedLanePlan } from "./lane_plan.ts";
import { RowQueue } from "./row_queue.ts";
import type { Schedule } from "./schedule.ts";
import type { SimulationTally } from "./tally.ts";

/** Of the places in flight, what a tier may have (engine/offers/tier_offers.ts). */
const TIER_SHARE = 3 / 4;
/** A refusal for want of capacity takes this long. */
const REFUSED_MS = 300;
/** Answers after which their times are known to the lane. */
const KNOWN_ANSWERS = 20;
/** A lane tries a new key with so many requests, for so long (engine/lanes/key_trials.ts). */
const TRIAL_REQUESTS = 2;
const TRIAL_MS = 2_000;
const DRAIN_KEPT_MS = 100;

/** What all lanes of a simulation share. */
export interface SimulatedRun {
  readonly shape: FileShape;
  readonly schedule: Schedule;
  readonly tally: SimulationTally;
  readonly terms: RunTerms;
}

/** What the caller of a run says. */
export interface RunTerms {
  /** From the start, in milliseconds; Infinity without an sla. */
  readonly deadlineMs: number;
  readonly policy: LanePolicy;
  readonly minOnTime: number;
  readonly maxInFlight: number;
}

interface Flight {
  readonly row: number;
  readonly permit: Permit;
  readonly offer: OfferPlan | undefined;
  readonly sentMs: number;
}

interface TierState {
  readonly capacity: SpareCapacity;
  readonly load: { items: number; inputTokens: number; outputTokens: number };
}

/** One for a lane of a plan and a seed. */
export class SimulatedLane {
  readonly plan: SimulatedLanePlan;
  readonly limits: LaneLimits;
  readonly queue: RowQueue;
  readonly #run: SimulatedRun;
  readonly #freed: (lane: SimulatedLane) => void;
  readonly #pace = new AnswerPace();
  readonly #lengths = new OutputLengths();
  readonly #tier: TierState;
  /** What waits, in tokens and items. */
  readonly #waiting: { items: number; inputTokens: number; outputTokens: number };
  readonly #state = { wakeMs: Number.POSITIVE_INFINITY, sent: 0, answered: 0, drainMs: 0, drainAtMs: -1e9 };

  /** `freed`: called when a place of it is free, so that lanes beside it may send. */
  constructor(
    plan: SimulatedLanePlan,
    run: SimulatedRun,
    shared: LaneLimits,
    freed: (lane: SimulatedLane) => void,
    rows: Int32Array = plan.rows,
  ) {
    const { schedule, terms } = run;
    this.plan = plan;
    this.limits = plan.limits(schedule.nowMs, schedule.random, shared);
    this.queue = new RowQueue(rows);
    this.#run = run;
    this.#freed = freed;
    const placesMax = Math.max(1, Math.floor(terms.maxInFlight * TIER_SHARE));
    this.#tier = {
      capacity: new SpareCapacity(placesMax, schedule.random),
      load: { items: 0, inputTokens: 0, outputTokens: 0 },
    };
    this.#waiting = { items: 0, inputTokens: 0, outputTokens: 0 };
    for (const row of rows) change(this.#waiting, run.shape, row, 1);
  }

  /** What waits. */
  get waiting(): DueLoad {
    return this.#waiting;
  }

  /** Milliseconds that realtime needs for what waits and for what is elsewhere. */
  drainMs(elsewhere: DueLoad): number {
    const { nowMs } = this.#run.schedule;
    const { limits } = this;
    const { itemMs } = this.#pace;
    const capacity = {
      ...capacityOf({ limits, itemMs }, nowMs, 1 - GUARD_SHARE),
      concurrency: limits.placesHoped,
      concurrencyNow: limits.places,
    };
    return drainMs(sumOf(this.#waiting, elsewhere), capacity);
  }

  /** What 99 of 100 answers in realtime take; undefined while too few are known. */
  realtimeMs(share: number): number | undefined {
    if (this.#state.answered < KNOWN_ANSWERS) return undefined;
    const [table] = this.plan.realtime.values();
    return table?.quantileMs(share) ?? this.#pace.itemMs;
  }

  /** Items that were elsewhere wait here from now on. */
  take(row: number): void {
    this.queue.giveBack(row);
    change(this.#waiting, this.#run.shape, row, 1);
  }

  /** Removes the item that waits first. */
  shift(): number {
    const row = this.queue.shift();
    if (row >= 0) change(this.#waiting, this.#run.shape, row, -1);
    return row;
  }

  /** Whether an item would go to the cheaper tier now. */
  hasOffer(): boolean {
    return this.#tierWaitMs() !== undefined;
  }

  /** Sends what may be sent now, and looks again when more may. */
  pump(): void {
    const { schedule, terms } = this.#run;
    if (schedule.nowMs >= terms.deadlineMs) this.#miss();
    const waitMs = this.#sendMost();
    if (waitMs !== undefined) this.#wakeIn(waitMs);
  }

  /** Returns after how many milliseconds more may be sent; undefined where nothing waits, or only money helps. */
  #sendMost(): number | undefined {
    const { schedule, shape, tally } = this.#run;
    const { nowMs } = schedule;
    for (;;) {
      const row = this.queue.first;
      if (row < 0) return undefined;
      if (this.#isTrying(nowMs)) return TRIAL_MS;
      const tierMs = this.#tierWaitMs();
      if (tierMs !== undefined && tierMs > 0) return tierMs;
      if (!tally.pays(row)) return undefined; // what is answered for less than was kept for it may leave enough
      const load = {
        inputTokens: shape.inputTokens[row] as number,
        outputTokens: this.#lengths.reserve("", shape.outputTokensMax[row] as number),
      };
      const reservation = this.limits.reserve(nowMs, load);
      if (!reservation.ok) {
        tally.returns(row);
        return reservation.waitMs;
      }
      this.shift();
      const offer = tierMs === undefined ? undefined : this.plan.offer;
      this.#send({ row, permit: reservation.permit, offer, sentMs: nowMs });
    }
  }

  #isTrying(nowMs: number): boolean {
    const { sent, answered } = this.#state;
    return this.plan.isTried && answered === 0 && sent >= TRIAL_REQUESTS && nowMs < TRIAL_MS;
  }

  /** Undefined for realtime; otherwise for how long an item waits for the tier. */
  #tierWaitMs(): number | undefined {
    const { terms, schedule } = this.#run;
    const { offer: plan } = this.plan;
    if (plan === undefined || terms.deadlineMs === Number.POSITIVE_INFINITY) return undefined;
    const { nowMs } = schedule;
    const { load, capacity } = this.#tier;
    const share = offerShareOf(terms.policy);
    const chosen = chooseOffer(plan.offer, {
      nowMs,
      deadlineMs: terms.deadlineMs,
      drainMs: this.#drainKept(load),
      ownDrainMs: 0,
      realtimeMs: this.realtimeMs(terms.minOnTime),
      offerMs: this.#state.answered < KNOWN_ANSWERS ? undefined : plan.latency.quantileMs(share),
      policy: terms.policy,
    });
    if (chosen === undefined) return undefined;
    const isCrowded = load.items >= Math.floor(this.limits.places * TIER_SHARE);
    const waitMs = Math.max(isCrowded ? Number.POSITIVE_INFINITY : 0, capacity.waitMs(nowMs));
    return waitMs > 0 ? Math.min(waitMs, Math.max(1, chosen.switchMs - nowMs + 1)) : 0;
  }

  /** Put together ten times a second, as the engine does. */
  #drainKept(elsewhere: DueLoad): number {
    const { nowMs } = this.#run.schedule;
    if (nowMs - this.#state.drainAtMs >= DRAIN_KEPT_MS) {
      this.#state.drainAtMs = nowMs;
      this.#state.drainMs = this.drainMs(elsewhere);
    }
    return this.#state.drainMs;
  }

  #send(flight: Flight): void {
    const { schedule, shape, tally, terms } = this.#run;
    const { row, offer, sentMs } = flight;
    tally.requests += 1;
    this.#state.sent += 1;
    if (offer !== undefined) {
      this.#tier.capacity.take();
      change(this.#tier.load, shape, row, 1);
      if (schedule.random() < offer.refusedShare) {
        schedule.at(sentMs + REFUSED_MS, () => this.#refused(flight));
        return;
      }
    }
    const ms = this.#latencyOf(row, offer);
    const isCut = sentMs + ms > terms.deadlineMs;
    schedule.at(isCut ? terms.deadlineMs : sentMs + ms, () => this.#ended(flight, isCut));
  }

  #latencyOf(row: number, offer: OfferPlan | undefined): number {
    const { schedule, shape } = this.#run;
    const table = offer === undefined ? this.plan.realtime.get(shape.modelOf[row] as number) : offer.latency;
    if (table !== undefined) return table.draw(schedule.random());
    const { first_token_ms: firstMs, output_tokens_per_second: perSecond } = ASSUMED_SPEED;
    return firstMs + ((shape.outputTokens[row] as number) / perSecond) * 1_000;
  }

  #ended(flight: Flight, isCut: boolean): void {
    const { schedule, shape, tally } = this.#run;
    const { nowMs } = schedule;
    const { row, permit, offer, sentMs } = flight;
    const used = {
      inputTokens: shape.inputTokens[row] as number,
      outputTokens: shape.outputTokens[row] as number,
    };
    if (isCut) tally.missed(row, nowMs);
    else {
      const lane = tally.laneOf(this.plan.provider, offer?.offer.kind ?? "realtime");
      tally.answered(row, lane, offer?.offer.priceFactor ?? 1, nowMs);
      this.limits.observe(nowMs, { kind: "success" }, permit);
      this.#lengths.observe("", used.outputTokens);
      this.#state.answered += 1;
      if (offer === undefined) this.#pace.answered(nowMs - sentMs);
      else this.#tier.capacity.answered();
    }
    this.#free(flight, isCut ? undefined : used);
  }

  #refused(flight: Flight): void {
    const { schedule, tally } = this.#run;
    this.#tier.capacity.refused(schedule.nowMs);
    tally.returns(flight.row);
    this.take(flight.row);
    this.#free(flight, { inputTokens: 0, outputTokens: 0 });
  }

  #free(
    { row, permit, offer, sentMs }: Flight,
    used: { readonly inputTokens: number; readonly outputTokens: number } | undefined,
  ): void {
    const { nowMs } = this.#run.schedule;
    if (offer !== undefined) {
      this.#tier.capacity.free(nowMs - sentMs);
      change(this.#tier.load, this.#run.shape, row, -1);
    }
    this.limits.settle(nowMs, permit, used);
    this.limits.release(nowMs, permit);
    this.#freed(this);
  }

  #miss(): void {
    for (let row = this.shift(); row >= 0; row = this.shift())
      this.#run.tally.missed(row, this.#run.terms.deadlineMs);
  }

  /** Looks again then, or at the deadline; an earlier look that was planned stays. */
  #wakeIn(ms: number): void {
    const { schedule, terms } = this.#run;
    const atMs = Math.min(schedule.nowMs + ms, terms.deadlineMs);
    const { wakeMs } = this.#state;
    if (atMs === Number.POSITIVE_INFINITY || (wakeMs > schedule.nowMs && wakeMs <= atMs)) return;
    this.#state.wakeMs = atMs;
    schedule.at(atMs, () => {
      if (this.#state.wakeMs !== atMs) return;
      this.#state.wakeMs = Number.POSITIVE_INFINITY;
      this.pump();
    });
  }
}

function change(
  load: { items: number; inputTokens: number; outputTokens: number },
  shape: FileShape,
  row: number,
  by: 1 | -1,
): void {
  load.items += by;
  load.inputTokens += by * (shape.inputTokens[row] as number);
  load.outputTokens += by * (shape.outputTokens[row] as number);
}

function sumOf(left: DueLoad, right: DueLoad): DueLoad {
  return {
    items: left.items + right.items,
    inputTokens: left.inputTokens + right.inputTokens,
    outputTokens: left.outputTokens + right.outputTokens,
  };
}
