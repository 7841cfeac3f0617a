/**
 * The batches of a lane in a simulation, by the rules of a run (queue/batch_choice.ts, engine/batches).
 *
 *   items --the batch probably ends in time--> spooled --room at the provider--> open --its time, at the next poll--> answered
 *     \--otherwise--> the lane                    |                               \--the switch--> cancelled: what it has
 *                                                 \--no longer in time--> the lane      finished is answered, the rest goes to the lane
 *
 * A batch finishes its items evenly over its time; one that never ends finishes a drawn part and stays there. Where a cancel loses
 * what is finished, a batch is left at the last moment, and what it has finished is billed and sent again.
 */
import {
  type BatchOutlook,
  cancelMsOf,
  type LeavingTimes,
  leavingTimes,
  mayBatch,
} from "../queue/batch_choice.ts";
import { type DueLoad, NO_LOAD } from "../queue/due_work.ts";
import type { BatchPlan } from "./lane_plan.ts";
import type { SimulatedLane, SimulatedRun } from "./simulated_lane.ts";

/** From the last item to the batch at the provider: the spool waits a second for more, the file is sent. */
const CREATED_AFTER_MS = 3_000;
const STOCK_MS = 5_000;
/** A poll after this part of a batch's age (engine/batches/batch_polling.ts). */
const AGE_SHARE = 8;
/** Of each limit of a batch (engine/batches/batch_spool.ts). */
const LIMIT_SHARE = 0.95;
/** Rows from one look at what realtime can do to the next. */
const LOOKED_ROWS = 64;

interface Batch {
  readonly rows: readonly number[];
  readonly load: DueLoad;
  createdMs: number;
  tookMs: number;
  /** The part that a batch without an end finishes. */
  stuckAt: number;
  isCancelling: boolean;
}

/** One for a lane that has batches. */
export class SimulatedBatches {
  readonly #lane: SimulatedLane;
  readonly #plan: BatchPlan;
  readonly #run: SimulatedRun;
  readonly #spooled: Batch[] = [];
  readonly #open = new Set<Batch>();

  constructor(lane: SimulatedLane, plan: BatchPlan, run: SimulatedRun) {
    this.#lane = lane;
    this.#plan = plan;
    this.#run = run;
  }

  /** Takes the items of the lane that go with batches. Once, at the start. */
  start(): void {
    const { schedule, terms } = this.#run;
    if (terms.deadlineMs === Number.POSITIVE_INFINITY) return;
    const outlook = this.#outlookOf(1);
    const waiting = { policy: terms.policy, isFree: this.#plan.isFree };
    if (!mayBatch(outlook, schedule.nowMs, waiting)) return;
    if (this.#lane.hasOffer() && outlook.drainMs < outlook.latency.p50) return; // the tier is done earlier, at the same price
    this.#spool((filling) => mayBatch(this.#outlookOf(1, filling), schedule.nowMs, waiting));
    schedule.at(CREATED_AFTER_MS, () => this.#create());
  }

  /** `isTaken`: whether the next one goes with a batch, too, beside what is in the one that is being filled. */
  #spool(isTaken: (filling: DueLoad) => boolean): void {
    const { shape, tally } = this.#run;
    const { itemsMax, bytesMax, enqueuedTokensMax } = this.#plan;
    let rows: number[] = [];
    let load = { ...NO_LOAD };
    let bytes = 0;
    const seal = (): void => {
      if (rows.length > 0)
        this.#spooled.push({ rows, load, createdMs: 0, tookMs: 0, stuckAt: 0, isCancelling: false });
      rows = [];
      load = { ...NO_LOAD };
      bytes = 0;
    };
    let taken = 0;
    for (let row = this.#lane.shift(); row >= 0; row = this.#lane.shift()) {
      taken += 1;
      const isEnough = taken % LOOKED_ROWS === 0 && !isTaken(load);
      if (isEnough || !tally.pays(row)) {
        this.#lane.take(row);
        break;
      }
      const inputTokens = shape.inputTokens[row] as number;
      const isFull =
        rows.length + 1 > itemsMax * LIMIT_SHARE ||
        bytes + (shape.bytes[row] as number) > bytesMax * LIMIT_SHARE ||
        load.inputTokens + inputTokens > enqueuedTokensMax * LIMIT_SHARE;
      if (isFull) seal();
      rows.push(row);
      bytes += shape.bytes[row] as number;
      load = {
        items: rows.length,
        inputTokens: load.inputTokens + inputTokens,
        outputTokens: load.outputTokens + (shape.outputTokens[row] as number),
      };
    }
    seal();
  }

  /** Creates what the provider takes; the rest waits, or goes another way once it would be too late. */
  #create(): void {
    const { schedule } = this.#run;
    for (;;) {
      const [next] = this.#spooled;
      if (next === undefined) return;
      if (schedule.nowMs >= this.#leavingTimesOf(next).switchMs) {
        this.#spooled.shift();
        this.#leave(next.rows);
        continue;
      }
      const open = this.#loadOf(this.#open).inputTokens;
      if (this.#open.size > 0 && open + next.load.inputTokens > this.#plan.enqueuedTokensMax) {
        schedule.at(schedule.nowMs + STOCK_MS, () => this.#create());
        return;
      }
      this.#spooled.shift();
      this.#begin(next);
    }
  }

  #begin(batch: Batch): void {
    const { schedule, tally } = this.#run;
    tally.requests += 1;
    batch.createdMs = schedule.nowMs;
    batch.tookMs = this.#plan.latency.draw(schedule.random());
    batch.stuckAt = schedule.random();
    this.#open.add(batch);
    this.#look(batch);
  }

  #look(batch: Batch): void {
    const { schedule } = this.#run;
    const { nowMs } = schedule;
    if (nowMs >= batch.createdMs + batch.tookMs) {
      this.#end(batch, batch.rows.length);
      return;
    }
    const { switchMs, lastMs } = this.#leavingTimesOf(batch);
    if (nowMs >= switchMs && (this.#plan.keepsOnCancel || nowMs >= lastMs)) {
      const endMs = Math.max(nowMs, Math.min(nowMs + cancelMsOf(this.#plan.prior), lastMs));
      const finished = this.#finishedBy(batch, nowMs);
      batch.isCancelling = true;
      schedule.at(endMs, () => this.#end(batch, finished));
      return;
    }
    const { min, max } = this.#plan.pollMs;
    const pollMs = Math.min(max, Math.max(min, (nowMs - batch.createdMs) / AGE_SHARE));
    const leftMs = switchMs - nowMs;
    schedule.at(nowMs + Math.max(1, leftMs > 0 ? Math.min(pollMs, leftMs) : pollMs), () => this.#look(batch));
  }

  #leavingTimesOf(batch: Batch): LeavingTimes {
    const { terms, schedule } = this.#run;
    const { nowMs } = schedule;
    const others = [...this.#open].filter((other) => other !== batch);
    const order = [...this.#open];
    const before = this.#open.has(batch) ? order.slice(0, order.indexOf(batch)) : order;
    return leavingTimes({
      ...this.#outlookOf(batch.rows.length),
      aheadMs: this.#lane.drainMs(this.#loadOf(before)),
      nowMs,
      ageMs: this.#open.has(batch) ? nowMs - batch.createdMs : 0,
      waitingMs: this.#lane.drainMs(NO_LOAD),
      busyMs: this.#lane.drainMs(this.#loadOf(others.filter(({ isCancelling }) => isCancelling))),
      isNext: before.every(({ isCancelling }) => isCancelling),
      keepsOnCancel: this.#plan.keepsOnCancel,
      policy: terms.policy,
      finishedShare: this.#open.has(batch)
        ? this.#finishedBy(batch, nowMs) / Math.max(1, batch.rows.length)
        : 0,
    });
  }

  #finishedBy({ rows, createdMs, tookMs, stuckAt }: Batch, nowMs: number): number {
    const share = tookMs === Number.POSITIVE_INFINITY ? stuckAt : (nowMs - createdMs) / tookMs;
    return Math.floor(rows.length * Math.min(1, share));
  }

  /** So many of its items are finished, from the first. */
  #end(batch: Batch, finished: number): void {
    const { schedule, shape, tally } = this.#run;
    const { priceFactor, keepsOnCancel } = this.#plan;
    this.#open.delete(batch);
    const isWhole = finished === batch.rows.length;
    const kept = isWhole || keepsOnCancel ? finished : 0;
    const lane = tally.laneOf(this.#lane.plan.provider, "batch");
    for (let item = 0; item < kept; item += 1) {
      tally.answered(batch.rows[item] as number, lane, priceFactor, schedule.nowMs);
    }
    for (let item = kept; item < finished; item += 1)
      tally.doubleUsd += (shape.listUsd[batch.rows[item] as number] as number) * priceFactor;
    this.#leave(batch.rows.slice(kept));
    this.#create();
  }

  #leave(rows: readonly number[]): void {
    for (const row of rows.toReversed()) {
      this.#run.tally.returns(row);
      this.#lane.take(row);
    }
    this.#lane.pump();
  }

  /** `filling`: what is neither spooled as a whole nor in the lane. */
  #outlookOf(items: number, filling: DueLoad = NO_LOAD): BatchOutlook {
    const { prior } = this.#plan;
    const load = this.#loadOf([...this.#open, ...this.#spooled, { load: filling }]);
    return {
      deadlineMs: this.#run.terms.deadlineMs,
      drainMs: this.#lane.drainMs(load),
      aheadMs: this.#lane.drainMs(NO_LOAD),
      realtimeP99Ms: this.#lane.realtimeMs(0.99),
      latency: prior,
      cancelMs: cancelMsOf(prior),
      items,
    };
  }

  #loadOf(batches: Iterable<Pick<Batch, "load">>): DueLoad {
    const sum = { items: 0, inputTokens: 0, outputTokens: 0 };
    for (const { load } of batches) {
      sum.items += load.items;
      sum.inputTokens += load.inputTokens;
      sum.outputTokens += load.outputTokens;
    }
    return sum;
  }
}
