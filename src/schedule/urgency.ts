/**
 * Who takes turns where deadlines wait: those with hours to spare lend theirs to those that are due sooner. Pure; what waits
 * is data.
 *
 *   due(d)    what the lane takes for all work with a deadline up to d
 *   left(d)   d - now - while it is closed;   time(d)   left(d) - 4 answers - 5 s
 *   first     work with the earliest deadline e, and what is equally urgent: due at most a tenth of time(e) later, as long as
 *             due(later) <= 0.97 x time(e), so that all of it is done by e in any order
 *   strict    due(d) >= 0.7 x time(d) for some d, or left(d) <= 80 min but for 2 s in 32: nothing else goes while any of the
 *             first can; otherwise work without deadline takes turns with the first, and what is due later waits
 *
 * Why this is enough: earliest-deadline-first meets every deadline that can be met (Liu and Layland 1973, theorem 7), and what
 * departs from it here cannot make one late: equally urgent work by the bound above, work without deadline because from
 * 0.7 on it is passed over, and due(d) falls as fast as the time then. What is due within 80 minutes does not wait for 0.7: until
 * then more may come that is due as soon, and what was lent would be missing (with turns for work without deadline up to
 * there, 75 % of a lane could be promised, with this 95 %: test/engine/deadlines.test.ts). Work without deadline loses nothing in
 * sum by that, since a lane does the same in any order. The 2 seconds keep a single request without deadline from waiting
 * for 80 minutes.
 *
 * What cannot be met has no precedence: where due(d) exceeds 1.2 x left(d), the projects that want most by their weight are
 * left out until the rest fits, and take turns like work without deadline. So nobody gets ahead by deadlines that are
 * shorter than its work.
 */
import { drainMs, type LaneOutlook, type ProjectWork } from "./feasibility.ts";

const STRICT_SHARE = 0.7;
const ANY_ORDER_SHARE = 0.97;
const OVERLOAD_SHARE = 1.2;
const EQUAL_SHARE = 0.1;
const NEAR_MS = 4_800_000;
const LENDING_EVERY_MS = 32_000;
const LENDING_MS = 2_000;
const ANSWERS = 4;
const SPARE_MS = 5_000;

/** Which work has precedence. */
export interface Urgency {
  /** Work with a deadline up to here, monotonic. */
  readonly untilMs: number;
  /** Projects that want more than can be done: their work is treated like work without a deadline. */
  readonly without: ReadonlySet<string>;
  /** Whether work without a deadline does not take turns with it. */
  readonly isStrict: boolean;
}

interface Due {
  items: number;
  inputTokens: number;
  outputTokens: number;
  weight: number;
}

/** Which work has precedence in a lane; undefined if nothing that waits has a deadline that can be met. */
export function urgencyOf(lane: LaneOutlook): Urgency | undefined {
  const { nowMs, closedMs, capacity } = lane;
  const byDeadline = lane.waiting
    .filter(({ deadlineMs }) => deadlineMs !== Number.POSITIVE_INFINITY && deadlineMs > nowMs)
    .sort((left, right) => left.deadlineMs - right.deadlineMs);
  const due = new Map<string, Due>();
  const without = new Set<string>();
  const dueMs = (): number => drainMs(sumOf(due, without), capacity);
  let first: { readonly timeMs: number; readonly untilMs: number } | undefined;
  let isStrict = false;
  for (const [index, work] of byDeadline.entries()) {
    addTo(due, work);
    const { deadlineMs } = work;
    if (byDeadline[index + 1]?.deadlineMs === deadlineMs) continue;
    const leftMs = Math.max(0, deadlineMs - nowMs - closedMs);
    const timeMs = Math.max(0, leftMs - ANSWERS * capacity.itemMs - SPARE_MS);
    while (dueMs() > leftMs * OVERLOAD_SHARE)
      without.add(largestOf(due, without, (load) => drainMs(load, capacity) / load.weight));
    if (dueMs() === 0) continue;
    isStrict ||= (leftMs <= NEAR_MS && !isLending(nowMs)) || dueMs() >= timeMs * STRICT_SHARE;
    first ??= { timeMs, untilMs: deadlineMs };
    const isEqual = timeMs <= first.timeMs * (1 + EQUAL_SHARE) && dueMs() <= first.timeMs * ANY_ORDER_SHARE;
    if (isEqual) first = { ...first, untilMs: deadlineMs };
  }
  return first === undefined ? undefined : { untilMs: first.untilMs, without, isStrict };
}

/** Whether work with such a deadline has precedence, or shares turns with work that has. */
export function isFirst(
  { untilMs, without, isStrict }: Urgency,
  project: string,
  deadlineMs: number,
): boolean {
  const isLate = deadlineMs === Number.POSITIVE_INFINITY || without.has(project);
  return isLate ? !isStrict : deadlineMs <= untilMs;
}

/** Whether work without deadline takes turns with what is due soon. */
function isLending(nowMs: number): boolean {
  return nowMs % LENDING_EVERY_MS < LENDING_MS;
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
