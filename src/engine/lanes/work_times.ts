/**
 * How long work takes: the one forecast of quotes and of what a run has left (queue/feasibility.ts), over all limits that
 * hold for it.
 *
 *   quote   nothing waits; the work of models that share limits counts together; answers take what was learnt of them
 *   left    what the run has in each lane, beside what others have there; places in flight grow from where they are
 */

import type { LaneLimits } from "../../limits/limits.ts";
import { ITEM_MS_START } from "../../queue/answer_pace.ts";
import { NO_LOAD } from "../../queue/due_work.ts";
import {
  drainMs,
  earliestDoneMs,
  type LaneForecastBasis,
  type ProjectWork,
} from "../../queue/feasibility.ts";
import type { LaneKey, LaneTerms } from "../../queue/lanes.ts";
import { lastAnswerMs } from "../../queue/last_answer.ts";
import { boundOf, type Capacity, needMs, type Placeable, workOf } from "../../queue/planner.ts";
import type { TimeBound } from "../../work/limits.ts";
import type { ItemLoads } from "../items/item_loads.ts";
import type { ItemOwner } from "../items/item_owner.ts";
import type { ModelWork } from "../learnt/expected_usage.ts";
import type { WorkElsewhere } from "../limits/work_elsewhere.ts";
import {
  capacityOf,
  expectedDoneMs,
  type Forecast,
  Forecasts,
  forecastOf,
  GUARD_SHARE,
  type LoadBeside,
  type NewWork,
  type SharedLimits,
  usableBy,
} from "./forecasts.ts";
import type { Lane } from "./lane.ts";
import type { ModelLanes } from "./model_lanes.ts";

/** What an answer may take that was never measured: where this doubles the time, nobody knows it. */
const SLOW_ITEM_MS = 60_000;

/** How long it takes, from now. */
export interface WorkTime {
  /** Infinity when the lanes never get there. */
  readonly ms: number;
  readonly boundBy: TimeBound;
}

/** When work is expected to be done. */
export interface ExpectedDone {
  /** Monotonic. */
  readonly atMs: number;
  /** False while it depends on how long answers take that nobody has measured; `atMs` is then for answers of a minute. */
  readonly isKnown: boolean;
}

/** Where work would run. */
interface WorkPlaces {
  termsOf(model: string): LaneTerms;
  limitsOf(key: LaneKey): LaneLimits;
  /** Of all lanes of a provider; undefined without a shared limit. */
  sharedOf(provider: string): LaneLimits | undefined;
}

interface Group {
  readonly limits: LaneLimits;
  readonly works: ModelWork[];
}

/** Of each model, beside the others and nothing else. */
function workTimes(
  works: readonly ModelWork[],
  places: WorkPlaces,
  nowMs: number,
): ReadonlyMap<string, WorkTime> {
  const groups = new Map<string, Group>();
  const groupsOf = new Map<string, Set<Group>>();
  for (const work of works) {
    const { provider, key } = places.termsOf(work.model);
    const shared = places.sharedOf(provider);
    for (const [name, limits] of [
      [key, places.limitsOf(key)],
      [provider, shared],
    ] as const) {
      if (limits === undefined) continue;
      const group = groups.get(name) ?? { limits, works: [] };
      group.works.push(work);
      groups.set(name, group);
      groupsOf.set(work.model, (groupsOf.get(work.model) ?? new Set()).add(group));
    }
  }
  const times = new Map([...groups.values()].map((group) => [group, timeIn(group, nowMs)]));
  const slowest = (of: Iterable<Group>): WorkTime =>
    [...of].reduce((longest: WorkTime, group) => longer(longest, times.get(group) ?? NOTHING), NOTHING);
  return new Map([...groupsOf].map(([model, of]) => [model, slowest(of)]));
}

/**
 * Of what a run has in lanes, beside what others have there; undefined when it has nothing in any, Infinity while it depends on how long
 * answers take that nobody has measured.
 */
function leftMs(
  owner: ItemOwner,
  lanes: Iterable<Lane>,
  basisOf: (lane: Lane) => LaneForecastBasis,
): number | undefined {
  const { project, weight, deadlineMs } = owner.settings;
  // Its items are counted among those that wait; another item after them is done after them.
  const last = { project, weight, items: 1, inputTokens: 0, outputTokens: 0, deadlineMs: deadlineMs + 1 };
  let longestMs: number | undefined;
  for (const lane of lanes) {
    if (!lane.hasWaiting(owner)) continue;
    const basis = basisOf(lane);
    const done = expectedDone(lane, basis, last);
    if (!done.isKnown) return Number.POSITIVE_INFINITY;
    const doneMs = done.atMs - basis.nowMs;
    const latencies = lane.pace.latenciesOf(owner.items.waitingItems + owner.items.inFlight);
    const answeredMs = lastAnswerMs(Math.max(0, doneMs - lane.itemMs), [latencies]);
    longestMs = Math.max(longestMs ?? 0, doneMs, answeredMs);
  }
  return longestMs;
}

/** Beside what waits in its lane. */
function expectedDone(lane: Lane, basis: LaneForecastBasis, work: ProjectWork): ExpectedDone {
  const atMs = expectedDoneMs(basis, work, lane);
  if (lane.hasAnswered || lane.itemMs !== ITEM_MS_START) return { atMs, isKnown: true };
  const slowMs = expectedDoneMs(basis, work, { limits: lane.limits, itemMs: SLOW_ITEM_MS });
  const isKnown = slowMs - basis.nowMs <= 2 * (atMs - basis.nowMs);
  return isKnown ? { atMs, isKnown } : { atMs: slowMs, isKnown };
}

/** With as many items in a request as what waits and new work have together. */
function basisWith(
  basis: LaneForecastBasis,
  { items, requests = items }: NewWork,
  { itemsPerRequest: known }: Lane["pace"],
): LaneForecastBasis {
  const { requestsPerMinute } = basis.capacity;
  if (requestsPerMinute === undefined || requests <= 0 || items / requests === known) return basis;
  const waiting = basis.waiting.reduce((sum, other) => sum + other.items, 0);
  const itemsPerRequest = (waiting + items) / (waiting / known + requests);
  const capacity = {
    ...basis.capacity,
    requestsPerMinute: (requestsPerMinute / known) * itemsPerRequest,
  };
  return { ...basis, capacity };
}

type RateName = "requestsPerMinute" | "tokensPerMinute" | "inputTokensPerMinute" | "outputTokensPerMinute";

const NOTHING: WorkTime = { ms: 0, boundBy: "nothing" };

function longer(left: WorkTime, right: WorkTime): WorkTime {
  return right.ms > left.ms ? right : left;
}

function timeIn({ limits, works }: Group, nowMs: number): WorkTime {
  const load = { items: 0, inputTokens: 0, outputTokens: 0 };
  let busyMs = 0;
  for (const work of works) {
    load.items += work.requests;
    load.inputTokens += work.inputTokens;
    load.outputTokens += work.outputTokens;
    busyMs += work.busyMs;
  }
  if (load.items === 0) return NOTHING;
  const capacity = {
    ...usableBy(capacityOf({ limits, itemMs: busyMs / load.items }, nowMs, 1 - GUARD_SHARE), load),
    concurrency: limits.placesHoped,
    concurrencyNow: limits.places,
  };
  const closedMs = limits.cooldownMs(nowMs);
  const basis = { nowMs, closedMs, capacity, waiting: [] };
  const work = { ...load, project: "", weight: 1, deadlineMs: Number.POSITIVE_INFINITY };
  const boundBy = boundOf(load, capacity);
  const takesMs = drainMs(load, capacity);
  // With its places taken a lane sends the last request when others are still under way.
  const sentMs = boundBy === "concurrency" ? Math.max(0, takesMs - capacity.itemMs) : takesMs;
  const answeredMs =
    closedMs +
    lastAnswerMs(
      sentMs,
      works.flatMap(({ latencies }) => latencies),
    );
  return { ms: Math.max(earliestDoneMs(basis, work) - nowMs, answeredMs), boundBy };
}

/** What forecasts need of the lanes of an engine. */
export interface ForecastLanes {
  nowMs(): number;
  of(key: LaneKey): Lane;
  all(): Iterable<Lane>;
  lanesOf(provider: string): readonly Lane[];
  /** Of all lanes of a provider together. */
  limitsOf(provider: string): LaneLimits;
  /** Whether rates of a provider are limited for all its lanes together. */
  hasShared(provider: string): boolean;
  readonly elsewhere: WorkElsewhere;
  readonly sender: {
    readonly models: Pick<ModelLanes, "of">;
    readonly loads: Pick<ItemLoads, "meanOutputTokensOf">;
  };
}

/** The parts of a lane's limits that one model's work has, each in (0, 1]. */
export interface LaneShares {
  readonly items: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** When work is done. One for an engine. */
export class LaneForecasts {
  readonly #lanes: ForecastLanes;
  readonly #forecasts: Forecasts;

  constructor(lanes: ForecastLanes) {
    this.#lanes = lanes;
    this.#forecasts = new Forecasts(lanes.elsewhere);
  }

  /** How long a ticket's work takes under a lane's limits. */
  needMs(key: LaneKey, ticket: Placeable): number {
    return needMs(workOf(ticket), this.capacityOf(key));
  }

  /** What a lane can do at this moment. */
  capacityOf(key: LaneKey): Capacity {
    const lane = this.#lanes.of(key);
    return capacityOf(lane, this.#lanes.nowMs(), 1, lane.pace.itemsPerRequest);
  }

  /**
   * What the lane of a model can do from now on for work whose answers take `itemMs`, behind what waits for it and is due by a
   * deadline: `shares` of its limits and of its places, and of those that it shares with other lanes of its provider.
   */
  plannedCapacity(model: string, itemMs: number, shares: LaneShares, deadlineMs: number): Capacity {
    const { lane, basis } = this.#basisOn(model);
    const nowMs = this.#lanes.nowMs();
    const { provider } = lane.terms;
    const limits = [
      lane.limits,
      ...(this.#lanes.hasShared(provider) ? [this.#lanes.limitsOf(provider)] : []),
    ];
    const rates = limits.map((each) => capacityOf({ limits: each, itemMs }, nowMs, 1 - GUARD_SHARE));
    const least = (rate: RateName, share: number): number | undefined => {
      const known = rates.flatMap((capacity) => capacity[rate] ?? []);
      return known.length === 0 ? undefined : Math.min(...known) * share;
    };
    const tokens = (shares.inputTokens + shares.outputTokens) / 2;
    return {
      itemMs,
      requestsPerMinute: least("requestsPerMinute", shares.items),
      tokensPerMinute: least("tokensPerMinute", tokens),
      inputTokensPerMinute: least("inputTokensPerMinute", shares.inputTokens),
      outputTokensPerMinute: least("outputTokensPerMinute", shares.outputTokens),
      concurrency: Math.max(1, lane.limits.placesHoped * shares.items),
      concurrencyNow: Math.max(1, lane.limits.places * shares.items),
      waitingMs: this.#forecasts.drainMs(lane, basis, deadlineMs, { beside: NO_LOAD }),
    };
  }

  /** When new work would be done. */
  forecast(work: NewWork): Forecast {
    const { lane, basis } = this.#basisOn(work.model);
    return forecastOf(basisWith(basis, work, lane.pace), this.#sized(work));
  }

  /** When it is expected to be done. */
  expectedDone(work: NewWork): ExpectedDone {
    const { lane, basis } = this.#basisOn(work.model);
    return expectedDone(lane, basis, this.#sized(work));
  }

  /** How long work takes on each of its models, when nothing else waits. */
  workTimes(works: readonly ModelWork[]): ReadonlyMap<string, WorkTime> {
    const places = {
      termsOf: (model: string) => this.#lanes.sender.models.of(model),
      limitsOf: (key: LaneKey) => this.#lanes.of(key).limits,
      sharedOf: (provider: string) => this.#lanes.limitsOf(provider),
    };
    return workTimes(works, places, this.#lanes.nowMs());
  }

  /** How long what is left of a run takes; undefined while nothing of it waits here, Infinity while nobody knows. */
  leftMs(owner: ItemOwner): number | undefined {
    return leftMs(owner, this.#lanes.all(), (lane) => this.#basisOf(lane));
  }

  /** When what waits in a lane was counted last, which forecasts go by; monotonic. */
  countedMs(lane: Lane): number {
    return this.#forecasts.countedMs(lane, this.#sharedBy(lane.terms.provider), this.#lanes.nowMs());
  }

  /** Milliseconds that a lane needs in realtime for what is due by a deadline, and for what is under way `beside` it. */
  drainMs(lane: Lane, deadlineMs: number, load: LoadBeside): number {
    const shared = this.#sharedBy(lane.terms.provider);
    const basis = this.#forecasts.of(lane, shared, this.#lanes.nowMs());
    return this.#forecasts.drainMs(lane, basis, deadlineMs, load, shared);
  }

  #basisOn(model: string): { readonly lane: Lane; readonly basis: LaneForecastBasis } {
    const lane = this.#lanes.of(this.#lanes.sender.models.of(model).key);
    return { lane, basis: this.#basisOf(lane) };
  }

  #basisOf(lane: Lane): LaneForecastBasis {
    return this.#forecasts.of(lane, this.#sharedBy(lane.terms.provider), this.#lanes.nowMs());
  }

  /** Undefined when the lanes of a provider share no limits. */
  #sharedBy(provider: string): SharedLimits | undefined {
    if (!this.#lanes.hasShared(provider)) return undefined;
    return { provider, limits: this.#lanes.limitsOf(provider), lanes: () => this.#lanes.lanesOf(provider) };
  }

  #sized(work: NewWork): ProjectWork {
    const { model, project, items, inputTokens, deadlineMs, weight = 1 } = work;
    const outputTokens = work.outputTokens ?? items * this.#lanes.sender.loads.meanOutputTokensOf(model);
    return { project, items, inputTokens, outputTokens, deadlineMs, weight };
  }
}
