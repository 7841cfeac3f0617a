/**
 * What was recorded lately, by this process or those before it, and how long ago that was.
 */
import type { Moment } from "../../clock.ts";
import type { Store } from "../../store/store.ts";
import { leastMsBetween } from "../../work/moment.ts";
import { momentOf, readStep, type Step } from "./journal.ts";

export interface RecentStep {
  readonly step: Step;
  /** Milliseconds before `now`, never more than it really is. */
  readonly ageMs: number;
}

/**
 * The steps of all tasks, the last one first. Ages add up from step to step, so that each boot is measured by itself. Within
 * one a step may be younger than those after it: a step of recovery that waited for space says when it was made.
 */
export async function* recentSteps(
  store: Pick<Store, "latestEntries">,
  now: Moment,
): AsyncGenerator<RecentStep, void, undefined> {
  let later = now;
  let ageMs = 0;
  for await (const entry of store.latestEntries()) {
    const moment = momentOf(entry);
    if (moment === undefined) return; // by a version that is no longer at work, so it is old
    ageMs += isSameBoot(moment, later)
      ? later.sinceBootMs - moment.sinceBootMs
      : leastMsBetween(moment, later);
    later = moment;
    yield { step: readStep(entry.records), ageMs: Math.max(0, ageMs) };
  }
}

function isSameBoot(one: Moment, other: Moment): boolean {
  return one.bootId !== undefined && one.bootId === other.bootId;
}
