/**
 * A small world in virtual time for the planner: realtime lanes of exact capacity, batches whose lots finish when a seed says so, that
 * stall, are cancelled slowly, and show or hide what is finished. It plans, cuts batches and decides as an engine would.
 *
 *   items --plan--> realtime queue (earliest deadline first) --at the lane's rate--> answered within REALTIME_MS
 *         --plan--> batches --lots finish--> end --collect--> fetched
 *                           --switch--> cancelled --cancel delay--> end --collect--> what can be fetched; the rest to realtime
 *                           --send all--> all that is not known to be finished to realtime, at once
 *
 * What it does not model: polls (an end is known at once), failing items, limits of tokens, other users of the account.
 */

import type { LanePolicy } from "../../../src/queue/lane_choice.ts";
import type { GroupPlan } from "../../../src/queue/plan/group_plan.ts";
import { curveOf, type LatencyCurve } from "../../../src/queue/plan/latency_curve.ts";
import { planWork } from "../../../src/queue/plan/plan.ts";
import type { BatchTerms, PlanGroup, PlanOffer } from "../../../src/queue/plan/plan_input.ts";
import { type BatchPart, cutBatches } from "./batch_cuts.ts";
import { decideSwitch, switchTimes } from "./batch_switch.ts";

/** Answers in realtime take from a second to so long. */
const REALTIME_MS_MAX = 20_000;
const REALTIME = curveOf({ p50: 2_000, p90: 5_000, p99: 10_000 });
const BATCH_FACTOR = 0.5;
const USD_PER_TOKEN = { usdPerInputToken: 1e-6, usdPerOutputToken: 4e-6 };
/** Items whose batch results are finished together, wherever they are cut. */
export const LOT_ITEMS = 100;

/** How a provider's batches behave. */
export interface Wire {
  readonly name: "openai" | "anthropic" | "gemini";
  readonly terms: BatchTerms;
  /** Whether it says how many items are finished. */
  readonly showsProgress: boolean;
  readonly latency: LatencyCurve;
}

const COLLECT_MS = 30_000;
/** Latencies: what others measured of tiny jobs in August and September 2026, and a share without end. */
export const WIRES: readonly Wire[] = [
  {
    name: "openai",
    terms: { itemsMax: 50_000, cancelMs: 600_000, collectMs: COLLECT_MS, results: "cancelled" },
    showsProgress: true,
    latency: curveOf({ p50: 156_000, p90: 2_100_000, p99: 21_960_000 }, 0.02),
  },
  {
    name: "anthropic",
    terms: { itemsMax: 100_000, cancelMs: 600_000, collectMs: COLLECT_MS, results: "cancelled" },
    showsProgress: false,
    latency: curveOf({ p50: 120_000, p90: 300_000, p99: 1_260_000 }, 0.005),
  },
  {
    name: "gemini",
    terms: { itemsMax: 100_000, cancelMs: 60_000, collectMs: COLLECT_MS, results: "ended" },
    showsProgress: true,
    latency: curveOf({ p50: 180_000, p90: 300_000, p99: 480_000 }, 0.005),
  },
];

/** What happens in one model's lanes. */
export interface WorldModel {
  readonly wire: Wire;
  readonly requestsPerMinute: number;
  /** Milliseconds after the creation of its batch at which a lot of a group is finished; Infinity: never. */
  lotMs(groupId: string, lot: number): number;
  /** Milliseconds from asking for a cancel to the end. */
  cancelMs(): number;
  /** In [0, 1). */
  readonly random: () => number;
}

/** What became of a model's items. */
export interface WorldResult {
  readonly onTime: number;
  readonly late: number;
  /** Never answered within the time of the world; 0 unless it is wrong. */
  readonly open: number;
  readonly paidUsd: number;
  /** Expected by decisions, before it was known. */
  readonly bookedTwiceUsd: number;
  /** Paid for in a batch and in realtime. */
  readonly twiceUsd: number;
  /** Requests that are billed, in realtime or in a batch. */
  readonly paidRequests: number;
  readonly realtimeUsd: number;
}

function offersOf(model: WorldModel): readonly PlanOffer[] {
  const { wire, requestsPerMinute } = model;
  const capacity = { requestsPerMinute, itemMs: 2_500 };
  const common = { ...USD_PER_TOKEN };
  return [
    {
      ...common,
      name: `${wire.name}:realtime`,
      kind: "realtime",
      priceFactor: 1,
      latency: REALTIME,
      capacity,
    },
    {
      ...common,
      name: `${wire.name}:batch`,
      kind: "batch",
      priceFactor: BATCH_FACTOR,
      latency: wire.latency,
      capacity: { itemMs: 0 },
      batch: wire.terms,
    },
  ];
}

/** Runs the groups of one model from 0 until all have ended. */
export function runModel(model: WorldModel, groups: readonly PlanGroup[], policy?: LanePolicy): WorldResult {
  const offers = new Map(groups.map((group) => [group.model, offersOf(model)]));
  const plan = planWork({ nowMs: 0, groups, offers, ...(policy === undefined ? {} : { policy }) });
  return new ModelRun(model, plan.groups).run();
}

/** Items of a group in a batch: lots by their number, with how many items. */
interface RunningPart {
  readonly group: PlanGroup;
  readonly lots: readonly { readonly atMs: number; readonly items: number }[];
}

class Running {
  readonly id: string;
  readonly parts: readonly RunningPart[];
  readonly endsMs: number;
  cancelEndsMs = Number.POSITIVE_INFINITY;
  isCancelled = false;
  isEnded = false;
  isSent = false;
  nextMs = 0;

  constructor(id: string, parts: readonly RunningPart[]) {
    this.id = id;
    this.parts = parts;
    this.endsMs = Math.max(...parts.flatMap(({ lots }) => lots.map(({ atMs }) => atMs)));
  }

  get endMs(): number {
    return Math.min(this.endsMs, this.cancelEndsMs);
  }

  finishedBy(part: RunningPart, atMs: number): number {
    return part.lots.reduce((sum, lot) => sum + (lot.atMs <= atMs ? lot.items : 0), 0);
  }
}

/** Items that wait for realtime. `batch`: sent without knowing what it has finished. */
interface Queued {
  readonly group: PlanGroup;
  readonly batch: Running | undefined;
  items: number;
  sent: number;
}

class ModelRun {
  readonly #model: WorldModel;
  readonly #plans: readonly GroupPlan[];
  #queue: Queued[] = [];
  #running: Running[] = [];
  #nowMs = 0;
  #busyMs = 0;
  readonly #sums = { onTime: 0, late: 0, paidUsd: 0, bookedTwiceUsd: 0, twiceUsd: 0, paidRequests: 0 };

  constructor(model: WorldModel, plans: readonly GroupPlan[]) {
    this.#model = model;
    this.#plans = plans;
  }

  run(): WorldResult {
    this.#start();
    for (let steps = 0; this.#running.length + this.#queue.length > 0; steps += 1) {
      if (steps > 1_000_000) throw new Error("the world does not end");
      this.#decide();
      const next = this.#nextMs();
      this.#serveUntil(next);
      if (next === Number.POSITIVE_INFINITY) break;
      this.#nowMs = next;
      this.#end();
    }
    const items = this.#plans.reduce((sum, { group }) => sum + group.items, 0);
    const realtimeUsd = this.#plans.reduce((sum, { group }) => sum + group.items * usdOf(group), 0);
    return { ...this.#sums, open: items - this.#sums.onTime - this.#sums.late, realtimeUsd };
  }

  #start(): void {
    const groups = new Map(this.#plans.map(({ group }) => [group.id, group]));
    const given = new Map<string, number>();
    const waiting = this.#plans.flatMap(({ group, shares }) =>
      shares
        .filter(({ offer }) => offer?.kind === "batch")
        .map(({ share, switchMs }) => ({
          groupId: group.id,
          items: Math.round(share * group.items),
          deadlineMs: group.deadlineMs,
          switchMs,
        })),
    );
    const batches = cutBatches(waiting, this.#model.wire.terms, 0);
    this.#running = batches.map(
      (parts, index) =>
        new Running(
          String(index),
          parts.map((part) => this.#part(part, groups, given)),
        ),
    );
    for (const { group } of this.#plans)
      this.#enqueue(group, group.items - (given.get(group.id) ?? 0), undefined);
  }

  /** The items of a group are those that were not given to a batch before. */
  #part(
    { groupId, items }: BatchPart,
    groups: ReadonlyMap<string, PlanGroup>,
    given: Map<string, number>,
  ): RunningPart {
    const from = given.get(groupId) ?? 0;
    given.set(groupId, from + items);
    const lots: { atMs: number; items: number }[] = [];
    for (let at = from; at < from + items; ) {
      const end = Math.min(from + items, (Math.floor(at / LOT_ITEMS) + 1) * LOT_ITEMS);
      lots.push({ atMs: this.#model.lotMs(groupId, Math.floor(at / LOT_ITEMS)), items: end - at });
      at = end;
    }
    return { group: groups.get(groupId) as PlanGroup, lots };
  }

  #enqueue(group: PlanGroup, items: number, batch: Running | undefined): void {
    if (items > 0) this.#queue.push({ group, batch, items, sent: 0 });
    this.#queue.sort((one, other) => one.group.deadlineMs - other.group.deadlineMs);
  }

  /** Until no batch of the model is due to be left. */
  #decide(): void {
    const { wire, requestsPerMinute } = this.#model;
    const open = this.#running.filter(({ isSent }) => !isSent);
    const times = switchTimes(
      open.map((batch) => ({
        id: batch.id,
        deadlineMs: Math.min(...batch.parts.map(({ group }) => group.deadlineMs)),
        unfinished: { items: itemsOf(batch), inputTokens: 0, outputTokens: 0 },
        ...wire.terms,
        cancelMs: batch.isCancelled ? 0 : wire.terms.cancelMs,
      })),
      { capacity: { requestsPerMinute, itemMs: 2_500 }, latencyP99Ms: 10_000 },
    );
    for (const batch of open) {
      const own = times.get(batch.id);
      if (own === undefined) throw new Error("a batch has no switch");
      const items = itemsOf(batch);
      const done = batch.parts.reduce((sum, part) => sum + batch.finishedBy(part, this.#nowMs), 0);
      const usd = batch.parts.reduce((sum, part) => sum + sumOf(part) * usdOf(part.group), 0);
      const decision = decideSwitch(
        {
          nowMs: this.#nowMs,
          createdMs: 0,
          phase: batch.isCancelled || batch.isEnded ? "cancelling" : "running",
          results: wire.terms.results,
          latency: wire.latency,
          collectMs: wire.terms.collectMs,
          ...(wire.showsProgress ? { finishedShare: done / items } : {}),
          batchUsd: usd * BATCH_FACTOR,
          realtimeUsd: usd,
        },
        own,
      );
      batch.nextMs = decision.untilMs;
      if (decision.action === "wait") continue;
      if (!batch.isCancelled && !batch.isEnded) batch.cancelEndsMs = this.#nowMs + this.#model.cancelMs();
      batch.isCancelled = true;
      if (decision.action === "cancel") continue;
      batch.isSent = true;
      this.#sums.bookedTwiceUsd += decision.twiceUsd;
      for (const part of batch.parts) this.#enqueue(part.group, sumOf(part), batch);
    }
  }

  #nextMs(): number {
    let next = Number.POSITIVE_INFINITY;
    for (const { endMs, isEnded, isSent, nextMs } of this.#running)
      next = Math.min(next, endMs + (isEnded ? this.#model.wire.terms.collectMs : 0), isSent ? next : nextMs);
    return Math.max(next, this.#nowMs);
  }

  /** Ends batches, and takes what they have finished. */
  #end(): void {
    for (const batch of [...this.#running]) {
      if (batch.endMs <= this.#nowMs && !batch.isEnded) {
        batch.isEnded = true;
        for (const part of batch.parts) {
          const done = batch.finishedBy(part, batch.endMs);
          this.#sums.paidRequests += done;
          this.#sums.paidUsd += done * usdOf(part.group) * BATCH_FACTOR;
        }
      }
      if (batch.endMs + this.#model.wire.terms.collectMs > this.#nowMs) continue;
      this.#running.splice(this.#running.indexOf(batch), 1);
      this.#collect(batch);
    }
  }

  #collect(batch: Running): void {
    const isFetched = this.#model.wire.terms.results !== "ended" || batch.endsMs <= batch.endMs;
    for (const part of batch.parts) {
      const done = batch.finishedBy(part, batch.endMs);
      const fetched = isFetched ? done : 0;
      if (!batch.isSent) {
        this.#answered(part.group, fetched, this.#nowMs);
        this.#enqueue(part.group, sumOf(part) - fetched, undefined);
        if (!isFetched) this.#sums.twiceUsd += done * usdOf(part.group) * BATCH_FACTOR;
        continue;
      }
      const queued = this.#queue.find((each) => each.batch === batch && each.group === part.group);
      const waits = queued?.items ?? 0;
      // Of the finished ones, so many have been sent already as of all.
      const unsent = Math.min(waits, Math.floor((fetched * waits) / sumOf(part)));
      this.#sums.twiceUsd += (done - unsent) * usdOf(part.group) * BATCH_FACTOR;
      this.#answered(part.group, unsent, this.#nowMs);
      if (queued !== undefined) queued.items -= unsent;
      this.#queue = this.#queue.filter(({ items }) => items > 0);
    }
  }

  /** Sends what waits at the lane's rate, earliest deadline first. */
  #serveUntil(untilMs: number): void {
    const itemMs = 60_000 / this.#model.requestsPerMinute;
    let atMs = Math.max(this.#nowMs, this.#busyMs);
    for (let first = this.#queue[0]; first !== undefined && atMs < untilMs; first = this.#queue[0]) {
      const count = Math.min(first.items, Math.max(1, Math.ceil((untilMs - atMs) / itemMs)));
      this.#sums.paidRequests += count;
      this.#sums.paidUsd += count * usdOf(first.group);
      const { deadlineMs } = first.group;
      const sure = Math.min(count, Math.max(0, Math.floor((deadlineMs - REALTIME_MS_MAX - atMs) / itemMs)));
      this.#sums.onTime += sure;
      for (let item = sure; item < count; item += 1)
        this.#answered(
          first.group,
          1,
          atMs + item * itemMs + 1_000 + this.#model.random() * (REALTIME_MS_MAX - 1_000),
        );
      atMs += count * itemMs;
      first.items -= count;
      if (first.items === 0) this.#queue.shift();
    }
    this.#busyMs = atMs;
  }

  #answered({ deadlineMs }: PlanGroup, items: number, atMs: number): void {
    this.#sums[atMs <= deadlineMs ? "onTime" : "late"] += items;
  }
}

function itemsOf({ parts }: Running): number {
  return parts.reduce((sum, part) => sum + sumOf(part), 0);
}

function sumOf({ lots }: RunningPart): number {
  return lots.reduce((sum, { items }) => sum + items, 0);
}

/** Of one item at list price. */
function usdOf({ inputTokens, outputTokens, items }: PlanGroup): number {
  return (
    (inputTokens * USD_PER_TOKEN.usdPerInputToken + outputTokens * USD_PER_TOKEN.usdPerOutputToken) / items
  );
}

/**
 * The least that a model's groups can cost, by an oracle that knows when each lot will be finished: the batch price for what is
 * finished and fetched by its deadline, realtime for the rest. No schedule costs less, because an item is paid at least once at the
 * price of where it is answered. It is reached: each lot can be a batch, and the rest is a part of what realtime can do by
 * earliest deadline, if it can do all.
 */
export function oracleUsd(model: WorldModel, groups: readonly PlanGroup[]): number {
  let usd = 0;
  for (const group of groups)
    for (let lot = 0; lot * LOT_ITEMS < group.items; lot += 1) {
      const items = Math.min(LOT_ITEMS, group.items - lot * LOT_ITEMS);
      const isInTime = model.lotMs(group.id, lot) + model.wire.terms.collectMs <= group.deadlineMs;
      usd +=
        items * usdOf(group) * (isInTime && group.deadlineMs !== Number.POSITIVE_INFINITY ? BATCH_FACTOR : 1);
    }
  return usd;
}
