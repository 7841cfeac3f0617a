/**
 * What waits for limits that several processes share, in the terms of plans: the work of this process for the others, and theirs for it.
 *
 * Theirs counts as that of one other project for each process, with the weights of all its projects that wait. Deadlines are in Unix time, since the clocks of
 * processes that count milliseconds begin when they do.
 */
import type { LaneLimits } from "../../limits/limits.ts";
import {
  type DueClass,
  dueClasses,
  type OtherWork,
  type WorkStanding,
} from "../../limits/shared/shared_work.ts";
import { bothLoads, type DueLoad, NO_LOAD } from "../../queue/due_work.ts";
import type { ProjectWork } from "../../queue/feasibility.ts";
import { isFirst, isLendingTime, type Urgency } from "../../queue/urgency.ts";

/** What waits for limits at the other processes. */
export interface WorkElsewhere {
  /** `itemsPerRequest`: so many items share a request here. */
  works(limits: LaneLimits, itemsPerRequest: number): readonly ProjectWork[];
  /** The part of a rate that all together use: 1 where no others are known. */
  rateShare(limits: LaneLimits): number;
}

/** Draws of several processes lose 3 to 8 % of a limit (measured with three engines at 10 to 40 requests a minute): plans must not count on it. */
const DRAWN_SHARE = 0.95;

/** From what the limits of an engine last heard of the others. */
export function elsewhereOf(
  limits: { othersOf(limits: LaneLimits): readonly OtherWork[] },
  now: () => Now,
): WorkElsewhere {
  return {
    works: (of, itemsPerRequest) => worksElsewhere(limits.othersOf(of), now(), itemsPerRequest),
    rateShare: (of) => (limits.othersOf(of).length === 0 ? 1 : DRAWN_SHARE),
  };
}

/** One moment. */
export interface Now {
  /** Monotonic. */
  readonly nowMs: number;
  /** Unix time. */
  readonly wallMs: number;
}

/** The work of others as that of projects. */
export function worksElsewhere(
  others: readonly OtherWork[],
  { nowMs, wallMs }: Now,
  itemsPerRequest: number,
): ProjectWork[] {
  return others.flatMap(({ holder, weight, classes }) =>
    classes.map(({ deadlineMs, requests, inputTokens, outputTokens }) => ({
      project: `process ${holder}`,
      weight: weight > 0 ? weight : 1,
      deadlineMs: deadlineMs === null ? Number.POSITIVE_INFINITY : deadlineMs - wallMs + nowMs,
      ...{ items: requests * itemsPerRequest, inputTokens, outputTokens },
    })),
  );
}

/** What others have with batches, of what is due by a deadline (monotonic), in items of which so many share a request here. */
export function batchedElsewhere(
  others: readonly OtherWork[],
  { nowMs, wallMs }: Now,
  deadlineMs: number,
  itemsPerRequest: number,
): DueLoad {
  let sum = NO_LOAD;
  for (const { batched } of others)
    for (const { deadlineMs: dueMs, requests, inputTokens, outputTokens } of batched)
      if (dueMs !== null && dueMs - wallMs + nowMs <= deadlineMs)
        sum = bothLoads(sum, { items: requests * itemsPerRequest, inputTokens, outputTokens });
  return sum;
}

/** What is due by a deadline; monotonic. */
export type DueEntry = readonly [deadlineMs: number, load: DueLoad];

/** What waits here. */
interface Waiting {
  readonly works: readonly ProjectWork[];
  readonly itemsPerRequest: number;
  readonly urgency: Urgency | undefined;
}

/** What waits here, for the others. */
export function standingOf(
  { works, itemsPerRequest, urgency }: Waiting,
  batched: readonly DueEntry[],
  { nowMs, wallMs }: Now,
): WorkStanding {
  const classOf = (work: DueLoad & { readonly deadlineMs: number }): DueClass => ({
    deadlineMs: Number.isFinite(work.deadlineMs) ? work.deadlineMs - nowMs + wallMs : null,
    requests: work.items / itemsPerRequest,
    inputTokens: work.inputTokens,
    outputTokens: work.outputTokens,
  });
  const isLending = isLendingTime(nowMs);
  const first = works.filter(
    (work) => urgency !== undefined && isFirst(urgency, work.project, work.deadlineMs, isLending),
  );
  const sum = first.map(classOf).reduce(
    (total, each) => ({
      requests: total.requests + each.requests,
      inputTokens: total.inputTokens + each.inputTokens,
      outputTokens: total.outputTokens + each.outputTokens,
    }),
    { requests: 0, inputTokens: 0, outputTokens: 0 },
  );
  return {
    weight: weightOf(works),
    first: { weight: weightOf(first), ...sum },
    classes: dueClasses(wallMs, works.map(classOf)),
    batched: dueClasses(
      wallMs,
      batched.map(([deadlineMs, load]) => classOf({ ...load, deadlineMs })),
    ),
  };
}

function weightOf(works: readonly ProjectWork[]): number {
  const weights = new Map(works.map(({ project, weight }) => [project, weight]));
  return [...weights.values()].reduce((sum, weight) => sum + weight, 0);
}
