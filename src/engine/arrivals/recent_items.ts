/**
 * Items accepted a moment ago: shared forecasts may not have seen them in their lanes yet (forecasts.ts).
 */
import type { Clock } from "../../clock.ts";

/** The greatest age of a shared forecast. */
export const RECENT_MS = 100;

export interface RecentGroup {
  readonly project: string;
  /** Monotonic. */
  readonly deadlineMs: number;
  readonly items: number;
}

/** One for an engine. */
export class RecentItems {
  readonly #clock: Pick<Clock, "nowMs">;
  #recent: (RecentGroup & { readonly atMs: number })[] = [];

  constructor(clock: Pick<Clock, "nowMs">) {
    this.#clock = clock;
  }

  add({ project, deadlineMs, items }: RecentGroup): void {
    this.#forgetOld();
    this.#recent.push({ project, deadlineMs, items, atMs: this.#clock.nowMs() });
  }

  /** Items of a project with a deadline (monotonic) up to this one. */
  items(project: string, deadlineMs: number): number {
    this.#forgetOld();
    let items = 0;
    for (const recent of this.#recent)
      if (recent.project === project && recent.deadlineMs <= deadlineMs) items += recent.items;
    return items;
  }

  #forgetOld(): void {
    const sinceMs = this.#clock.nowMs() - RECENT_MS;
    const first = this.#recent.findIndex(({ atMs }) => atMs > sinceMs);
    if (first !== 0) this.#recent = first < 0 ? [] : this.#recent.slice(first);
  }
}
