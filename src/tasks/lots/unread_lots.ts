/**
 * Lots that no run has read yet: admission counts them in addition to what the engine knows.
 *
 * The search runs at most ten times a second, as often as the engine reads its own work (engine/lanes/forecasts.ts), so that both do not
 * miss a lot that begins in between. Lots opened in between are added at once.
 */
import type { Clock } from "../../clock.ts";
import type { Lot } from "./lot.ts";

const KEPT_MS = 100;

export class UnreadLots {
  readonly #clock: Clock;
  /** By project. */
  readonly #lots = new Map<string, Lot[]>();
  #foundMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Adds a lot that was just opened. */
  add(lot: Lot): void {
    const { project } = lot.record;
    const lots = this.#lots.get(project) ?? [];
    lots.push(lot);
    this.#lots.set(project, lots);
  }

  /** Items of a project in lots with a deadline (monotonic) up to this one; `open` are all that are not over. */
  items(project: string, deadlineMs: number, open: Iterable<Lot>): number {
    const nowMs = this.#clock.nowMs();
    if (nowMs - this.#foundMs >= KEPT_MS) {
      this.#foundMs = nowMs;
      this.#lots.clear();
      for (const lot of open) if (!lot.isLive) this.add(lot);
    }
    let items = 0;
    for (const lot of this.#lots.get(project) ?? [])
      if (lot.deadlineMs <= deadlineMs) items += lot.record.items;
    return items;
  }
}
