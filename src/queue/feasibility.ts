/**
 * When new work would be done, after what waits and beside those who share. Pure; what waits is data.
 *
 *   own    = the work + what of its project is before it: an earlier deadline, or no deadline (queue.ts)
 *   drain  = max over quotas of (amount / rate) , places (planner.ts)
 *   finish = opens + max(need(own), drain(own) + sum over other projects j of min(drain(j), drain(own) * weight j / weight) + itemMs)
 *
 * The sum is exact for the fluid model of fair queueing (Parekh and Gallager 1993, "generalized processor sharing"): when
 * a project has been served `drain(own)`, another has been served by its weight, or all it had. `need` is that of planner.ts:
 * nothing is ever said to be done sooner than limits and answers allow. More work, or more that waits, is never done sooner.
 *
 * It is an estimate: later work is not known, answers get longer or shorter, and a place that is taken
 * is free at the end of a call.
 */
import { type Capacity, needMs, type PlannedWork, placesMs, ratesMs } from "./planner.ts";

/** Work of one project with one deadline. */
export interface ProjectWork extends PlannedWork {
  readonly project: string;
  /** Of its project, above 0. */
  readonly weight: number;
}

/** Where work would run, in its present state. */
export interface LaneForecastBasis {
  /** Monotonic. */
  readonly nowMs: number;
  /** Milliseconds until it sends anything; 0 when open. */
  readonly closedMs: number;
  readonly capacity: Capacity;
  /** What waits for it, or for what it shares with other lanes. */
  readonly waiting: readonly ProjectWork[];
}

/** Below, the work is accepted; the last tenth of its time is left for what cannot be foreseen. */
const AT_RISK_SHARE = 0.9;

/** Monotonic time at which `work` would be done, by `capacity` in place of the lane's; Infinity when the lane never gets there. */
export function earliestDoneMs(
  lane: LaneForecastBasis,
  work: ProjectWork,
  capacity: Capacity = lane.capacity,
): number {
  if (work.items <= 0) return lane.nowMs;
  const { nowMs } = lane;
  const own = { items: work.items, inputTokens: work.inputTokens, outputTokens: work.outputTokens };
  const others = new Map<string, { load: Load; weight: number }>();
  for (const waiting of lane.waiting) {
    if (waiting.project !== work.project) {
      const other = others.get(waiting.project) ?? { load: noLoad(), weight: waiting.weight };
      add(other.load, waiting);
      others.set(waiting.project, other);
    } else if (isBefore(waiting, work, { capacity, nowMs })) {
      add(own, waiting);
    }
  }
  const drain = drainMs(own, capacity);
  let sharedMs = drain + capacity.itemMs;
  for (const { load, weight } of others.values())
    sharedMs += Math.min(drainMs(load, capacity), (drain * weight) / work.weight);
  return nowMs + lane.closedMs + Math.max(needMs(own, capacity), sharedMs);
}

/**
 * The earliest deadline that `work` would meet without making other work of its project late; its own is not used.
 * The later a deadline, the more is before it: so each guess uses the result of the one before, until it
 * holds. Each adds at least one that is before it.
 */
export function earliestDeadlineMs(lane: LaneForecastBasis, work: ProjectWork): number {
  let deadlineMs = lane.nowMs;
  for (;;) {
    const guess = { ...work, deadlineMs };
    const doneMs = Math.max(earliestDoneMs(lane, guess), harmed(lane, guess)?.deadlineMs ?? 0);
    if (doneMs <= deadlineMs) return deadlineMs;
    deadlineMs = doneMs;
  }
}

/**
 * What a deadline is worth: `at_risk` when it leaves less than a tenth of its time, `infeasible` when it is not met, or
 * when work of its project that was accepted before would miss its own by it.
 */
export function slaForecast(
  lane: LaneForecastBasis,
  work: ProjectWork,
): "feasible" | "at_risk" | "infeasible" {
  if (work.deadlineMs === Number.POSITIVE_INFINITY) return "feasible";
  const takesMs = earliestDoneMs(lane, work) - lane.nowMs;
  const windowMs = work.deadlineMs - lane.nowMs;
  if (takesMs > windowMs || harmed(lane, work) !== undefined) return "infeasible";
  return takesMs > windowMs * AT_RISK_SHARE ? "at_risk" : "feasible";
}

/** The last of its project's work that would be in time without `work`, and late after it. */
function harmed(lane: LaneForecastBasis, work: ProjectWork): ProjectWork | undefined {
  let last: ProjectWork | undefined;
  const allDoneMs = earliestDoneMs(lane, { ...work, deadlineMs: Number.MAX_VALUE });
  for (const own of lane.waiting) {
    if (own.project !== work.project || own.deadlineMs >= allDoneMs) continue;
    if (own.deadlineMs <= work.deadlineMs || own.deadlineMs <= (last?.deadlineMs ?? 0)) continue;
    const waiting = lane.waiting.filter((other) => other !== own);
    if (earliestDoneMs({ ...lane, waiting }, own) > own.deadlineMs) continue;
    if (earliestDoneMs({ ...lane, waiting: [...waiting, work] }, own) > own.deadlineMs) last = own;
  }
  return last;
}

interface Load {
  items: number;
  inputTokens: number;
  outputTokens: number;
}

function noLoad(): Load {
  return { items: 0, inputTokens: 0, outputTokens: 0 };
}

function add(load: Load, more: Omit<PlannedWork, "deadlineMs">): void {
  load.items += more.items;
  load.inputTokens += more.inputTokens;
  load.outputTokens += more.outputTokens;
}

/** What has no deadline wants to run at once, and is before all that need not have started yet. */
function isBefore(
  waiting: PlannedWork,
  work: PlannedWork,
  { capacity, nowMs }: Pick<LaneForecastBasis, "capacity" | "nowMs">,
): boolean {
  if (waiting.deadlineMs === Number.POSITIVE_INFINITY) return true;
  if (work.deadlineMs !== Number.POSITIVE_INFINITY) return waiting.deadlineMs <= work.deadlineMs;
  return waiting.deadlineMs - needMs(waiting, capacity) <= nowMs;
}

/** Milliseconds for which the lane is busy with `load`. */
export function drainMs(load: Omit<PlannedWork, "deadlineMs">, capacity: Capacity): number {
  return Math.max(placesMs(load.items, capacity), load.items <= 0 ? 0 : ratesMs(load, capacity));
}
