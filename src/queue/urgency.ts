/**
 * Decides which waiting work has precedence in a lane by its deadlines. Work that has hours to spare lends its turns to work
 * that is due sooner. Pure: what waits is data.
 *
 *   due(d)    time that the lane needs for all work with a deadline up to d
 *   left(d)   d - now - the time for which the lane is closed
 *   time(d)   left(d) - 4 answers - 5 s
 *   first     work with the earliest deadline e, and equally urgent work: due at most a tenth of time(e) later, as long as
 *             due(later) <= 0.97 x time(e), so that all of it is done by e in any order
 *   strict    due(d) >= 0.7 x time(d) for some d, or left(d) <= 80 min except while turns are lent (lending.ts): nothing else is
 *             sent while any of the first work can be sent. Otherwise work without a deadline takes turns with the first work, and
 *             work that is due later waits
 *
 * Why this is enough: earliest-deadline-first meets every deadline that can be met (Liu and Layland 1973, theorem 7), and no
 * exception here makes work late. Equally urgent work is bounded as above. Work without a deadline has to wait from 0.7 on,
 * and due(d) then falls as fast as the time does.
 *
 * Work that is due within 80 minutes does not wait for 0.7: more work that is due as soon may arrive later, and would then lack
 * the turns that were lent. With turns for work without a deadline up to 0.7, 75 % of a lane could be promised; with this
 * rule, 95 % (test/engine/deadlines.test.ts). Work without a deadline loses nothing in total, because a lane does the same
 * amount in any order. The turns that are lent prevent that a single request without a deadline waits for 80 minutes.
 *
 * Work that cannot be done in time has no precedence. Where due(d) exceeds 1.2 x left(d), the projects with the most work for
 * their weight are left out until the rest fits; they take turns like work without a deadline. So no project gains by
 * deadlines that are too short for its work.
 */
import { drainMs, type LaneForecastBasis, type ProjectWork } from "./feasibility.ts";

const STRICT_SHARE = 0.7;
const ANY_ORDER_SHARE = 0.97;
const OVERLOAD_SHARE = 1.2;
const EQUAL_SHARE = 0.1;
const NEAR_MS = 4_800_000;
const LENDING_EVERY_MS = 16_000;
const LENDING_MS = 1_000;
const ANSWERS = 4;
const SPARE_MS = 5_000;

/** Which work has precedence. */
export interface Urgency {
  /** Work with a deadline up to this time has precedence; monotonic. */
  readonly untilMs: number;
  /** Projects with more work than can be done in time: it is treated like work without a deadline. */
  readonly without: ReadonlySet<string>;
  /** Whether work without a deadline waits instead of taking turns. */
  readonly isStrict: boolean;
  /** Whether it is strict only because work is due soon, so that turns are lent (lending.ts). */
  readonly mayLend: boolean;
}

interface Due {
  items: number;
  inputTokens: number;
  outputTokens: number;
  weight: number;
}

/** Which work has precedence in a lane; undefined if nothing that waits has a deadline that can be met. */
export function urgencyOf(lane: LaneForecastBasis): Urgency | undefined {
  const { nowMs, closedMs, capacity } = lane;
  const byDeadline = lane.waiting
    .filter(({ deadlineMs }) => deadlineMs !== Number.POSITIVE_INFINITY && deadlineMs > nowMs)
    .sort((left, right) => left.deadlineMs - right.deadlineMs);
  const due = new Map<string, Due>();
  const without = new Set<string>();
  const dueMs = (): number => drainMs(sumOf(due, without), capacity);
  let first: { readonly timeMs: number; readonly untilMs: number } | undefined;
  let [isFull, isNear] = [false, false];
  for (const [index, work] of byDeadline.entries()) {
    addTo(due, work);
    const { deadlineMs } = work;
    if (byDeadline[index + 1]?.deadlineMs === deadlineMs) continue;
    const leftMs = Math.max(0, deadlineMs - nowMs - closedMs);
    const timeMs = Math.max(0, leftMs - ANSWERS * capacity.itemMs - SPARE_MS);
    while (dueMs() > leftMs * OVERLOAD_SHARE)
      without.add(largestOf(due, without, (load) => drainMs(load, capacity) / load.weight));
    if (dueMs() === 0) continue;
    isNear ||= leftMs <= NEAR_MS;
    isFull ||= dueMs() >= timeMs * STRICT_SHARE;
    first ??= { timeMs, untilMs: deadlineMs };
    const isEqual = timeMs <= first.timeMs * (1 + EQUAL_SHARE) && dueMs() <= first.timeMs * ANY_ORDER_SHARE;
    if (isEqual) first = { ...first, untilMs: deadlineMs };
  }
  if (first === undefined) return undefined;
  return { untilMs: first.untilMs, without, isStrict: isFull || isNear, mayLend: isNear && !isFull };
}

/**
 * Whether work of `project` with this deadline (Infinity without one) has precedence, or takes turns with work that has it. `isLending`: whether a turn may
 * be lent now, where any may.
 */
export function isFirst(
  { untilMs, without, isStrict, mayLend }: Urgency,
  project: string,
  deadlineMs: number,
  isLending: boolean,
): boolean {
  if (isLate(without, project, deadlineMs)) return !isStrict || (mayLend && isLending);
  return deadlineMs <= untilMs;
}

/** Whether a turn that was taken was lent. */
export function isLent(
  { isStrict, without }: Urgency,
  { project, deadlineMs }: Pick<ProjectWork, "project" | "deadlineMs">,
): boolean {
  return isStrict && isLate(without, project, deadlineMs);
}

/** Whether turns are lent now among several processes, which cannot count them together. */
export function isLendingTime(nowMs: number): boolean {
  return nowMs % LENDING_EVERY_MS < LENDING_MS;
}

function isLate(without: ReadonlySet<string>, project: string, deadlineMs: number): boolean {
  return deadlineMs === Number.POSITIVE_INFINITY || without.has(project);
}

function addTo(due: Map<string, Due>, work: ProjectWork): void {
  const load = due.get(work.project) ?? { items: 0, inputTokens: 0, outputTokens: 0, weight: work.weight };
  load.items += work.items;
  load.inputTokens += work.inputTokens;
  load.outputTokens += work.outputTokens;
  due.set(work.project, load);
}

function sumOf(due: ReadonlyMap<string, Due>, without: ReadonlySet<string>): Omit<Due, "weight"> {
  const sum = { items: 0, inputTokens: 0, outputTokens: 0 };
  for (const [project, { items, inputTokens, outputTokens }] of due) {
    if (without.has(project)) continue;
    sum.items += items;
    sum.inputTokens += inputTokens;
    sum.outputTokens += outputTokens;
  }
  return sum;
}

function largestOf(
  due: ReadonlyMap<string, Due>,
  without: ReadonlySet<string>,
  sizeOf: (load: Due) => number,
): string {
  let largest = "";
  let size = Number.NEGATIVE_INFINITY;
  for (const [project, load] of due) {
    if (without.has(project) || sizeOf(load) <= size) continue;
    largest = project;
    size = sizeOf(load);
  }
  return largest;
}
