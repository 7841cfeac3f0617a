/**
 * Groups that were accepted a moment ago and are not in memory yet.
 *
 *   accepted without sla -> entered in the turn of its acceptance (`posted_entry.ts`) or, if it could not be, in the next turn
 *            with an sla -> entered with all that was accepted in `TOGETHER_MS`: their intents are one commit, and their answers few
 */
import type { Clock, Timer } from "../../clock.ts";
import { type RecentGroup, RecentItems } from "./recent_items.ts";

/** Windows are a minute and longer. */
const TOGETHER_MS = 250;

interface EnteringGroup extends RecentGroup {
  readonly enter: () => void;
}

/** One for an engine. */
export class MicroBatches {
  readonly #clock: Clock;
  readonly #recent: RecentItems;
  #waiting: EnteringGroup[] = [];
  #timer: Timer | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#recent = new RecentItems(clock);
  }

  add({ project, deadlineMs, items }: RecentGroup, enter: () => void): void {
    const group = { project, deadlineMs, items, enter };
    if (deadlineMs === Number.POSITIVE_INFINITY) {
      this.#recent.add(group);
      this.#clock.soon(enter);
      return;
    }
    this.#waiting.push(group);
    this.#timer ??= this.#clock.timer(TOGETHER_MS, () => this.#enterAll());
  }

  /** A group is in memory already; its items reach their lanes in this turn or the next. */
  entered(group: RecentGroup): void {
    this.#recent.add(group);
  }

  /** Items of a project that forecasts may not have seen in lanes, with a deadline (monotonic) up to this one. */
  items(project: string, deadlineMs: number): number {
    let items = this.#recent.items(project, deadlineMs);
    for (const group of this.#waiting)
      if (group.project === project && group.deadlineMs <= deadlineMs) items += group.items;
    return items;
  }

  /** Nothing is entered any more. */
  close(): void {
    this.#timer?.cancel();
    this.#waiting = [];
  }

  #enterAll(): void {
    this.#timer = undefined;
    for (const group of this.#waiting.splice(0)) {
      this.#recent.add(group);
      group.enter();
    }
  }
}
