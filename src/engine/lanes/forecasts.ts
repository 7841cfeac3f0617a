/**
 * When new work would be done: what waits in the lanes, put together for queue/feasibility.ts.
 *
 * Counted is what was read and not sent, and of a file the lines that were not read yet, in the lanes in which its run
 * waits, like those that were. Where a provider's limits are shared by its lanes, the work waits for all of them.
 * What is in flight, and when an account's stop ends, is not known. What was never measured (how long an answer takes
 * and gets, how many requests a provider bears) is taken for nothing: work is not refused for a guess.
 *
 * What waits at other processes for the same limits counts like the work of other projects (work_elsewhere.ts). So all of them have one plan.
 *
 * What waits is put together at most ten times a second for a lane, or for all that share their limits: submissions in
 * between see the same.
 */

import type { LaneLimits } from "../../limits/limits.ts";
import type { WorkStanding } from "../../limits/shared/shared_work.ts";
import { bothLoads, type DueLoad, DueWork, NO_LOAD, type SharedLoad } from "../../queue/due_work.ts";
import {
  earliestDeadlineMs,
  earliestDoneMs,
  type LaneForecastBasis,
  type ProjectWork,
  slaForecast,
} from "../../queue/feasibility.ts";
import type { Capacity } from "../../queue/planner.ts";
import { type Urgency, urgencyOf } from "../../queue/urgency.ts";
import type { ItemOwner } from "../items/item_owner.ts";
import { type DueEntry, type Now, standingOf, type WorkElsewhere } from "../limits/work_elsewhere.ts";
import type { Lane } from "./lane.ts";

const REMEMBERED_MS = 100;
const URGENCY_MS = 500;
/** What the guard of a window takes of a limit, at most (limits/bucket.ts). */
export const GUARD_SHARE = 0.006;

/** Work that is to be accepted. */
export interface NewWork extends Omit<ProjectWork, "weight" | "outputTokens"> {
  /** Requests that its items are sent in; absent: one for each. */
  readonly requests?: number;
  /** `<provider>:<name>`. */
  readonly model: string;
  /** Of its project; 1. */
  readonly weight?: number;
  /** Expected of all items together; absent: as many as the model's mean answers had. */
  readonly outputTokens?: number;
}

/** The forecast for work; times are monotonic. */
export type Forecast =
  | { readonly sla: "feasible" | "at_risk"; readonly doneMs: number }
  | { readonly sla: "infeasible"; readonly doneMs: number; readonly earliestDeadlineMs: number };

export function forecastOf(lane: LaneForecastBasis, work: ProjectWork): Forecast {
  const doneMs = earliestDoneMs(lane, work);
  const sla = slaForecast(lane, work);
  return sla === "infeasible"
    ? { sla, doneMs, earliestDeadlineMs: earliestDeadlineMs(lane, work) }
    : { sla, doneMs };
}

/**
 * When work would be done as far as anybody can say: what was never measured is guessed here, and places in flight grow. Hot: each
 * post asks, and V8 is slow to spread objects with fractions.
 */
export function expectedDoneMs(
  basis: LaneForecastBasis,
  work: ProjectWork,
  { itemMs, limits }: Pick<Lane, "itemMs" | "limits">,
): number {
  const known = basis.capacity;
  const capacity = {
    requestsPerMinute: known.requestsPerMinute,
    tokensPerMinute: known.tokensPerMinute,
    inputTokensPerMinute: known.inputTokensPerMinute,
    outputTokensPerMinute: known.outputTokensPerMinute,
    concurrency: known.concurrency,
    concurrencyNow: limits.places,
    itemMs,
    waitingMs: known.waitingMs,
  };
  return earliestDoneMs(basis, work, capacity);
}

/** A provider whose limits all its lanes share. */
export interface SharedLimits {
  readonly provider: string;
  readonly limits: LaneLimits;
  readonly lanes: () => Iterable<Lane>;
}

/** One for an engine. */
export class Forecasts {
  readonly #remembered = new Map<Lane, LaneForecastBasis>();
  readonly #due = new WeakMap<LaneForecastBasis, DueWork>();
  /** What all lanes can do together that share limits with the lane of a basis. */
  readonly #capacities = new WeakMap<LaneForecastBasis, Capacity>();
  /** What waits in all lanes of a provider. */
  readonly #shared = new Map<string, WaitingWork & { readonly atMs: number }>();
  readonly #elsewhere: WorkElsewhere;

  constructor(elsewhere: WorkElsewhere) {
    this.#elsewhere = elsewhere;
  }

  /** `shared` is passed for a lane that shares its limits. */
  of(lane: Lane, shared: SharedLimits | undefined, nowMs: number): LaneForecastBasis {
    const beside = shared === undefined ? undefined : this.#waitingBeside(shared, nowMs);
    const remembered = this.#remembered.get(lane);
    const isSame = beside === undefined || remembered?.waiting === beside.works;
    if (remembered !== undefined && isSame && nowMs - remembered.nowMs < REMEMBERED_MS) return remembered;
    const { works: waiting, itemsPerRequest: packed } = beside ?? this.#waitingFor(lane.limits, [lane]);
    const known = {
      ...capacityOf(lane, nowMs, this.#rateShare(shared?.limits ?? lane.limits), packed),
      itemMs: lane.hasAnswered ? lane.itemMs : 0,
      concurrency: lane.limits.placesHoped,
    };
    const closedMs = lane.limits.cooldownMs(nowMs);
    const basis = { nowMs, closedMs, capacity: usableBy(known, requestsIn(waiting, packed)), waiting };
    this.#remembered.set(lane, basis);
    return basis;
  }

  /** When what waits in a lane was counted, which is the same for all that share its limits; monotonic. */
  countedMs(lane: Lane, shared: SharedLimits | undefined, nowMs: number): number {
    const { nowMs: builtMs } = this.of(lane, shared, nowMs);
    return (shared === undefined ? undefined : this.#shared.get(shared.provider)?.atMs) ?? builtMs;
  }

  /**
   * Milliseconds that the lane needs in realtime for what is due by a deadline, and for what is under way `beside` it or elsewhere. What
   * is elsewhere of the lanes that share its limits takes their time, too, at what these limits allow.
   */
  drainMs(
    lane: Lane,
    basis: LaneForecastBasis,
    deadlineMs: number,
    { beside, elsewhere, taken }: LoadBeside,
    shared?: SharedLimits,
  ): number {
    const { limits, itemMs } = lane;
    const due = this.#due.get(basis) ?? new DueWork(basis);
    this.#due.set(basis, due);
    const capacity = {
      ...basis.capacity,
      itemMs,
      concurrency: Math.max(1, limits.placesHoped - beside.items),
      concurrencyNow: Math.max(1, limits.places - beside.items),
    };
    const own = elsewhere === undefined ? beside : bothLoads(beside, elsewhere.own);
    const ownMs = due.drainMs(deadlineMs, own, capacity, taken);
    if (shared === undefined || elsewhere === undefined || elsewhere.shared.items === elsewhere.own.items)
      return basis.closedMs + ownMs;
    const all = bothLoads(beside, elsewhere.shared);
    const allMs = due.drainMs(deadlineMs, all, this.#sharedCapacity(basis, shared, lane), taken);
    return basis.closedMs + Math.max(ownMs, allMs);
  }

  #sharedCapacity(
    basis: LaneForecastBasis,
    { limits, provider }: SharedLimits,
    { itemMs, pace }: Lane,
  ): Capacity {
    const known = this.#capacities.get(basis);
    if (known !== undefined) return known;
    const packed = this.#shared.get(provider)?.itemsPerRequest ?? pace.itemsPerRequest;
    const capacity = capacityOf({ limits, itemMs }, basis.nowMs, this.#rateShare(limits), packed);
    const usable = usableBy(capacity, requestsIn(basis.waiting, packed));
    this.#capacities.set(basis, usable);
    return usable;
  }

  /** Put together once for all the lanes: a provider may have a thousand, and a task may ask for each. */
  #waitingBeside({ provider, limits, lanes }: SharedLimits, nowMs: number): WaitingWork {
    const known = this.#shared.get(provider);
    if (known !== undefined && nowMs - known.atMs < REMEMBERED_MS) return known;
    const waiting = { ...this.#waitingFor(limits, lanes()), atMs: nowMs };
    this.#shared.set(provider, waiting);
    return waiting;
  }

  #rateShare(limits: LaneLimits): number {
    return (1 - GUARD_SHARE) * this.#elsewhere.rateShare(limits);
  }

  #waitingFor(limits: LaneLimits, lanes: Iterable<Lane>): WaitingWork {
    const own = waitingIn(lanes);
    return { ...own, works: [...own.works, ...this.#elsewhere.works(limits, own.itemsPerRequest)] };
  }
}

/** What is under way and may have to be done in realtime. */
export interface LoadBeside {
  /** In places of the lane, which it keeps. */
  readonly beside: DueLoad;
  /** Without a place of it, such as in batches. */
  readonly elsewhere?: SharedLoad;
  /** What has left the lane since what waits in it was counted; it is `elsewhere`, or not counted. */
  readonly taken?: DueLoad;
}

/** What waits in lanes that share limits, and which of it has precedence. */
interface KnownUrgency extends WaitingWork {
  readonly atMs: number;
  readonly urgency: Urgency | undefined;
}

/** Which of the waiting items of these lanes has precedence; computed twice a second, because every item needs it. */
export class Urgencies {
  readonly #known = new Map<LaneLimits, KnownUrgency>();
  readonly #elsewhere: WorkElsewhere;

  constructor(elsewhere: WorkElsewhere) {
    this.#elsewhere = elsewhere;
  }

  /** `limits` are those that the lanes share, and `itemMs` is what an answer takes in them, 0 when it was never measured. */
  of(limits: LaneLimits, itemMs: number, lanes: () => Iterable<Lane>, nowMs: number): Urgency | undefined {
    return this.#of(limits, itemMs, lanes, nowMs).urgency;
  }

  /** What waits in the lanes, as other processes need to know it; `batched`: what they have with batches. */
  standing(
    limits: LaneLimits,
    itemMs: number,
    lanes: () => Iterable<Lane>,
    batched: readonly DueEntry[],
    now: Now,
  ): WorkStanding {
    return standingOf(this.#of(limits, itemMs, lanes, now.nowMs), batched, now);
  }

  #of(limits: LaneLimits, itemMs: number, lanes: () => Iterable<Lane>, nowMs: number): KnownUrgency {
    const known = this.#known.get(limits);
    if (known !== undefined && nowMs - known.atMs < URGENCY_MS) return known;
    const own = waitingIn(lanes());
    const capacity = capacityOf({ limits, itemMs }, nowMs, 1 - GUARD_SHARE, own.itemsPerRequest);
    const others = this.#elsewhere.works(limits, own.itemsPerRequest);
    const concurrency = others.length > 0 ? limits.placesHoped : limits.places; // of all processes together
    const urgency = urgencyOf({
      nowMs,
      closedMs: limits.cooldownMs(nowMs),
      capacity: { ...capacity, concurrency },
      waiting: [...own.works, ...others],
    });
    const made = { ...own, atMs: nowMs, urgency };
    this.#known.set(limits, made);
    return made;
  }
}

/** What waits in lanes, by its runs, and how many of its items share a request: where nothing waits, those of the first lane. */
interface WaitingWork {
  readonly works: readonly ProjectWork[];
  readonly itemsPerRequest: number;
}

function waitingIn(lanes: Iterable<Lane>): WaitingWork {
  const runs = new Map<ItemOwner, { items: number; inputTokens: number; outputTokens: number }>();
  let [all, requests] = [0, 0];
  let first: number | undefined;
  for (const lane of lanes) {
    const { itemsPerRequest } = lane.pace;
    first ??= itemsPerRequest;
    for (const { owner, items, inputTokens, outputTokens } of lane.waiting()) {
      const load = runs.get(owner) ?? { items: 0, inputTokens: 0, outputTokens: 0 };
      load.items += items;
      load.inputTokens += inputTokens;
      load.outputTokens += outputTokens;
      runs.set(owner, load);
      all += items;
      requests += items / itemsPerRequest;
    }
  }
  return { works: worksOf(runs), itemsPerRequest: requests > 0 ? all / requests : (first ?? 1) };
}

function worksOf(runs: ReadonlyMap<ItemOwner, DueLoad>): ProjectWork[] {
  return [...runs].map(([owner, load]) => {
    const { project, weight, deadlineMs } = owner.settings;
    const more = 1 + owner.unreadItems / Math.max(1, owner.items.waitingItems);
    const { items, inputTokens, outputTokens } = load;
    return {
      project,
      weight,
      deadlineMs,
      items: items * more,
      inputTokens: inputTokens * more,
      outputTokens: outputTokens * more,
    };
  });
}

/** The load with requests for its items. */
function requestsIn(waiting: readonly ProjectWork[], itemsPerRequest: number): DueLoad {
  const { items, inputTokens, outputTokens } = waiting.reduce(bothLoads, NO_LOAD);
  return { items: items / itemsPerRequest, inputTokens, outputTokens };
}

/** What a lane can do under its limits of now, at `share` of its rates, for items of which so many share a request. */
export function capacityOf(
  lane: Pick<Lane, "limits" | "itemMs">,
  nowMs: number,
  share: number = 1,
  itemsPerRequest: number = 1,
): Capacity {
  const { requests, tokens, inputTokens, outputTokens, inFlightMax } = lane.limits.snapshot(nowMs);
  return {
    itemMs: lane.itemMs,
    concurrency: inFlightMax,
    ...(requests === undefined ? {} : { requestsPerMinute: requests.limit * share * itemsPerRequest }),
    ...(tokens === undefined ? {} : { tokensPerMinute: tokens.limit * share }),
    ...(inputTokens === undefined ? {} : { inputTokensPerMinute: inputTokens.limit * share }),
    ...(outputTokens === undefined ? {} : { outputTokensPerMinute: outputTokens.limit * share }),
  };
}

/** Of limits of tokens, work can use what is left when about one of its items waits for room; this share at least. */
const USABLE_SHARE_MIN = 0.5;

/**
 * What work of the size of a load can use of a capacity. No minute holds more tokens than a limit, so an item is not sent before there is
 * room for it as a whole, and for how much longer than the mean its answer may be: of limits that hold few items, a part stays free, which
 * is about one item (0.8 to 1.5 items of a tenth to a third of the limit in simulated runs, with lengths from log-normal to heavy tails).
 */
export function usableBy(capacity: Capacity, { items, inputTokens, outputTokens }: DueLoad): Capacity {
  if (items <= 0) return capacity;
  const { tokensPerMinute, outputTokensPerMinute } = capacity;
  const usable = (rate: number | undefined, tokens: number): number | undefined =>
    rate === undefined ? undefined : Math.max(rate * USABLE_SHARE_MIN, rate - tokens / items);
  return {
    ...capacity,
    tokensPerMinute: usable(tokensPerMinute, inputTokens + outputTokens),
    outputTokensPerMinute: usable(outputTokensPerMinute, outputTokens),
  };
}
