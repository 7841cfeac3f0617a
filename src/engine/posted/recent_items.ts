/**
 * Items that were accepted a moment ago: forecasts that many share may not have seen them in their lanes yet (outlook.ts).
 */
import type { Clock } from "../../clock.ts";

/** As old as a forecast may be that others share. */
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

  /** Of a project, with a deadline (monotonic) of at most so much. */
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
